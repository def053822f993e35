"""What networks of floats are to answer: sums of 64 bits, beside which two ways of rounding can be judged.

Where products cancel, two sums of 32 bits part by more than either is wrong, and which of them is nearer to
the truth neither tells. So both are compared with what thinflow's interpreter computes of the same numbers in
64 bits, which shares no code with the C.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

import thinflow
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor as Numbers
from thinflow.ir.types import DOUBLE, FLOAT, UNKNOWN
from thinflow.tflite.model import Operator, Program, Subgraph
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

TOLERANCE = 1e-5
"""Of the largest number of a layer."""
_TIMES = 3.0
"""How much further from exact sums than LiteRT's kernel C may be, where that is beyond the tolerance."""
_ALIKE = 1e-3
"""What is further from LiteRT's answer is no sum of the same numbers: LiteRT alone judges there."""


class ExactSums:
    """A program of floats in 64 bits.

    Args:
        content: its file.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    @classmethod
    def of_operator(cls, operator: Operator) -> ExactSums | None:
        """Those of an operator by itself; None if it is not one of reals alone."""
        fed = [t for t in dict.fromkeys(operator.reads()) if not t.is_constant]
        block = Subgraph(fed, operator.outputs, [operator])
        return cls(to_bytes(Program([block]))) if fed and _is_real(block) else None

    @classmethod
    def of_program(cls, program: Program, content: bytes) -> ExactSums | None:
        """Those of a whole network; None if it is not one of reals alone."""
        return cls(content) if len(program.subgraphs) == 1 and _is_real(program.subgraphs[0]) else None

    @cached_property
    def _session(self) -> thinflow.Session | None:
        with tempfile.TemporaryDirectory(prefix="thinflow-exact-") as folder:
            path = Path(folder, "model.tflite")
            path.write_bytes(self._content)
            try:
                return thinflow.Session(in_64_bits(thinflow.load(path)), engine="reference")
            except ThinflowError:
                return None

    def of(self, feeds: Sequence[Array]) -> list[Array] | None:
        """The outputs, in the order of the file; None of what the interpreter does not run."""
        if self._session is None:
            return None
        graph = self._session.graph
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in feeds]
        try:
            fed = {v.name: x for v, x in zip(graph.inputs, wide, strict=True)}
            return self._session.run([v.name for v in graph.outputs], fed)
        except ThinflowError:
            return None


def _is_real(block: Subgraph) -> bool:
    """Whether all that is computed is real, of numbers that are as they are, and by the inputs alone."""
    tensors = {t for o in block.operators for t in o.touched()} | {*block.inputs, *block.outputs}
    made = [t for o in block.operators for t in o.outputs]
    return (
        all(t.quantization is None or not len(t.quantization.scale) for t in tensors)
        and not any(t.is_variable for t in tensors)
        and all(t.dtype.kind == "f" for t in made)
    )


def in_64_bits(graph: Graph) -> Graph:
    """A copy whose floats are doubles."""
    copy = graph.clone()
    for node in copy:
        for name, value in node.attrs.items():
            node.attrs[name] = _doubled(value)
        for output in node.outputs:
            output.spec = UNKNOWN
    infer_shapes(copy)
    return copy


def _doubled(value: Attr) -> Attr:
    if isinstance(value, Numbers) and value.dtype is FLOAT:
        return Numbers.from_array(value.numpy().astype(np.float64))
    return DOUBLE if value is FLOAT else value


def error_of(got: Array, wanted: Array) -> float:
    """How far reals are off, as a part of the largest; infinite where one alone is no number."""
    wanted = wanted.reshape(got.shape)
    both = np.isfinite(got) & np.isfinite(wanted)
    if not (both | (got == wanted) | (np.isnan(got) & np.isnan(wanted))).all():
        return math.inf
    return float(np.abs(got - wanted)[both].max(initial=0)) / max(
        float(np.abs(wanted[both]).max(initial=0)), 1e-6
    )


def judged(got: Array, litert: Array, exact: Array | None) -> tuple[float, bool]:
    """How far reals are off, as a part of the largest, and whether that is too far.

    Args:
        got: by the C.
        litert: by LiteRT's kernel.
        exact: by sums of 64 bits; None if there are none, and LiteRT's answer is all there is to go by.
    """
    theirs = math.inf if exact is None or exact.size != litert.size else error_of(litert, exact)
    if exact is None or not theirs <= _ALIKE:
        error = error_of(got, litert)
        return error, error > TOLERANCE
    error = error_of(got, exact)
    return error, error > max(TOLERANCE, _TIMES * theirs)
