"""What the API returns shows in a line what it is: never bytes, whole arrays or all that was found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow import api, zoo
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import FLOAT
from thinflow.ops.tensor_array import Elements
from thinflow.quantize.sample_files import Scaling

MOST = 500
_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, Path, type)


def results(folder: Path) -> Iterator[Any]:
    """What calls of the public functions return."""
    model, data = folder / "digits.pb", zoo.test_set("digits")
    zoo.write("digits", model)
    images = data["image"][:120]
    graph = thinflow.load(model)
    yield graph
    yield thinflow.summarize(graph)
    ledger = api.transform_with_ledger(graph, "strip_unused_nodes fold_constants fold_old_batch_norms")
    small = ledger.graph
    yield ledger
    quantized = thinflow.quantize(graph, images)
    yield quantized
    yield quantized.quantized.program
    yield thinflow.quantize(graph, images, scheme="float16")
    yield thinflow.convert(graph, folder / "digits.tflite")
    yield thinflow.diff(graph, small)
    yield api.describe_model(model)
    report = thinflow.benchmark(folder / "digits.tflite", runs=8)
    yield from (report, api.profile_rows(report))
    for source in (graph, folder / "digits.tflite"):
        session = thinflow.Session(source)
        session.run(None, {next(iter(session.inputs)): images[:1]})
        yield from (session, session.inputs, session.placement)
    yield thinflow.optimize(graph, folder / "out", calibration=images, seconds=0.05)
    yield thinflow.benchmark(graph, runs=8, memory=False, peaks=False)
    yield thinflow.verify(graph, small)
    yield thinflow.evaluate(graph, {"image": images, "labels": data["labels"][:120]})
    yield thinflow.compare(graph, small)
    yield api.quantize_to_file(graph, folder / "tuned.tflite", images, effort="best")
    yield Scaling(np.arange(4000.0), 2.0)


def parts(item: Any, seen: set[int]) -> Iterator[Any]:
    """A result, and all that can be reached from it by attributes and items, each once."""
    if isinstance(item, _PLAIN) or callable(item) or id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, Mapping):
        inner: list[Any] = [*item.keys(), *item.values()]
    elif isinstance(item, list | tuple | set | frozenset):
        inner = list(item)
    elif type(item).__module__.startswith("thinflow"):
        yield item
        inner = (
            [getattr(item, f.name) for f in dataclasses.fields(item)]
            if dataclasses.is_dataclass(item)
            else []
        )
    else:
        return
    for found in inner:
        yield from parts(found, seen)


def test_results_are_shown_in_a_line(tmp_path: Path) -> None:
    kept, seen, kinds = [], set[int](), set()
    for result in results(tmp_path):
        kept.append(result)  # so that no other object gets its id
        for part in parts(result, seen):
            kinds.add(type(part).__name__)
            shown = repr(part)
            assert len(shown) < MOST, f"{type(part)}: {shown[:200]}"
            assert "\n" not in shown, type(part)
    wanted = (
        "OptimizeReport QuantizedModel Quantized BenchmarkReport Row Verification Summary Diff Graph Tensor"
    )
    assert set(wanted.split()) <= kinds


def test_what_is_large_is_told_by_its_size() -> None:
    made = Holder(b"x" * 19_000_000, np.zeros((300, 4), np.float32), "n" * 99, [1] * 50, {"a": 1}, None)
    assert repr(made) == (
        "Holder(content=<19000000 bytes>, array=<float32[300, 4]>, "
        f"text='{'n' * 57}...', many=<list of 50>, few={{'a': 1}}, inner=None)"
    )
    assert "inner=<Holder>" in repr(dataclasses.replace(made, inner=made))
    assert len(repr(Wide(*["y" * 50] * 12))) < MOST


def test_a_report_shows_its_verdict(tmp_path: Path) -> None:
    zoo.write("digits", tmp_path / "digits.pb")
    report = thinflow.optimize(tmp_path / "digits.pb", tmp_path / "out", measure=False, verify=False)
    assert repr(report) == f"OptimizeReport({report.verdict!r})"


@brief_repr
@dataclasses.dataclass
class Holder:
    content: bytes
    array: Any
    text: str
    many: list[int]
    few: dict[str, int]
    inner: Any


Wide = brief_repr(dataclasses.make_dataclass("Wide", [(f"field_{i}", str) for i in range(12)]))


def test_what_stands_in_messages_has_no_address() -> None:
    """Tables, lists and tensor arrays of a run are named in errors, which are the same in every run."""
    assert repr(Elements(2, FLOAT, None, False)) == "<Elements>"
