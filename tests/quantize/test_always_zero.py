"""Tensors that are always 0 or constant while ranges are measured: no kernel ends the process for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.kernels.cases import CASES
from tests.quantize.programs import Builder, quantize, run, samples, scale_of
from thinflow.ir.types import BOOL
from thinflow.quantize.kernels.litert import BY_SCHEME
from thinflow.quantize.recipe import Quantized
from thinflow.tflite.model import Program
from thinflow.tflite.writer import to_bytes

# Kernels end the process with an assertion of C++, which only another process survives.
CHILD = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
for path in sys.argv[1:]:
    for kind in (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        print(path, flush=True)
        session = Interpreter(path, experimental_op_resolver_type=kind)
        session.allocate_tensors()
        for level in (0, 1):
            for detail in session.get_input_details():
                session.set_tensor(detail["index"], np.full(detail["shape"], level, detail["dtype"]))
            session.invoke()
            for detail in session.get_output_details():
                assert level or np.isfinite(session.get_tensor(detail["index"])).all()
"""


def run_in_child(files: dict[str, bytes], folder: Path) -> None:
    """Run each file in one process, which the test survives; tells which file ended it."""
    for name, content in files.items():
        (folder / f"{name}.tflite").write_bytes(content)
    paths = [str(folder / f"{name}.tflite") for name in files]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, (done.stdout.splitlines()[-1:], done.stderr[-400:])


def zero_feeds(program: Program, which: slice) -> list[dict[str, np.ndarray]]:
    """Samples in which the inputs of a slice are 0."""
    feeds = samples(program, 4)
    for feed in feeds:
        for name in list(feed)[which]:
            feed[name] = np.zeros_like(feed[name])
    return feeds


@pytest.mark.parametrize("scheme", BY_SCHEME)
def test_every_kernel_takes_inputs_that_are_always_zero(scheme: str, tmp_path: Path) -> None:
    files = {}
    for code in CASES.keys() & BY_SCHEME[scheme].table.keys():
        for which in (slice(0, 1), slice(1, None), slice(0, None)):
            builder = Builder()
            made = CASES[code](builder)
            program = builder.program(*(made if isinstance(made, list) else [made]))
            found = quantize(program, zero_feeds(program, which), scheme=scheme, float_parts=())
            assert not found.float_operators, code
            files[f"{code}_{which.start}_{which.stop}"] = to_bytes(found.program)
    run_in_child(files, tmp_path)


def quantized(builder: Builder, feeds: Any, *outputs: Any, scheme: str) -> Quantized[Program]:
    return quantize(builder.program(*outputs), feeds, scheme=scheme)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("scheme", BY_SCHEME)
def test_zeros_beside_numbers_of_any_size_stay_integers(scheme: str, size: float, tmp_path: Path) -> None:
    """A state that begins with zeros, a dead layer, and comparisons, for numbers of any size."""
    b = Builder()
    x, state = b.input(2, 8), b.input(2, 8)
    loud = b.op("FULLY_CONNECTED", x, b.normal(8, 8, scale=size), b.normal(8, scale=size))
    dead = b.op(
        "FULLY_CONNECTED", loud, b.normal(8, 8, scale=0.1), b.const(np.full(8, -100 * size)),
        fused_activation_function="RELU",
    )  # fmt: skip
    kept = b.op("MUL", loud, state, fused_activation_function="NONE")
    total = b.op("ADD", loud, kept, fused_activation_function="NONE")
    both = b.op("SUB", total, dead, fused_activation_function="NONE")
    after = b.op("FULLY_CONNECTED", dead, b.normal(8, 8, scale=0.1), b.normal(8, scale=size))
    program = b.program(both, after, b.op("MAXIMUM", dead, state))
    feeds = zero_feeds(program, slice(1, None))
    found = quantize(program, feeds, scheme=scheme)
    assert not found.float_operators
    run_in_child({"net": to_bytes(found.program)}, tmp_path)
    wanted, given = (run(p, *feeds[0].values())[0] for p in (program, found.program))
    assert np.abs(wanted - given).max() < np.abs(wanted).max() / 20


