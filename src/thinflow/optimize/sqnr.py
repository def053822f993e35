"""Signal to quantization noise of programs beside a float one, and how often both give the same answer.

Both are taken of the logits, where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np

from thinflow.engines import litert, onnxruntime
from thinflow.onnx import program as onnx
from thinflow.onnx.writer import to_bytes as onnx_to_bytes
from thinflow.optimize.converted import RuntimeModel
from thinflow.optimize.quality import LOUDEST
from thinflow.optimize.quantized import with_float_borders
from thinflow.quantize.macs import main_block
from thinflow.tflite import model as tflite
from thinflow.tflite.writer import to_bytes as tflite_to_bytes
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)
Inputs = Sequence[Array]

# A softmax that is sure of its answer gives nearly the same numbers whatever noise its logits have.
_SQUASHING = frozenset(("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "LOGSOFTMAX", "SIGMOID"))
# Variables are written without being read: these work by what they do, not by what they give.
_ACTING = frozenset(("CALL_ONCE", "ASSIGN_VARIABLE"))
# Above what float answers of a working model differ by; its square, 1e60, is a float64 with room for a sum.
_DEAFENING = 1e30


def before_squashing(program: P) -> P:
    """The program up to the logits: behind a softmax, noise can hardly be told from none.

    Outputs keep their number and order. The given program stays as it is.
    """
    main = main_block(program)
    producers = main.producers()
    outputs = []
    for tensor in main.outputs:
        operator = producers.get(tensor)
        is_squashed = operator is not None and operator.code.upper() in _SQUASHING
        x = operator.inputs[0] if operator is not None and is_squashed else None
        # A graph input or a constant in front is no logit.
        outputs.append(tensor if x is None or x.is_constant or x in main.inputs else x)
    needed = set(outputs)
    kept = []
    for operator in reversed(main.operators):
        if needed.intersection(operator.outputs) or operator.code in _ACTING:
            kept.append(operator)
            needed.update(t for t in operator.inputs if t is not None)
    kept.reverse()
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, outputs=outputs, operators=kept))
    shorter = tflite.Subgraph(main.inputs, outputs, kept, name=main.name)
    # Signatures name the old outputs.
    whole = replace(program, subgraphs=[shorter, *program.subgraphs[1:]], signatures={})
    return cast("P", whole)


class Score(NamedTuple):
    """How near a program's answers are to those in float; scores of other samples can be added.

    Attributes:
        signal, noise: sums of squares over float outputs.
        same, tops: how many top answers are the same, of how many.
    """

    signal: float = 0.0
    noise: float = 0.0
    same: int = 0
    tops: int = 0

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise in decibels."""
        # No infinity, which would be as good as itself plus any margin.
        if not self.noise:
            return LOUDEST
        return 10 * math.log10(self.signal / self.noise) if self.signal else -LOUDEST

    @property
    def agreement(self) -> float | None:
        """The share of top answers that are the same; None where there are no classes."""
        return self.same / self.tops if self.tops else None

    def plus(self, other: Score) -> Score:
        """Both together."""
        signal, noise = self.signal + other.signal, self.noise + other.noise
        return Score(signal, noise, self.same + other.same, self.tops + other.tops)


class SqnrMeter(Generic[P]):
    """Measures programs beside a float one, whose outputs for some samples it keeps.

    Args:
        program: the float program.
        samples: the inputs of each sample, in the program's order; kept in memory, as the outputs are.
    """

    def __init__(self, program: P, samples: Iterable[Inputs], *, threads: int = 2) -> None:
        self.threads = threads
        self.samples = list(samples)
        self.expected = self._outputs(program)

    def sqnr(self, program: P) -> float:
        """Signal to quantization noise over all samples and float outputs, in decibels."""
        return self.score(program).sqnr_db

    def score(self, program: P) -> Score:
        """How near a program's answers are; it may take and give integers at its ends."""
        total = Score()
        for before, after in zip(self.expected, self._outputs(program), strict=True):
            for a, b in zip(before, after, strict=True):
                if a.dtype.kind == "f":
                    total = total.plus(_score(a, b.reshape(a.shape)))
        return total

    def _outputs(self, program: P) -> list[list[Array]]:
        model = _opened(program, self.threads)
        return [model.run(arrays) for arrays in self.samples]


def _opened(program: tflite.Program | onnx.Program, threads: int) -> RuntimeModel:
    if isinstance(program, onnx.Program):
        return onnxruntime.Model(onnx_to_bytes(program), threads=threads)
    return litert.Model.as_it_says(tflite_to_bytes(with_float_borders(program)), threads=threads)


def _score(expected: Array, found: Array) -> Score:
    wide = expected.astype(np.float64)
    finite = np.isfinite(wide)
    # What is no number counts as very loud noise; its square must stay finite, or no trial could be better
    # than another.
    gap = (wide - found)[finite]
    gap = np.nan_to_num(gap, nan=_DEAFENING, posinf=_DEAFENING, neginf=_DEAFENING)
    signal, noise = float(np.square(wide[finite]).sum()), float(np.square(gap).sum())
    # Of pictures and sequences each place has its own top answer; of single numbers there is none.
    if expected.ndim < 2 or expected.shape[-1] < 2:
        return Score(signal, noise)
    same = expected.argmax(-1) == found.argmax(-1)
    return Score(signal, noise, int(same.sum()), same.size)
