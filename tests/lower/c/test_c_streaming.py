"""Networks over time that hear a few rows a run answer as the whole window does, frame by frame."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_answers import STRICT, litert
from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import Library
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.litert import take_sizes
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

FLAGS = ("-std=c99", "-O1", "-fPIC", "-shared", "-ffp-contract=off", *STRICT)
RELU = {"fused_activation_function": "RELU"}


def valid(net: Layers) -> None:
    net.conv(6, 3, 1, "VALID", **RELU)
    net.depthwise(1, 3, 1, "VALID")
    net.conv(4, 1)
    net.mean()


def padded(net: Layers) -> None:
    """As keyword networks have it: padding everywhere, and steps of two."""
    net.conv(6, 3, 2, "SAME", **RELU)
    net.depthwise(1, 3, 1, "SAME", **RELU)
    net.conv(5, 1, **RELU)
    net.pool("AVERAGE_POOL_2D", 3)
    net.reshaped(1, int(np.prod(net.sizes())))
    net.dense(4)
    net.softmax()


def residual(net: Layers) -> None:
    net.conv(4, 1)
    short = net.last
    net.conv(4, 3, 1, "SAME")
    net.binary("ADD", net.last, short, **RELU)
    net.unary("LOGISTIC")
    net.mean()


NETWORKS: list[Callable[[Layers], None]] = [valid, padded, residual]


def library(made: Network) -> Library:
    return Library(made, Writer(made, "net").files(), "net", FLAGS)


@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("build", NETWORKS)
def test_frame_by_frame(build: Callable[[Layers], None], kind: str) -> None:
    net = Layers(1, 24, 6, 1, kind=kind, seed=1)
    build(net)
    content = net.content()
    made = network(read_program(content), Options(stream=True))
    whole = network(read_program(content), Options())
    (_, hop, *rest) = made.block.inputs[0].shape or ()
    assert hop is not None
    assert hop < 24
    assert made.macs < whole.macs
    rng = np.random.default_rng(0)
    count = 24 + 6 * hop
    data = (
        rng.integers(-128, 128, (1, count, *rest))
        if kind == "int8"
        else rng.standard_normal((1, count, *rest))
    )
    sound: Array = data.astype("int8" if kind == "int8" else "float32")
    streamed, windowed = library(made), library(whole)
    engine = litert(content, "litert")
    (details,) = engine.get_input_details()
    compared = 0
    for end in range(hop, count + 1, hop):
        (y,) = streamed.run([np.ascontiguousarray(sound[:, end - hop : end])])
        if end < 24:
            continue
        window = np.ascontiguousarray(sound[:, end - 24 : end])
        (right,) = windowed.run([window])
        engine.set_tensor(details["index"], window)
        engine.invoke()
        official = engine.get_tensor(engine.get_output_details()[0]["index"])
        if kind == "int8":
            assert (y == right).all()
            assert (y == official).all()
        else:
            assert np.abs(y - official).max() <= 1e-5 * np.abs(official).max()
        compared += 1
    assert compared >= 6


def test_what_keeps_nothing_is_refused() -> None:
    net = Layers(1, 24)
    net.dense(5)
    why = "nothing of the network's window can be kept from .*: FULLY_CONNECTED '.*' reads all of its rows"
    with pytest.raises(UnsupportedOp, match=why) as raised:
        network(read_program(net.content()), Options(stream=True))
    assert raised.value.hint == "leave out --stream, or begin the network behind it with --inputs"


def test_a_stream_is_written_and_proven(tmp_path: Path) -> None:
    net = Layers(1, 24, 6, 1, seed=2)
    padded(net)
    (tmp_path / "net.tflite").write_bytes(net.content())
    made = thinflow.convert_verified(tmp_path / "net.tflite", tmp_path / "ears.c", stream=True)
    assert "as a stream it answered as the whole window did, in 6 runs" in made.proof
    assert any(note.endswith("answers hold from run 12 on") for note in made.notes)
    header = (tmp_path / "ears.h").read_text()
    assert "void ears_run(ears_state *state, const int8_t *input, int8_t *output);" in header
    assert "#define EARS_INPUT_SIZE 12" in header
    # On the device a sample goes in run by run; the answer behind its last row is that of the whole window.
    (tmp_path / "main.c").write_text('#include "ears.h"\nint main(void)\n{\n    return ears_selftest();\n}\n')
    built = ["cc", "-std=c99", *STRICT, "-DEARS_SELFTEST", "main.c", "ears.c", "ears_weights.c", "-lm"]
    subprocess.run([*built, "-o", "test"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], cwd=tmp_path).returncode == 0
    text = (tmp_path / "ears.c").read_text()
    assert "for (int32_t run = 0; run < 12; run++) {" in text
    (tmp_path / "ears.c").write_text(text.replace("run < 12", "run < 2"))
    subprocess.run([*built, "-o", "short"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "short"], cwd=tmp_path).returncode > 0
    with pytest.raises(ParameterError, match=r"a stream goes with \.c files only"):
        thinflow.convert_verified(tmp_path / "net.tflite", tmp_path / "net.pb", stream=True)


@pytest.mark.parametrize("is_loop", [True, False])
def test_loops_and_branches_read_a_window_that_moved_on_once(is_loop: bool) -> None:
    """As recurrent layers do, round by round; a side of a branch may not be taken."""
    net = Layers(1, 12, 1, 2, kind="float", seed=3)
    net.weighted("CONV_2D", (2, 3, 1, 2), 0, (1, 10, 1, 2), padding="VALID", stride_h=1, stride_w=1)
    rows, int32 = net.last, dtype("int32")

    def number(name: str, value: int | None = None) -> Tensor:
        return Tensor(name, (), int32, None if value is None else np.array(value, np.int32))

    def block(name: str) -> tuple[Tensor, Tensor, Tensor]:
        return (
            number(f"{name}/n"),
            Tensor(f"{name}/rows", rows.shape, FLOAT),
            Tensor(f"{name}/sum", (1, 2), FLOAT),
        )

    axes, y = Tensor("axes", (2,), int32, np.int32([1, 2])), Tensor("y", (1, 2), FLOAT)
    n, read, before = block("body")
    mean, after, more = Tensor("mean", (1, 2), FLOAT), Tensor("after", (1, 2), FLOAT), number("more")
    sums = [Operator("MEAN", [read, axes], [mean]), Operator("ADD", [before, mean], [after])]
    begin = Tensor("begin", (1, 2), FLOAT, np.ones((1, 2), np.float32))
    if is_loop:
        m, all_rows, last = block("condition")
        fewer = Tensor("fewer", (), dtype("bool"))
        condition = Subgraph([m, all_rows, last], [fewer], [Operator("LESS", [m, number("3", 3)], [fewer])])
        steps = [*sums, Operator("ADD", [n, number("1", 1)], [more])]
        others = [condition, Subgraph([n, read, before], [more, read, after], steps)]
        outputs = [number("times"), Tensor("same", rows.shape, FLOAT), y]
        parts = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
        flow = [Operator("WHILE", [number("0", 0), rows, begin], outputs, parts)]
    else:
        x = net.block.inputs[0]
        zero, most, is_high = (
            Tensor("zero", (), FLOAT, np.array(0, np.float32)),
            Tensor("most", (), FLOAT),
            Tensor("high", (), dtype("bool")),
        )
        all_axes = Tensor("all", (4,), int32, np.int32([0, 1, 2, 3]))
        same, given = Tensor("else/rows", rows.shape, FLOAT), Tensor("else/sum", (1, 2), FLOAT)
        others = [Subgraph([read, before], [after], sums), Subgraph([same, given], [given], [])]
        parts = {"then_subgraph_index": 1, "else_subgraph_index": 2}
        flow = [
            Operator("MEAN", [x, all_axes], [most]),
            Operator("GREATER", [most, zero], [is_high]),
            Operator("IF", [is_high, rows, begin], [y], parts),
        ]
    net.block.operators += flow
    net.block.outputs[:] = [y]
    content = to_bytes(Program([net.block, *others]))
    # What is only handed on has no tensor in LiteRT, and the sizes of the others are as the file says.
    sized = read_program(content).subgraphs[0]
    take_sizes(sized, content)
    assert [t.shape for t in sized.tensors()] == [t.shape for t in net.block.tensors()]
    made, whole = (network(read_program(content), Options(stream=s)) for s in (True, False))
    streamed, windowed = library(made), library(whole)
    assert made.block.inputs[0].shape == (1, 1, 1, 2)
    sound = np.random.default_rng(0).standard_normal((1, 24, 1, 2)).astype(np.float32)
    for end in range(1, 25):
        (got,) = streamed.run([np.ascontiguousarray(sound[:, end - 1 : end])])
        if end >= 12:
            (wanted,) = windowed.run([np.ascontiguousarray(sound[:, end - 12 : end])])
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