@pytest.mark.parametrize("scheme", BY_SCHEME)
def test_numbers_are_compared_with_a_constant_zero(scheme: str, tmp_path: Path) -> None:
    b = Builder()
    y = b.conv(b.input(1, 6, 6, 4), 5, act="NONE")
    program = b.program(b.op("GREATER", y, b.const(np.float32([0])), out=(BOOL,)))
    found = quantize(program, scheme=scheme, float_parts=())
    assert not found.float_operators
    run_in_child({"compared": to_bytes(found.program)}, tmp_path)


@pytest.mark.parametrize("scheme", BY_SCHEME)
def test_channels_and_weights_that_are_zero_or_constant(scheme: str, tmp_path: Path) -> None:
    b = Builder()
    x = b.input(1, 8, 8, 4)
    w = np.random.default_rng(0).normal(size=(6, 3, 3, 4))
    w[0], w[1, :, :, 1], w[2] = 0, 0, 0
    bias = np.array([0, 1, 2, 0, 0, 0], np.float32)
    options = dict(padding="SAME", stride_w=1, stride_h=1, fused_activation_function="RELU")
    y = b.op("CONV_2D", x, b.const(w), b.const(bias), **options)
    z = b.op("CONV_2D", x, b.const(np.zeros((6, 3, 3, 4))), b.const(np.zeros(6)), **options)
    same = b.op("CONV_2D", x, b.const(np.zeros((6, 3, 3, 4))), b.const(np.full(6, 3.0)), **options)
    total = b.op("ADD", b.op("ADD", y, z), same)
    program = b.program(total, z, same)
    found = quantize(program, scheme=scheme)
    assert not found.float_operators
    run_in_child({"constant": to_bytes(found.program)}, tmp_path)
    feed = samples(program, 1, seed=8)[0]["in0"]
    wanted, given = run(program, feed), run(found.program, feed)
    assert np.abs(wanted[0] - given[0]).max() < np.abs(wanted[0]).max() / 50
    assert not given[1].any()
    assert np.abs(given[2] - 3).max() < 0.02


def test_what_is_always_zero_has_steps_like_those_around_it() -> None:
    b = Builder()
    x, state = b.input(2, 8), b.input(2, 8)
    y = b.op("FULLY_CONNECTED", x, b.normal(8, 8), b.normal(8))
    program = b.program(b.op("ADD", y, state, fused_activation_function="NONE"))
    found = quantize(program, zero_feeds(program, slice(1, None)))
    add = found.program.subgraphs[0].operators[-2]
    assert add.code == "ADD"
    state_scale, sum_scale = scale_of(add.inputs[1]), scale_of(add.outputs[0])
    assert state_scale == pytest.approx(sum_scale, rel=0.1)
    (decision,) = [d for d in found.decisions if d.tensor == "in1/int8"]
    assert decision.reason == "as others around it; it is always 0"
    assert not found.warnings


def test_onnx_runtime_takes_what_is_always_zero() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    dead = net.op("Relu", net.conv(net.op("Mul", net.x, np.float32([0]))), shape=(1, 4, 6, 6))
    total = net.op("Add", net.conv(net.x), dead)
    zero = net.op("Mul", total, np.zeros((1, 4, 1, 1), np.float32))
    y = net.op(
        "Concat", total, zero, net.op("MaxPool", zero, kernel_shape=[1, 1]), shape=(1, 12, 6, 6), axis=1
    )
    found = net.quantize(y)
    feed = net.samples(1)[0]
    for wanted, given in zip(
        onnx_programs.run(net.program, feed), onnx_programs.run(found.program, feed), strict=True
    ):
        assert np.abs(wanted - given).max() < np.abs(wanted).max() / 30
        assert not given[:, 4:].any()
