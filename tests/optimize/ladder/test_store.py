"""Results that are kept between runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thinflow.optimize.ladder import store as store_module
from thinflow.optimize.ladder.measured import Latency, Measured
from thinflow.optimize.ladder.store import Store, digest_of, samples_digest
from thinflow.optimize.quality import Quality, Score
from thinflow.optimize.samples import Samples
from thinflow.optimize.trials import Trial
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile

FOUND = Measured(
    "int8 (fast)",
    "int8",
    "fast",
    recipe=Recipe(rounding="gptq", skip_nodes=("head",)),
    digest="d",
    size_bytes=100,
    ram_bytes=10,
    quality=Quality(20, 19, sqnr_db=float("inf"), outputs=("y",), logits=Score(9.0, 1.0, 19, 20)),
    latency=Latency(1, 2, 0.4, 0.6),
    seconds=1.5,
    trials=[Trial("as asked for", 30.0, True, 0.95, 0.1)],
    warnings=["few samples"],
    note="a note",
)


def kept(folder: Path) -> Store:
    store = Store(folder, ["model", "samples"])
    store.write(FOUND, "int8_fast", "scheme", "fast", RecipeFile(FOUND.recipe))
    return store


def test_a_result_comes_back_as_it_was(tmp_path: Path) -> None:
    store = kept(tmp_path / "ladder")
    assert store.read("int8_fast", "scheme", "fast") == FOUND
    assert store.read("int8_none", "scheme", "none") is None
    assert store.note == ""
    assert sorted(p.name for p in (tmp_path / "ladder").iterdir()) == ["int8_fast.json", "int8_fast.toml"]


@pytest.mark.parametrize("about", [["another model", "samples"], ["model", "other samples"], ["model"]])
def test_results_of_another_run_are_left_with_a_word(tmp_path: Path, about: list[str]) -> None:
    kept(tmp_path)
    store = Store(tmp_path, about)
    assert store.read("int8_fast", "scheme", "fast") is None
    assert store.note == (
        "1 result is of another model, other samples, other settings or another version, or not whole, and"
        f" made anew (int8_fast.json in {tmp_path})"
    )


def test_another_recipe_or_effort_is_another_candidate(tmp_path: Path) -> None:
    store = kept(tmp_path)
    assert store.read("int8_fast", "another scheme", "fast") is None
    assert store.read("int8_fast", "scheme", "best") is None
    assert store.note.startswith("2 results are of another model")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        {"size_bytes": "large"},
        {"size_bytes": -1},
        {"seconds": float("nan")},
        {"quality": None},
        {"quality": {"outputs": []}, "latency": 5},
        {"latency": {"ms": 1}},
        {"trials": [{}]},
        {"unknown": 1},
    ],
)
def test_what_is_not_whole_is_made_anew(tmp_path: Path, content: Any) -> None:
    store = kept(tmp_path)
    path = tmp_path / "int8_fast.json"
    if isinstance(content, dict):
        data = json.loads(path.read_bytes())
        data["figures"] |= content
        # As if somebody had counted it out: what does not fit is found all the same.
        data["digest"] = store_module._digest(data["figures"], (tmp_path / "int8_fast.toml").read_bytes())
        content = json.dumps(data).encode()
    path.write_bytes(content)
    assert store.read("int8_fast", "scheme", "fast") is None
    assert store.foreign == ["int8_fast.json"]


def test_figures_that_were_changed_by_hand_are_no_measurement(tmp_path: Path) -> None:
    store = kept(tmp_path)
    path = tmp_path / "int8_fast.json"
    path.write_text(path.read_text("utf-8").replace('"size_bytes": 100', '"size_bytes": 1'), "utf-8")
    assert store.read("int8_fast", "scheme", "fast") is None


def test_a_recipe_that_was_changed_by_hand_is_not_what_was_measured(tmp_path: Path) -> None:
    store = kept(tmp_path)
    path = tmp_path / "int8_fast.toml"
    path.write_text(path.read_text("utf-8").replace("gptq", "nearest"), "utf-8")
    assert store.read("int8_fast", "scheme", "fast") is None
    path.unlink()
    assert store.read("int8_fast", "scheme", "fast") is None


class Named:
    name = "x"


def digest(array: Any, labels: list[int] | None = None) -> str:
    feed: Any = {Named(): np.asarray(array)}
    return samples_digest(Samples(lambda: iter([feed]), 1, False, labels=labels))


def test_digests_tell_samples_apart() -> None:
    ones = np.ones((2, 3), np.float32)
    assert digest(ones) == digest(ones.copy())
    others = [ones * 2, ones.T, ones.astype(np.float64), np.array([b"a", b"b"], object)]
    found = [digest(ones), digest(ones, [1]), *map(digest, others)]
    assert len(set(found)) == len(found)
    assert digest(np.asfortranarray(ones[:, :2])) == digest(np.ascontiguousarray(ones[:, :2]))
    assert digest_of("ab", "c") != digest_of("a", "bc")
