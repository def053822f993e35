"""Advice that names a transform is followed here, on a model that gets it: answers stay, or it said not."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.loops import while_loop
from tests.transforms.golden import parse_graph
from tests.transforms.unrolled_layers import Network
from thinflow.api import measure_batch_norms, measure_ranges, transform_names
from thinflow.cli import main
from thinflow.errors import FeedError, UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.tflite.convert import lower_graph
from thinflow.optimize.core import _loop_advice
from thinflow.zoo import digits

SOURCES = Path(thinflow.__file__).parent
Advice = tuple[Graph, str, str]
"""A model, what is said of it, and the transforms that follow from that."""

CHANGES = re.compile(r"chang\w* (the )?answers|answers change")
SPELLING = {
    ("explorer/folding.py", "strip_unused_nodes"),
    ("transforms/flow/library.py", "inline_partitionedcall"),
    ("transforms/downgrade/array.py", "inline_partitionedcall"),
    ("transforms/downgrade/array.py", "lower_control_flow"),
    ("transforms/quantized/fake_quants.py", "quantize_weights"),
    ("transforms/quantized/freeze_requantization_ranges.py", "insert_logging"),
    ("transforms/quantized/eight_bit.py", "freeze_requantization_ranges"),
    ("transforms/quantized/eight_bit.py", "quantize_nodes"),
    ("transforms/downgrade/target_runtime.py", "target_runtime"),
}
"""What tells how to write a transform that was asked for, and what another one says: no advice."""
HELP = re.compile(r"cli/(?:compat/)?(?!inspect)\w+\.py|transforms/pipelines\.py|lint/rules/\w+\.py")
"""Texts of `--help`, orders of transforms, and commands of the linter, which its own tests type."""
CASES: dict[tuple[str, str], Callable[[Path], Advice]] = {}


def advice(module: str, *names: str) -> Callable[[Callable[[Path], Advice]], Callable[[Path], Advice]]:
    """Register who gets it, under the module that gives it and the transforms that it names."""

    def register(case: Callable[[Path], Advice]) -> Callable[[Path], Advice]:
        CASES.update(dict.fromkeys(((module, name) for name in names), case))
        return case

    return register


def hint_of(graph: Graph) -> str:
    """What is advised where a graph cannot become a .tflite file."""
    with pytest.raises(UnsupportedOp) as caught:
        lower_graph(graph, graph.inputs, graph.outputs)
    return caught.value.hint or ""


def training_norm() -> Graph:
    return parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?,2,2,3]}\n"
        "s = Const() {dtype=float, value=float[3]{range}}\n"
        "e = Const() {dtype=float, value=float[0]{range}}\n"
        "y = FusedBatchNormV3(x, s, s, e, e) {T=float, U=float, is_training=true, epsilon=0.001}\n"
        "z = Relu(y) {T=float}\ninputs: x\noutputs: z\n"
    )


def frozen_norms(graph: Graph, folder: Path) -> str:
    path = folder / "statistics.npz"
    measure_batch_norms(graph, None, str(path))
    return f"freeze_batch_norms(statistics={path})"


@advice("cli/inspect.py", "freeze_batch_norms")
def inspected_norms(folder: Path) -> Advice:
    graph = training_norm()
    thinflow.save(graph, folder / "m.pb")
    text = spoken(["inspect", str(folder / "m.pb")])
    return (
        graph,
        next(line for line in text.splitlines() if "freeze_batch_norms" in line),
        "freeze_batch_norms",
    )


@advice("optimize/advice.py", "freeze_batch_norms")
def optimized_norms(folder: Path) -> Advice:
    graph = training_norm()
    report = thinflow.optimize(graph, folder / "out", measure=False, samples=2)
    text = next(w for w in report.warnings if "freeze_batch_norms" in w)
    assert any("-t freeze_batch_norms" in step for step in report.next_steps)
    return graph, text, "freeze_batch_norms"


@advice("optimize/advice.py", "reroll_recurrence")
def unrolled_layers(folder: Path) -> Advice:
    net = Network()
    steps = net.pieces(net.sequence(1, 8, 2), 8, "unpack")
    graph = net.finished(net.layer("simple", steps, 2, 2)[-1])
    report = thinflow.optimize(graph, folder / "out", measure=False, samples=2)
    assert any("-t reroll_recurrence" in step for step in report.next_steps)
    return graph, next(w for w in report.warnings if "unrolled" in w), "reroll_recurrence"


@advice("optimize/advice.py", "fold_old_batch_norms")
def norms_that_are_ops(folder: Path) -> Advice:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,4,4,2]}\n"
        "w = Const() {dtype=float, value=float[1,1,2,3]{normal 1}}\n"
        "scale = Const() {dtype=float, value=float[3]{1,2,3}}\n"
        "mean = Const() {dtype=float, value=float[3]{0,1,2}}\n"
        'conv = Conv2D(x, w) {T=float, padding="SAME", strides=[1,1,1,1]}\n'
        "y = FusedBatchNorm(conv, scale, mean, mean, scale) {T=float, is_training=false}\n"
        "inputs: x\noutputs: y\n"
    )
    thinflow.save(graph, folder / "m.pb")
    command = ["transform", str(folder / "m.pb"), str(folder / "n.pb"), "-t", "fold_batch_norms"]
    told = spoken(command).splitlines()
    *_, proposed = told
    assert proposed.endswith("n_2.pb -t fold_old_batch_norms --inputs x --outputs y")
    again = spoken(shlex.split(proposed.removeprefix("next: thinflow ")))
    assert "note: " not in again
    assert "next: thinflow inspect" in again
    return graph, next(line for line in told if "note: 1 batch norm is" in line), "fold_old_batch_norms"


@advice("interpreter/kernels.py", "set_training_switches")
def a_switch(folder: Path) -> Advice:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,4]}\n"
        "rate = Placeholder() {dtype=float, shape=shape[]}\n"
        "y = Mul(x, rate) {T=float}\ninputs: x, rate\noutputs: y\n"
    )
    alone = thinflow.load(graph, inputs=["x"])
    with pytest.raises(FeedError) as caught:
        thinflow.Session(alone, engine="reference").run(["y"], {"x": np.ones((1, 4), np.float32)})
    assert "set_training_switches(name=rate, value=...)" in (caught.value.hint or "")
    return graph, caught.value.hint or "", "set_training_switches(name=rate, value=2.5)"


def old_loop() -> Graph:
    """Three turns of tanh, as TensorFlow 1 writes a loop."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    start = graph.constant(np.int32(0), "start")

    def going_on(values):  # type: ignore[no-untyped-def]
        limit = graph.add("Enter", [graph.constant(np.int32(3), "n")], attrs=ENTERED).output()
        return graph.add("Less", [values[0], limit], "less", attrs={"T": INT32}).output()

    def turn(values):  # type: ignore[no-untyped-def]
        one = graph.add("Enter", [graph.constant(np.int32(1), "one")], attrs=ENTERED).output()
        i = graph.add("Add", [values[0], one], "i", attrs={"T": INT32}).output()
        return [i, graph.add("Tanh", [values[1]], "turned", attrs={"T": FLOAT}).output()]

    outs = while_loop(graph, "while", [start, x], going_on, turn)
    y = graph.add("Relu", [outs[1]], "y", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    return graph


ENTERED = {"frame_name": "while", "is_constant": True}


@advice("lower/control.py", "raise_control_flow")
def inside_a_loop(folder: Path) -> Advice:
    graph = old_loop()
    graph.outputs = [graph.node("turned").output()]
    text = hint_of(graph)
    return old_loop(), text, "raise_control_flow"


@advice("optimize/core.py", "raise_control_flow")
def a_loop_that_is_left(folder: Path) -> Advice:
    graph = old_loop()
    return graph, _loop_advice(graph.node("turned")), "raise_control_flow"


@advice("optimize/core.py", "lower_control_flow")
def a_call_that_is_left(folder: Path) -> Advice:
    graph = thinflow.transform(old_loop(), "raise_control_flow")
    loop = next(n for n in graph if "While" in n.op)
    return graph, _loop_advice(loop), "lower_control_flow"


@advice("lower/operands.py", "widen_floats")
def half_precision(folder: Path) -> Advice:
    graph = parse_graph(
        "x = Placeholder() {dtype=bfloat16, shape=shape[1,4]}\n"
        "y = Tanh(x) {T=bfloat16}\ninputs: x\noutputs: y\n"
    )
    return graph, hint_of(graph), "widen_floats"


@advice("lower/tflite/builder.py", "to_nhwc")
def channels_first(folder: Path) -> Advice:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,2,6,6]}\n"
        "w = Const() {dtype=float, value=float[3,3,2,4]{range}}\n"
        'y = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME", data_format="NCHW"}\n'
        "inputs: x\noutputs: y\n"
    )
    return graph, hint_of(graph), "to_nhwc"


