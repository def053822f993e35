"""Signal to quantization noise of LiteRT programs, of their logits where they have some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from thinflow.engines.litert import Model
from thinflow.optimize.quality import LOUDEST
from thinflow.tflite.model import Program, Subgraph
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

Inputs = Sequence[Array]

# A softmax that is sure of its answer gives nearly the same numbers whatever noise its logits have.
_SQUASHING = frozenset(("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC"))
# Above what float answers of a working model differ by; its square, 1e60, is a float64 with room for a sum.
_DEAFENING = 1e30


def before_squashing(program: Program) -> Program:
    """The program up to the logits: behind a softmax, noise can hardly be told from none.

    Outputs keep their number and order. The given program stays as it is.
    """
    main = program.subgraphs[0]
    producers = main.producers()
    outputs = []
    for tensor in main.outputs:
        operator = producers.get(tensor)
        x = operator.inputs[0] if operator is not None and operator.code in _SQUASHING else None
        # A graph input or a constant in front is no logit.
        outputs.append(tensor if x is None or x.is_constant or x in main.inputs else x)
    needed = set(outputs)
    kept = []
    for operator in reversed(main.operators):
        # Variables are written without being read: these two work by what they do, not by what they give.
        if needed.intersection(operator.outputs) or operator.code in {"CALL_ONCE", "ASSIGN_VARIABLE"}:
            kept.append(operator)
            needed.update(t for t in operator.inputs if t is not None)
    shorter = Subgraph(main.inputs, outputs, kept[::-1], name=main.name)
    # Signatures name the old outputs.
    return replace(program, subgraphs=[shorter, *program.subgraphs[1:]], signatures={})


class SqnrMeter:
    """Measures programs beside a float one, whose outputs for some samples it keeps.

    Args:
        program: the float program.
        samples: the inputs of each sample, in the program's order; kept in memory, as the outputs are.
    """

    def __init__(self, program: Program, samples: Iterable[Inputs], *, threads: int = 2) -> None:
        self.threads = threads
        self.samples = list(samples)
        self.expected = self._outputs(program)

    def sqnr(self, program: Program) -> float:
        """Signal to quantization noise over all samples and float outputs, in decibels."""
        signal = noise = 0.0
        for before, after in zip(self.expected, self._outputs(program), strict=True):
            for a, b in zip(before, after, strict=True):
                if a.dtype.kind == "f":
                    wide = a.astype(np.float64)
                    finite = np.isfinite(wide)
                    # What is no number counts as very loud noise; its square must stay finite, or no trial
                    # could be better than another.
                    gap = (wide - b.reshape(a.shape))[finite]
                    gap = np.nan_to_num(gap, nan=_DEAFENING, posinf=_DEAFENING, neginf=_DEAFENING)
                    signal += float(np.square(wide[finite]).sum())
                    noise += float(np.square(gap).sum())
        # No infinity, which would be as good as itself plus
        # any margin: the tuner then kept whatever it tries.
        if not noise:
            return LOUDEST
        return 10 * math.log10(signal / noise) if signal else -LOUDEST

    def _outputs(self, program: Program) -> list[list[Array]]:
        model = Model.as_it_says(to_bytes(program), threads=self.threads)
        return [model.run(arrays) for arrays in self.samples]
