"""What `inspect_checkpoint` and `inspect --stats` say of sound and of damaged checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import PARTS, V1_VALUES, partitioned, v1_entries, write_table
from tests.load.builders import write_values
from thinflow.cli import main

Out = pytest.CaptureFixture[str]


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    values = {"a": np.float32([0, 1, 5]), "b": np.float32([np.nan, np.inf, 2]), "t": np.array([b"x"], object)}
    write_values(tmp_path / "m", values)
    return tmp_path / "m"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_sound_checkpoints(prefix: Path, capsys: Out) -> None:
    assert main(["inspect_checkpoint", "--file_name=m", "--verify_checksum"]) == 0
    assert capsys.readouterr().out == "# Verified 3 tensors, 0 of them damaged\n"
    write_table(prefix.parent / "old", v1_entries(V1_VALUES))
    assert main(["inspect_checkpoint", "--file_name=old", "--verify_checksum=true"]) == 0
    assert capsys.readouterr().out == "# Verified 4 tensors, 0 of them damaged\n"


def test_damage_is_told_by_variable_shard_and_offset(prefix: Path, capsys: Out) -> None:
    flip(Path("m.data-00000-of-00001"), 15)
    assert main(["inspect_checkpoint", "--file_name=m", "--verify_checksum"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "b: m.data-00000-of-00001, byte 12: the checksum of 'b' is wrong",
        "# Verified 3 tensors, 1 of them damaged",
    ]


def test_a_missing_shard_leaves_nothing_sound(prefix: Path, capsys: Out) -> None:
    Path("m.data-00000-of-00001").unlink()
    assert main(["inspect_checkpoint", "--file_name=m", "--verify_checksum"]) == 1
    out = capsys.readouterr().out
    assert out.count("the values of this checkpoint are in a file that is not there") == 3
    assert out.endswith("# Verified 3 tensors, 3 of them damaged\n")


def test_damage_of_version_1_is_told_by_block(prefix: Path, capsys: Out) -> None:
    flip(write_table(prefix.parent / "old", v1_entries(V1_VALUES)), 30)
    assert main(["inspect_checkpoint", "--file_name=old", "--verify_checksum"]) == 1
    assert "old, byte 0: the checksum of a block is wrong" in capsys.readouterr().err


def test_parts_are_listed_by_their_keys(tmp_path: Path, capsys: Out) -> None:
    prefix = partitioned(tmp_path, PARTS, (5, 4))
    assert main(["inspect_checkpoint", f"--file_name={prefix}"]) == 0
    *lines, _, _ = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PARTS)
    assert all(line.startswith("\\x00v\\x00\\x01") for line in lines)


def test_parts_of_version_1_are_counted(tmp_path: Path, capsys: Out) -> None:
    from thinflow.formats.slices import Slice, encode_key
    from thinflow.wire import protos

    entries = v1_entries({"w": np.zeros((2, 2), np.float32)})
    directory = entries[b""]
    for start in (0, 1):
        stored = protos.message("SavedTensorSlices")()
        stored.data.name = "w"
        stored.data.data.float_val.extend([start, start + 0.5])
        entries[encode_key(b"w", Slice(((start, 1), (0, -1))))] = protos.serialize(stored)
    parts = {key: value for key, value in entries.items() if key == b"" or b"\x81" in key}
    assert directory == parts[b""]
    write_table(tmp_path / "m", parts)
    assert main(["inspect_checkpoint", f"--file_name={tmp_path / 'm'}"]) == 0
    assert capsys.readouterr().out == "w (DT_FLOAT) [2,2], 2 slices\n\n# Total number of params: 4\n"


def test_stats(prefix: Path, capsys: Out) -> None:
    assert main(["inspect", str(prefix), "--stats"]) == 0
    first, _, a, b, t, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("; all checksums are right")
    assert a.endswith("min 0  max 5  mean 2")
    assert b.endswith("min 2  max 2  mean 2  1 NaN  1 infinite")
    assert t.split()[:2] == ["t", "string[1]"]


def test_stats_of_damage(prefix: Path, capsys: Out) -> None:
    flip(Path("m.data-00000-of-00001"), 15)
    assert main(["inspect", str(prefix), "--stats"]) == 1
    first, _, _, b, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("1 DAMAGED, first 'b'")
    assert "DAMAGED: " in b
    assert "byte 12: the checksum of 'b' is wrong" in b
    assert main(["inspect", str(prefix), "--stats", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["damaged"] == ["b"]
    a, b, _ = data["variables"]
    assert a["stats"] == {"minimum": 0, "maximum": 5, "mean": 2, "nans": 0, "infinities": 0}
    assert (a["problem"], b["stats"]) == (None, None)
    assert b["places"] == [{"file": f"{prefix}.data-00000-of-00001", "offset": 12, "bytes": 12}]


def test_stats_of_something_else(model: str, capsys: Out) -> None:
    assert main(["inspect", model, "--stats"]) == 1
    assert "--stats goes with a checkpoint only" in capsys.readouterr().err


def test_the_list_for_machines(prefix: Path, capsys: Out) -> None:
    assert main(["inspect_checkpoint", f"--file_name={prefix}", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["format"], data["path"], data["prefix"]) == ("checkpoint", str(prefix), str(prefix))
    assert main(["inspect_checkpoint", f"--file_name={prefix}"]) == 0
    listed = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines() if " (DT_" in line]
    assert sorted(v["name"] for v in data["variables"]) == sorted(listed)
    assert all({"dtype", "shape", "bytes", "slices"} <= set(v) for v in data["variables"])
    assert "stats" not in data["variables"][0]  # no value is read for it
    assert "damaged" not in data
