"""Small float programs built by hand, and ways to run programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

CONV = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
POOL = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}


class Builder:
    """Operators in order; shapes are what LiteRT finds."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs: list[Tensor] = []
        self.operators: list[Operator] = []

    def input(self, *shape: int, element=FLOAT) -> Tensor:
        self.inputs.append(Tensor(f"in{len(self.inputs)}", shape, element))
        return self.inputs[-1]

    def const(self, data: Any) -> Tensor:
        data = np.asarray(data)
        data = data.astype(np.float32) if data.dtype == np.float64 else data
        data = data.astype(np.int32) if data.dtype == np.int64 else data
        return Tensor(f"const{id(data)}", data.shape, dtype(data.dtype), data)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def op(self, code: str, *inputs: Tensor | None, out=(FLOAT,), **options: Any) -> Any:
        number = len(self.operators)
        outputs = [Tensor(f"{code.lower()}{number}_{i}", None, e) for i, e in enumerate(out)]
        self.operators.append(Operator(code, list(inputs), outputs, options, origin=f"node{number}"))
        return outputs[0] if len(outputs) == 1 else outputs

    def conv(self, x: Tensor, k: int, size: int = 3, act: str = "RELU6", **options: Any) -> Tensor:
        c = x.shape[-1] if x.shape else self.channels[x]
        w = self.normal(k, size, size, c, scale=(size * size * c / 2) ** -0.5)
        y = self.op(
            "CONV_2D", x, w, self.normal(k, scale=0.2), **CONV | options, fused_activation_function=act
        )
        self.channels[y] = k
        return y

    def depthwise(self, x: Tensor, act: str = "RELU6", **options: Any) -> Tensor:
        c = x.shape[-1] if x.shape else self.channels[x]
        w = self.normal(1, 3, 3, c, scale=0.4)
        more = {**CONV, "depth_multiplier": 1, **options, "fused_activation_function": act}
        y = self.op("DEPTHWISE_CONV_2D", x, w, self.normal(c, scale=0.2), **more)
        self.channels[y] = c
        return y

    @property
    def channels(self) -> dict[Tensor, int]:
        return self.__dict__.setdefault("_channels", {})

    def program(self, *outputs: Tensor) -> Program:
        main = Subgraph(self.inputs, list(outputs), self.operators)
        program = Program([main])
        session = interpreter(program, plain=True)
        for tensor, detail in zip(main.tensors(), session.get_tensor_details(), strict=False):
            tensor.shape = tuple(int(n) for n in detail["shape"])
        return program


def uneven(b: Builder, x: Tensor, k: int, size: int = 3, act: str = "RELU") -> Tensor:
    """A convolution whose output channels differ a thousandfold."""
    c = x.shape[-1] if x.shape else b.channels[x]
    spread = np.logspace(-1.5, 1.5, k)[b.rng.permutation(k)]
    w = b.rng.standard_normal((k, size, size, c)) * spread[:, None, None, None] / (size * size * c) ** 0.5
    bias = b.rng.standard_normal(k) * spread * 0.1
    y = b.op("CONV_2D", x, b.const(w), b.const(bias), **CONV, fused_activation_function=act)
    b.channels[y] = k
    return y


def interpreter(program: Program, *, plain: bool) -> Any:
    """An allocated LiteRT interpreter; `plain` is one without XNNPACK."""
    module = pytest.importorskip("ai_edge_litert.interpreter")
    kind = module.OpResolverType
    resolver = kind.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else kind.AUTO
    session = module.Interpreter(model_content=to_bytes(program), experimental_op_resolver_type=resolver)
    session.allocate_tensors()
    return session


def run(program: Program, *arrays: np.ndarray, plain: bool = False) -> list[np.ndarray]:
    session = interpreter(program, plain=plain)
    for detail, array in zip(session.get_input_details(), arrays, strict=True):
        session.set_tensor(detail["index"], array)
    session.invoke()
    return [session.get_tensor(d["index"]) for d in session.get_output_details()]


def samples(program: Program, count: int = 24, seed: int = 1) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy()) for t in program.subgraphs[0].inputs}
        for _ in range(count)
    ]


def quantize(program: Program, feeds=None, **choices: Any) -> Quantized[Program]:
    recipe = Recipe(**choices)
    feeds = samples(program) if feeds is None else feeds
    return quantize_int8(program, calibrate(program, feeds, recipe).ranges, recipe)


def codes(program: Program) -> list[str]:
    return [o.code for o in program.subgraphs[0].operators]


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    noise = np.sum((expected.astype(np.float64) - found) ** 2)
    return float(10 * np.log10(np.sum(expected.astype(np.float64) ** 2) / noise)) if noise else 999.0


def scale_of(tensor: Tensor) -> float:
    assert tensor.quantization is not None
    return float(tensor.quantization.scale[0])


def real(stored: np.ndarray, tensor: Tensor) -> np.ndarray:
    """The numbers that stored codes stand for."""
    q = tensor.quantization
    assert q is not None
    return (stored.astype(np.float64) - q.zero_point[0]) * q.scale[0]


INT = INT32
