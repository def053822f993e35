"""What stored codes of weights cost when an ONNX file runs, for the choices in `quantize/onnx_unpacking.py`.

    python -m benchmarks ptq_stored_codes [NETWORK ...]

Weights are unpacked in front of each layer, by Cast and Mul, which ONNX Runtime computes when it loads a
file, or by DequantizeLinear, which it leaves to kernels that read codes. Shown is how many times as long as
with float weights a run takes on one thread, for products of one row and of 256, and for whole networks.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.ptq.cases import trained, trained_case
from benchmarks.ptq.judging import Array, by_turns, times_as_long
from thinflow.ir.types import FLOAT
from thinflow.onnx.program import Operator, Program, Tensor, unique_names
from thinflow.onnx.writer import to_bytes
from thinflow.optimize.onnx import onnx_model
from thinflow.optimize.samples import samples_for
from thinflow.quantize.kernels.onnx import INT8_KERNELS
from thinflow.quantize.onnx_unpacking import unpacking
from thinflow.quantize.onnx_weights import INT4_OPSET
from thinflow.quantize.rounding import NEAREST, weight_grid
from thinflow.quantize.small_weights import FEWEST

SIZES, ROWS = (256, 512, 1024), (1, 256)
NETWORKS = ("mobile", "dense")
FORMS = {
    f"{bits} bits, {how}": (bits, keeps_codes)
    for bits in (8, 4)
    for how, keeps_codes in (("Cast and Mul", False), ("DequantizeLinear", True))
}
"""How weights are stored and unpacked: bits, and whether kernels may read the codes."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_stored_codes", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=f"default: {', '.join(NETWORKS)}")
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(trained())
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(trained())}")
    print(f"| times as long as float | {' | '.join(FORMS)} |\n|{'---|' * (len(FORMS) + 1)}")
    for name, program, sample in _programs(args.names or NETWORKS):
        print(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in ratios(program, sample))} |", flush=True)
    return 0


def _programs(networks: Sequence[str]) -> Iterator[tuple[str, Program, Array]]:
    """Programs for one sample, and the sample."""
    rng = np.random.default_rng(0)
    for size in SIZES:
        for rows in ROWS:
            sample = rng.standard_normal((rows, size)).astype(np.float32)
            yield f"{size} x {size}, {rows} rows", product(rows, size), sample
    for name in networks:
        case = trained_case(name)
        samples = samples_for(case.graph, {case.graph.inputs[0].name: case.calibration[:8]})
        program = onnx_model(case.graph, samples, opset=INT4_OPSET).program
        yield name, program, case.x[:1]


def product(rows: int, size: int) -> Program:
    """A matrix product with a square of weights."""
    weights = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32)
    x, w, y = (
        Tensor("x", (rows, size), FLOAT),
        Tensor("w", (size, size), FLOAT, weights),
        Tensor("y", (rows, size), FLOAT),
    )
    return Program([x], [y], [Operator("MatMul", [x, w], [y])], opset=INT4_OPSET)


def ratios(program: Program, sample: Array) -> list[float]:
    """How many times as long as in float a run takes, for each of `FORMS`."""
    programs = [program, *(stored(program, *form) for form in FORMS.values())]
    with tempfile.TemporaryDirectory(prefix="thinflow-codes-") as folder:
        paths = [Path(folder) / f"{number}.onnx" for number in range(len(programs))]
        for path, one in zip(paths, programs, strict=True):
            path.write_bytes(to_bytes(one))
        plain, *others = by_turns(paths, sample)
    return [times_as_long(one, plain) for one in others]


def stored(program: Program, bits: int, keeps_codes: bool) -> Program:
    """The program with the weights of all larger layers as codes, and what unpacks them."""
    unique = unique_names({tensor.name for tensor in program.tensors()})
    operators: list[Operator] = []
    for operator in program.operators:
        w = INT8_KERNELS.weights(operator)
        if w is not None and w.is_constant and w.array().size >= FEWEST:
            data = w.array()
            grid = weight_grid(data, INT8_KERNELS.weight_axis(operator), bits, NEAREST)
            made = unpacking(w.name, NEAREST.codes(data, grid), grid, unique, keeps_codes=keeps_codes)
            operators += made.operators
            inputs = [made.result if t is w else t for t in operator.inputs]
            operator = replace(operator, inputs=inputs)
        operators.append(operator)
    return replace(program, operators=operators)


if __name__ == "__main__":
    raise SystemExit(main())
