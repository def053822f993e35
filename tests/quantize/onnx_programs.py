"""Builds small ONNX programs by hand, quantizes them, and looks at what ONNX Runtime makes of them."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from thinflow.engines.onnxruntime import products_may_overflow, session_options
from thinflow.ir.types import FLOAT, dtype
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.onnx.writer import to_bytes
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.prepare import prepare
from thinflow.quantize.qdq import quantize_qdq
from thinflow.quantize.recipe import QdqOptions, Quantized, Recipe


class Net:
    """A program under construction: `net.op("Relu", x, shape=...)` adds an operator."""

    def __init__(self, *shape: int | None, opset: int = 17) -> None:
        self.rng = np.random.default_rng(3)
        self.x = Tensor("x", shape, FLOAT)
        self.program = Program([self.x], [], opset=opset)

    def const(self, array, name: str = "c") -> Tensor:
        array = np.asarray(array)
        return Tensor(
            f"{name}{len(self.program.operators)}_{id(array)}", array.shape, dtype(array.dtype), array
        )

    def op(self, code: str, *inputs, shape=None, count: int = 1, element=FLOAT, **options):
        """An operator of as many outputs; arrays among the inputs become constants."""
        number = len(self.program.operators)
        given = [t if t is None or isinstance(t, Tensor) else self.const(t) for t in inputs]
        shape = given[0].shape if shape is None else shape
        outputs = [Tensor(f"{code.lower()}{number}_{n}", shape, element) for n in range(count)]
        self.program.operators.append(Operator(code, given, outputs, options, f"node{number}"))
        return outputs[0] if count == 1 else outputs

    def conv(self, x: Tensor, channels: int = 4, *, bias: bool = True) -> Tensor:
        """A 1x1 convolution."""
        w = self.rng.standard_normal((channels, x.shape[1], 1, 1)).astype(np.float32)
        b = [self.rng.standard_normal(channels).astype(np.float32)] if bias else []
        return self.op("Conv", x, w, *b, shape=(x.shape[0], channels, *x.shape[2:]), kernel_shape=(1, 1))

    def samples(self, count: int = 4) -> list[dict[str, np.ndarray]]:
        rng = np.random.default_rng(7)
        shape = tuple(n or 2 for n in self.x.shape)
        return [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(count)]

    def quantize(self, *outputs: Tensor, options: QdqOptions | None = None, **choices) -> Quantized[Program]:
        """Calibrated on `samples`; found valid by the program itself and by the onnx package."""
        pytest.importorskip("onnxruntime")
        self.program.outputs = list(outputs)
        recipe = Recipe(few_samples=0, **choices)
        imported = prepare(self.program)
        ranges = calibrate(self.program, self.samples(), recipe).ranges
        result = quantize_qdq(self.program, ranges, recipe, options, imported=imported)
        result.program.validate()
        check(result.program)
        return result


def check(program: Program) -> None:
    """Raise what the onnx package has against a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx = pytest.importorskip("onnx")
    onnx.checker.check_model(to_bytes(program), full_check=True)


def run(program: Program, feed, *, optimized: bool = True, keep: Path | None = None):
    """The outputs, by ONNX Runtime's integer kernels or one op at a time; `keep` gets the optimized model."""
    runtime = pytest.importorskip("onnxruntime")
    options = session_options(careful=products_may_overflow())
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if keep is not None:
        options.optimized_model_filepath = str(keep)
    session = runtime.InferenceSession(to_bytes(program), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def optimized_codes(program: Program, feed, folder: Path) -> Counter[str]:
    """What ONNX Runtime runs in the end."""
    onnx = pytest.importorskip("onnx")
    run(program, feed, keep=folder / "optimized.onnx")
    return Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


def constant_named(program: Program, part: str) -> Tensor:
    """The one constant whose name holds a text."""
    (found,) = [t for t in program.tensors() if t.is_constant and part in t.name]
    return found
