"""Ranges of samples that were looked at in parts: those of one walk over all of them, bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow.errors import ParameterError
from thinflow.ir.types import DType, dtype
from thinflow.quantize import observers
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.feeds import open_feeds
from thinflow.quantize.observers import Mergeable, State, Watcher, histogram
from thinflow.quantize.parted import PartSeen, PartWatcher, Walk, Watch, calibrate_in_parts
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.runners import Feed
from thinflow.tflite.model import Program

SIZES = (1, 4, 2, 9, 3)


class Parts:
    """Samples in parts of unequal sizes; each goes through bytes, as between machines."""

    count = None

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.feeds = feeds

    def parts_seen(
        self, watch: Watch, walk: Walk, before: Callable[[int], Sequence[State]]
    ) -> Iterator[tuple[int, PartSeen]]:
        first = 0
        for number, size in enumerate(SIZES):
            there, work = pickle.loads(pickle.dumps((watch, (walk, before(number)))))
            some = self.feeds[first : first + size]
            found = PartSeen.of_content(PartWatcher(there).look(*work, some, first).content())
            assert found is not None
            yield size, found
            first += size

    def place(self, number: int) -> str:
        return f"file {number}"


def a_network() -> Program:
    b = Builder()
    x = b.input(1, 16, 16, 3)
    y = b.conv(b.conv(x, 5), 4, act="NONE")
    return b.program(b.op("SOFTMAX", b.op("LOG", y), beta=1.0))


def feeds() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    made = [
        {"in0": rng.standard_normal((1, 16, 16, 3)).astype(np.float32) * scale}
        for scale in rng.uniform(0.1, 3, sum(SIZES))
    ]
    made[9]["in0"][0, 0, 0, 0] = np.nan
    return made


@pytest.mark.parametrize("name", observers.names())
def test_ranges_of_parts_are_those_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that of each tensor some values are counted only, others in each sample.
    monkeypatch.setattr(histogram, "MOST_COUNTED", 100)
    program, recipe = a_network(), Recipe(observer=name)
    one, many = calibrate(program, feeds(), recipe), calibrate_in_parts(program, Parts(feeds()), recipe)
    assert many.ranges == one.ranges
    assert one.ranges
    assert many.samples == one.samples == sum(SIZES) - 1
    assert many.not_finite == one.not_finite
    assert many.not_finite
    assert many.left_out == {"file 9": "in0"}


def test_progress_counts_samples_of_all_walks() -> None:
    parts, told = Parts(feeds()), []
    parts.count = sum(SIZES)  # type: ignore[assignment]
    calibrate_in_parts(
        a_network(), parts, Recipe(observer="mse"), progress=lambda done, total, _: told.append((done, total))
    )
    assert told[0] == (1, 38)
    assert told[-1] == (38, 38)


def test_an_observer_that_cannot_merge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(observers._REGISTRY, "stubborn", Watcher)
    with pytest.raises(ParameterError, match="observer 'stubborn' cannot see samples in parts"):
        calibrate_in_parts(a_network(), Parts(feeds()), Recipe(observer="stubborn"))
    assert all(isinstance(observers.make(n), Mergeable) for n in observers.names() if n != "stubborn")


def test_what_is_damaged_is_no_result() -> None:
    watch = Watch(a_network(), [], [])
    content = PartWatcher(watch).look(Walk(0, []), [], [], 0).content()
    assert PartSeen.of_content(content) == PartSeen(seen=PartSeen.of_content(content).seen, states=[])  # type: ignore[union-attr]
    for odd in (b"", content[:-4], b"x" + content, b"\x00" * 40):
        assert PartSeen.of_content(odd) is None


@pytest.mark.parametrize("kind", ["folder", "npz", "npy", "arrays"])
def test_parts_of_a_source_are_its_samples(kind: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    images = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    if kind == "folder":
        for number, image in enumerate(images):
            np.save(tmp_path / f"{number}.npy", image)
    np.savez(tmp_path.parent / "a.npz", in0=images)
    np.save(tmp_path.parent / "a.npy", images)
    source = {"folder": tmp_path, "npz": tmp_path.parent / "a.npz", "npy": tmp_path.parent / "a.npy"}
    found = open_feeds(source.get(kind, {"in0": images}), a_spec(), limit=7)
    assert found.part is not None
    whole = [feed["in0"].tolist() for feed in found]
    part = pickle.loads(pickle.dumps(found.part([1, 2, 5])))
    assert [feed["in0"].tolist() for feed in part] == [whole[n] for n in (1, 2, 5)]
    # Of files it is known when they are the same; of arrays in memory it is not.
    assert bool(part.identity) == (kind != "arrays")
    assert kind == "arrays" or part.identity != found.part([1, 2, 4]).identity


def a_spec():  # type: ignore[no-untyped-def]
    from thinflow.ir.types import FLOAT, TensorSpec

    return {"in0": TensorSpec(FLOAT, (1, 4))}


def test_types_stay_the_ones_they_are_when_sent() -> None:
    for one in (dtype("float"), dtype("string"), dtype(77)):
        back = pickle.loads(pickle.dumps(one))
        assert isinstance(back, DType)
        assert back == one
    assert pickle.loads(pickle.dumps(dtype("string"))) is dtype("string")
