"""Whole eight-bit graphs, as the transforms make them, on ONNX Runtime against the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.engines.onnxruntime import overflow_on
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8

pytest.importorskip("onnxruntime")

RECIPE = (
    "add_default_attributes strip_unused_nodes(type=float, shape='{shape}') "
    "remove_nodes(op=Identity, op=CheckNumerics) fold_constants(ignore_errors=true) fold_batch_norms "
    "fold_old_batch_norms quantize_weights quantize_nodes strip_unused_nodes sort_by_execution_order"
)
Array = np.ndarray[Any, Any]


def eight_bit(source: Graph | Path, feed: str, fetch: str, shape: str) -> Graph:
    """A graph after the guides' eight-bit recipe; its ranges are measured in each run."""
    return thinflow.transform(source, RECIPE.format(shape=shape), [feed], [fetch], verify=False)


def frozen(graph: Graph, samples: Iterable[Array], folder: Path) -> Graph:
    """The graph with the ranges that some samples use."""
    log = folder / "ranges.txt"
    names = [node.name for node in graph if node.op == "RequantizationRange"]
    session = thinflow.Session(graph, engine="reference")
    fetched = [f"{name}:{port}" for name in names for port in (0, 1)]
    with log.open("w") as file:
        for sample in samples:
            ends = session.run(fetched, {graph.inputs[0].name: sample})
            for name, low, high in zip(names, ends[::2], ends[1::2], strict=True):
                file.write(f";{name}__print__;__requant_min_max:[{low}][{high}]\n")
    return thinflow.transform(graph, f"freeze_requantization_ranges(min_max_log_file='{log}')", verify=False)


def answers(graph: Graph, engine: str, samples: Sequence[Array]) -> Array:
    session = thinflow.Session(graph, engine=engine)
    feed, fetch = graph.inputs[0].name, graph.outputs[0].name
    found = np.concatenate([session.run([fetch], {feed: x})[0] for x in samples])
    if engine == "onnxruntime":
        placement = list(session.placement.values())
        assert placement.count("onnxruntime") > 0.9 * len(placement)  # five nodes of digits' dropout stay out
    return found


def check_answers(graph: Graph, samples: Sequence[Array], least: float, apart: float = 0.02) -> None:
    """Nearly all top answers are the reference's, and probabilities are close to its own on average."""
    found, wanted = (answers(graph, engine, samples) for engine in ("onnxruntime", "reference"))
    assert np.mean(found.argmax(axis=-1) == wanted.argmax(axis=-1)) >= least
    assert float(np.abs(found - wanted).mean()) < apart


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, list[Array]]:
    data = files("thinflow") / "data"
    images = np.load(str(data / "digits_test.npz"))
    pictures = next(images[name] for name in images.files if images[name].ndim == 4).astype(np.float32)
    model = Path(str(data / "digits.pb"))
    return eight_bit(model, "image", "probabilities", "1,8,8,1"), [x[None] for x in pictures[:60]]


def test_measured_ranges(digits: tuple[Graph, list[Array]]) -> None:
    check_answers(*digits, least=0.95)


def test_frozen_ranges(digits: tuple[Graph, list[Array]], tmp_path: Path) -> None:
    graph, pictures = digits
    check_answers(frozen(graph, pictures[:8], tmp_path), pictures, least=0.95)


@pytest.mark.parametrize("ranges", ["measured", "frozen"])
@pytest.mark.parametrize("name", ["DS_CNN_S", "CNN_S", "DNN_S"])
def test_keyword_models(name: str, ranges: str, shared: Path, tmp_path: Path) -> None:
    model = shared / "models" / f"kws_{name}.pb"
    clips = sorted((shared / "data" / "kws").glob("*.wav"))[::12]
    if not model.exists() or not clips:
        pytest.skip("needs the keyword models and clips")
    source = thinflow.Session(str(model), engine="reference")
    features = [source.run([FEATURES], {"wav_data": clip.read_bytes()})[0] for clip in clips]
    shape = ",".join(map(str, features[0].shape))
    graph = eight_bit(model, FEATURES, "labels_softmax", shape)
    if ranges == "frozen":
        graph = frozen(graph, features[:6], tmp_path)
    # Rounding in TensorFlow's sums depends on the last bits of a range, so that clips in doubt go either way.
    check_answers(graph, features, least=0.8, apart=0.05)


FEATURES = "Reshape"
"""What the keyword models take the spectrum as."""


def _graph(weights: int, measuring: bool) -> Graph:
    """A product of codes, and the range of the result measured or not."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": QUINT8, "shape": ShapeAttr((1, weights))})
    w = graph.constant(Tensor.from_array(np.zeros((weights, 1), np.uint8), QUINT8), "w")
    low, high = (graph.constant(np.float32(end), "end") for end in (-1, 1))
    types = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}
    sums = graph.add("QuantizedMatMul", [x.output(), w, low, high, low, high], "sums", attrs=types)
    if measuring:
        graph.add("RequantizationRange", [sums.output(port) for port in range(3)], "range")
    return graph


def test_automatic_choice_for_many_weights_with_measured_ranges() -> None:
    assert thinflow.Session(_graph(200_000, measuring=True)).engine == "onnxruntime"
    for graph in (_graph(200_000, measuring=False), _graph(2_000, measuring=True)):
        assert thinflow.Session(graph).engine != "onnxruntime"


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [("x86_64", "fpu avx2 avx512_vnni", False), ("AMD64", "fpu avx2", True), ("aarch64", "", False)],
)
def test_processors_whose_sums_overflow(machine: str, flags: str, expected: bool, tmp_path: Path) -> None:
    description = tmp_path / "cpuinfo"
    description.write_text(f"processor : 0\nflags : {flags}\n")
    assert overflow_on(machine, description) is expected


def test_unknown_processor_is_taken_to_overflow(tmp_path: Path) -> None:
    assert overflow_on("x86_64", tmp_path / "none")
