"""What belongs together in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thinflow.errors import ParameterError
from thinflow.survey.units import find_units


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))


def names(folder: Path) -> dict[str, list[str]]:
    """Name of each unit -> names of its files."""
    return {unit.name: [path.name for path in unit.members] for unit in find_units([folder])}


def test_files_of_a_checkpoint_are_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        *("checkpoint", "m.ckpt-7.index", "m.ckpt-7.meta", "m.ckpt-7.data-00000-of-00002"),
        *(
            "m.ckpt-7.data-00001-of-00002",
            "alone.data-00000-of-00001",
            "old.ckpt",
            "old.ckpt.meta",
            "other.meta",
        ),
    )
    shards = ["m.ckpt-7.data-00000-of-00002", "m.ckpt-7.data-00001-of-00002", "m.ckpt-7.index"]
    assert names(tmp_path) == {
        "alone.data-00000-of-00001": ["alone.data-00000-of-00001"],
        "m.ckpt-7.meta": [*shards, "m.ckpt-7.meta"],
        "old.ckpt.meta": ["old.ckpt", "old.ckpt.meta"],
        "other.meta": ["other.meta"],
    }
    found = {unit.name: unit.opening for unit in find_units([tmp_path])}
    assert found["m.ckpt-7.meta"] == {"checkpoint": str(tmp_path / "m.ckpt-7")}
    assert found["other.meta"] == {}


def test_a_web_model_takes_its_shards(tmp_path: Path) -> None:
    write(tmp_path, "group1-shard1of2.bin", "group1-shard2of2.bin", "loose.bin")
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin", "lost.bin"]
    (tmp_path / "model.json").write_text(json.dumps({"weightsManifest": [{"paths": paths}]}))
    (tmp_path / "other.json").write_text('{"weightsManifest": 7}')
    assert names(tmp_path) == {
        "loose.bin": ["loose.bin"],
        "model.json": ["model.json", *paths[:2]],
        "other.json": ["other.json"],
    }


def test_a_saved_model_is_its_folder(shared: Path) -> None:
    folder = shared / "formats" / "sm_tf1"
    (unit,) = find_units([folder])
    assert unit.name == "sm_tf1"
    assert {"saved_model.pb", "variables.index"} <= {path.name for path in unit.members}
    assert unit.size_bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_several_roots_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "old/a.pb", "new/a.pb", "new/.git/b.pb")
    roots = [tmp_path / "old", tmp_path / "new", tmp_path / "old" / "a.pb"]
    assert [unit.name for unit in find_units(roots)] == ["old/a.pb", "new/a.pb", "a.pb"]
    with pytest.raises(ParameterError, match="no such file or folder"):
        find_units([tmp_path / "none"])


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path)
    write(tmp_path, "a.pb")
    assert list(names(tmp_path)) == ["a.pb"]