@advice("decompose/windows.py", "to_nhwc")
def volumes_with_channels_first(folder: Path) -> Advice:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,2,4,6,6]}\n"
        'y = AvgPool3D(x) {T=float, ksize=[1,1,2,2,2], strides=[1,1,2,2,2], padding="VALID", '
        'data_format="NCDHW"}\n'
        "inputs: x\noutputs: y\n"
    )
    return graph, hint_of(graph), "to_nhwc"


@advice("lower/tflite/quantized_context.py", "freeze_requantization_ranges")
def ranges_found_anew(folder: Path) -> Advice:
    graph = thinflow.transform(digits.build(0), "quantize_weights quantize_nodes", verify=False)
    path = folder / "ranges.txt"
    measure_ranges(graph, None, str(path))
    return graph, hint_of(graph), f"freeze_requantization_ranges(min_max_log_file={path})"


def spoken(args: list[str]) -> str:
    """What a command prints."""
    import contextlib
    import io

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        assert main(args) == 0
    return told.getvalue()


# --- following it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", list(CASES), ids=" ".join)
def test_following_it(key: tuple[str, str], tmp_path: Path) -> None:
    graph, text, transforms = CASES[key](tmp_path)
    assert key[1] in text
    if transforms == "freeze_batch_norms":
        transforms = frozen_norms(graph, tmp_path)
    changed = thinflow.transform(graph, transforms, verify=False)
    assert changed != graph
    stays = thinflow.verify(graph, changed).ok  # it runs, too
    assert stays or CHANGES.search(text), text


def advising() -> Iterator[tuple[str, str]]:
    """Module and transform of every text in the sources that speaks of a transform."""
    names = re.compile(rf"\b({'|'.join(transform_names())})\b")
    for path in sorted(SOURCES.rglob("*.py")):
        module = path.relative_to(SOURCES).as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        documentation = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for part in ast.walk(tree):
            text = part.value if isinstance(part, ast.Constant) and id(part) not in documentation else ""
            if isinstance(text, str) and is_prose(text) and not HELP.fullmatch(module):
                yield from ((module, name) for name in names.findall(text))


def is_prose(text: str) -> bool:
    """Whether it says more than transforms and their options: two words in a row that are neither."""
    bare = re.sub(r"\([^)]*\)?", " ", text)
    words = [w for w in re.findall(r"[A-Za-z_]+", bare) if w not in transform_names()]
    return len(words) > 1


def test_every_advice_is_followed() -> None:
    assert set(advising()) == set(CASES) | SPELLING
