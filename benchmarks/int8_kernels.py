"""What LiteRT's integer kernels cost beside its float ones, for `Kernel.cost` in quantize/kernels/litert.py.

    python -m benchmarks int8_kernels [OP ...]

Each op is run eight times in one file, in float and in int8, on three shapes; the files take turns on one
thread, and the fastest round counts. Costs are those of an element of the largest tensor (of a product, for
batched matrix products), where an element of DEQUANTIZE costs 1. The middle shape is what the table has; the
smallest one tells what calling an operator takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from thinflow.engines.litert import Model
from thinflow.ir.types import BOOL, FLOAT, INT8, INT64, dtype
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

COPIES = 8
ROUNDS, SECONDS = 15, 2e-3
SHAPES = ((1, 1, 1, 64), (1, 16, 16, 32), (1, 56, 56, 32))
PRODUCTS = (((2, 16, 16), (2, 16, 16)), ((4, 64, 32), (4, 32, 64)), ((8, 197, 64), (8, 64, 197)))
_WINDOW = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
_BORDER = np.array([[0, 0], [1, 1], [1, 1], [0, 0]])


class Case(NamedTuple):
    """How an op is called.

    Attributes:
        inputs: for one of a shape.
        shape: of its outputs.
        kinds: types of them.
        options: its own.
    """

    inputs: Callable[[Tensor], Sequence[Tensor]]
    shape: Callable[[Tensor], tuple[int, ...]] = lambda x: sizes(x)
    kinds: tuple[Any, ...] = (FLOAT,)
    options: Mapping[str, Any] = MappingProxyType({})


def sizes(tensor: Tensor) -> tuple[int, ...]:
    """A shape that is known."""
    return tuple(n or 0 for n in tensor.shape or ())


def _constant(data: Any, name: str = "constant") -> Tensor:
    array = np.asarray(data)
    array = array.astype(np.int32 if array.dtype.kind == "i" else array.dtype)
    return Tensor(name, array.shape, dtype(array.dtype), array)


def _spread(*shape: int) -> Tensor:
    return _constant(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def _with(*constants: Any) -> Callable[[Tensor], Sequence[Tensor]]:
    return lambda x: [x, *(_constant(c) for c in constants)]


def _scaled(*factors: float) -> Callable[[Tensor], tuple[int, ...]]:
    return lambda x: tuple(int(n * f) for n, f in zip(sizes(x), factors, strict=True))


def _one(x: Tensor) -> Sequence[Tensor]:
    return [x]


def _two(x: Tensor) -> Sequence[Tensor]:
    return [x, x]


_PLAIN = {"fused_activation_function": "NONE"}
_AXES = {"keep_dims": True}
CASES: dict[str, Case] = {
    **{c: Case(_one) for c in ("RELU", "RELU6", "RELU_N1_TO_1", "ELU", "HARD_SWISH", "GELU", "ABS")},
    **{c: Case(_one) for c in ("LOGISTIC", "TANH", "LOG_SOFTMAX")},
    "LEAKY_RELU": Case(_one, options={"alpha": 0.2}),
    "PRELU": Case(lambda x: [x, _spread(1, 1, sizes(x)[3])]),
    "SOFTMAX": Case(_one, options={"beta": 1.0}),
    "L2_NORMALIZATION": Case(_one, options=_PLAIN),
    **{c: Case(_two, options=_PLAIN) for c in ("ADD", "SUB", "MUL")},
    **{c: Case(_two) for c in ("MAXIMUM", "MINIMUM")},
    **{c: Case(_two, kinds=(BOOL,)) for c in ("LESS", "GREATER_EQUAL")},
    **{
        c: Case(_with([1, 2]), _scaled(1, 0, 0, 1), options=_AXES)
        for c in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    },
    **{c: Case(_with(3), kinds=(INT64,), options={"output_type": INT64}) for c in ("ARG_MAX", "ARG_MIN")},
    **{c: Case(_one, _scaled(1, 0.5, 0.5, 1), options=_WINDOW) for c in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    "RESIZE_BILINEAR": Case(
        lambda x: [x, _constant([2 * n for n in sizes(x)[1:3]])],
        _scaled(1, 2, 2, 1),
        options={"half_pixel_centers": True},
    ),
    "RESIZE_NEAREST_NEIGHBOR": Case(
        lambda x: [x, _constant([2 * n for n in sizes(x)[1:3]])], _scaled(1, 2, 2, 1)
    ),
    "CONCATENATION": Case(_two, _scaled(1, 1, 1, 2), options={"axis": 3, **_PLAIN}),
    "RESHAPE": Case(_with([1, -1]), lambda x: (1, int(np.prod(sizes(x))))),
    "TRANSPOSE": Case(_with([0, 3, 1, 2]), lambda x: tuple(sizes(x)[i] for i in (0, 3, 1, 2))),
    "PAD": Case(_with(_BORDER), lambda x: _padded(x)),
    "PADV2": Case(_with(_BORDER, np.float32([-0.5])), lambda x: _padded(x)),
    "SLICE": Case(
        lambda x: [x, _constant([0, 0, 0, 1]), _constant([*sizes(x)[:3], sizes(x)[3] - 2])],
        lambda x: (*sizes(x)[:3], sizes(x)[3] - 2),
    ),
    "STRIDED_SLICE": Case(
        lambda x: [x, *map(_constant, ([0, 0, 0, 0], sizes(x), [1, 1, 1, 2]))], _scaled(1, 1, 1, 0.5)
    ),
    "SPLIT": Case(
        lambda x: [_constant(3), x], _scaled(1, 1, 1, 0.5), kinds=(FLOAT, FLOAT), options={"num_splits": 2}
    ),
    "GATHER": Case(
        lambda x: [x, _constant(np.arange(0, sizes(x)[3], 2))], _scaled(1, 1, 1, 0.5), options={"axis": 3}
    ),
    "PACK": Case(_two, lambda x: (2, *sizes(x)), options={"axis": 0, "values_count": 2}),
    "TILE": Case(_with([1, 1, 1, 2]), _scaled(1, 1, 1, 2)),
    "SPACE_TO_DEPTH": Case(_one, _scaled(1, 0.5, 0.5, 4), options={"block_size": 2}),
    "DEPTH_TO_SPACE": Case(_one, _scaled(1, 2, 2, 0.25), options={"block_size": 2}),
}
"""Those of the kernels that a network may have thousands of elements for."""


def _padded(x: Tensor) -> tuple[int, ...]:
    return tuple(n + sum(_BORDER[i]) for i, n in enumerate(sizes(x)))


def main(argv: list[str] | None = None) -> int:
    known = [*CASES, "BATCH_MATMUL"]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks int8_kernels", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="OP", help="default: all")
    names = parser.parse_args(argv).names or known
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"there is no op {min(unknown)!r}; there are: {', '.join(sorted(known))}")
    units = {shape: crossing(shape) for shape in SHAPES}
    print("| op | shape | float, us | int8, us | times | cost in float | in int8 | in the table |")
    print("|---|---|---|---|---|---|---|---|")
    for shape, (there, back) in units.items():
        print(f"| DEQUANTIZE | {_spelled(shape)} | {there:.2f} | | | 1 | | |")
        print(f"| QUANTIZE | {_spelled(shape)} | {back:.2f} | | | {back / there:.2g} | | |")
    unit = units[SHAPES[1]][0] / float(np.prod(SHAPES[1]))
    for name in names:
        for shapes in PRODUCTS if name == "BATCH_MATMUL" else ((s,) for s in SHAPES):
            program = batch(name, [Tensor(f"x{i}", s, FLOAT) for i, s in enumerate(shapes)])
            if program is not None:
                _tell(name, shapes, program, unit)
    return 0


def _tell(name: str, shapes: Sequence[tuple[int, ...]], program: Program, unit: float) -> None:
    floats, integers = fastest([program, integer(program)])
    work = INT8_KERNELS.work(program.subgraphs[0].operators[0]) * unit
    known = INT8_KERNELS.table[name].cost
    noted = "" if known is None else f"{known.floats:g}, {known.integers:g}"
    print(
        f"| {name} | {' '.join(map(_spelled, shapes))} | {floats:.2f} | {integers:.2f} |"
        f" {integers / floats:.2f} | {floats / work:.2g} | {integers / work:.2g} | {noted} |",
        flush=True,
    )


def _spelled(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def batch(name: str, inputs: list[Tensor]) -> Program | None:
    """A program of several operators on the same inputs; None for a shape that has no such output."""
    if name == "BATCH_MATMUL":
        _, y = inputs
        case = Case(lambda x: [x, y], lambda x: (*sizes(x)[:2], sizes(y)[2]))
    else:
        case = CASES[name]
    shape = case.shape(inputs[0])
    if 0 in shape:
        shape = tuple(max(n, 1) for n in shape)
        if name not in {"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"}:
            return None
    if name in {"ARG_MAX", "ARG_MIN"}:
        shape = shape[:3]
    operators, outputs = [], []
    for copy in range(COPIES):
        made = [Tensor(f"y{copy}_{i}", shape, kind) for i, kind in enumerate(case.kinds)]
        read = [
            t if t in inputs else Tensor(f"c{copy}_{i}", t.shape, t.dtype, t.data)
            for i, t in enumerate(case.inputs(inputs[0]))
        ]
        operators.append(Operator(name, read, made, dict(case.options)))
        outputs += made
    return Program([Subgraph(inputs, outputs, operators)])


def integer(program: Program) -> Program:
    """The program in int8 from its inputs to its outputs."""
    main = program.subgraphs[0]
    # A zero point like any other, where the kernel takes it.
    ranges = {t: Range(-4.0, 3.0) for t in main.tensors() if t.dtype is FLOAT and not t.is_constant}
    made = quantize_int8(program, ranges, Recipe(input_type="int8", output_type="int8"))
    assert not made.float_operators, made.float_operators
    return made.program


def crossing(shape: tuple[int, ...]) -> tuple[float, float]:
    """Microseconds of a DEQUANTIZE and of a QUANTIZE."""
    grid = Quantization(np.float32([0.05]), np.int64([3]))
    forms = Tensor("q", shape, INT8, quantization=grid), Tensor("x", shape, FLOAT)
    programs = []
    for code, (x, y) in (("DEQUANTIZE", forms), ("QUANTIZE", forms[::-1])):
        made = [Tensor(f"y{i}", y.shape, y.dtype, quantization=y.quantization) for i in range(COPIES)]
        programs.append(Program([Subgraph([x], [*made], [Operator(code, [x], [t]) for t in made])]))
    there, back = fastest(programs)
    return there, back


def fastest(programs: Sequence[Program]) -> list[float]:
    """Microseconds of one operator of each program, in its fastest round; they take turns."""
    models = [Model(to_bytes(p)) for p in programs]
    repeats = []
    for model, program in zip(models, programs, strict=True):
        rng = np.random.default_rng(1)
        fed = [rng.standard_normal(sizes(t)) for t in program.subgraphs[0].inputs]
        kinds = [t.dtype for t in program.subgraphs[0].inputs]
        model.run([(30 * x if k is INT8 else x).astype(k.numpy()) for x, k in zip(fed, kinds, strict=True)])
        repeats.append(max(1, int(SECONDS / _seconds(model, 3))))
    rounds = [[_seconds(m, n) for m, n in zip(models, repeats, strict=True)] for _ in range(ROUNDS)]
    return [min(times) / COPIES * 1e6 for times in zip(*rounds, strict=True)]


def _seconds(model: Model, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        model.interpreter.invoke()
    return (time.perf_counter() - started) / repeats
