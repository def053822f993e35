"""Signal to quantization noise of LiteRT programs: of a smaller one, and of each layer rounded alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from thinflow.engines.litert import Model
from thinflow.optimize.litert import FloatModel
from thinflow.optimize.quality import LOUDEST
from thinflow.optimize.samples import Samples
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.recipe import Recipe, chosen_recipe, names_of
from thinflow.quantize.schemes import storing
from thinflow.quantize.simulate import activation_parameters, rounded_weights, simulated
from thinflow.quantize.trained import without_fake_quants
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array, Progress

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


# The sensitivity of layers: which loses most when it alone is rounded.


# Each layer costs two runs of the model a sample, and what comes of it is an order of layers, no verdict.
SAMPLES = 32


@dataclass(frozen=True)
class LayerLoss:
    """Noise that rounding one layer alone makes in the model's output, everything else float.

    Attributes:
        name: by which `skip_nodes` finds it.
        code: LiteRT op; "input" for the model's inputs.
        weights_db: signal to noise of the output with its weights rounded, in decibels; None without weights.
        output_db: the same with its output rounded; None in schemes that leave activations float.
    """

    name: str
    code: str
    weights_db: float | None
    output_db: float | None

    @property
    def worst_db(self) -> float:
        """The smaller of both."""
        return min(v for v in (self.weights_db, self.output_db) if v is not None)


def sensitivity(
    model: FloatModel,
    samples: Samples,
    *,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    count: int = SAMPLES,
    threads: int = 2,
    progress: Progress | None = None,
) -> list[LayerLoss]:
    """The loss of each layer, worst first. Two runs of the float model per layer and sample.

    Args:
        count: samples to judge on; ranges come from all of them.

    Raises:
        FeedError: no samples, or they do not fit.
    """
    recipe = chosen_recipe(scheme, recipe)
    # Trained rounding is taken out: the layer that is looked at shall be the only one that rounds.
    program = before_squashing(without_fake_quants(model.program)[0])
    weights = rounded_weights(program, recipe, storing(program, recipe))
    parameters = {}
    if recipe.needs_samples:
        ranges = calibrate(program, model.feeds(samples), recipe, threads=threads, progress=progress).ranges
        parameters = activation_parameters(program, recipe, ranges)
    meter = SqnrMeter(program, _inputs(model, program, samples, count), threads=threads)
    layers = _layers(program, weights, parameters)
    found = []
    for number, (name, code, operator, tensors) in enumerate(layers):
        own = {t: parameters[t] for t in tensors if t in parameters}
        weights_db = output_db = None
        if operator is not None and operator in weights:
            weights_db = meter.sqnr(simulated(program, {operator: weights[operator]}, {}))
        if own:
            output_db = meter.sqnr(simulated(program, {}, own))
        found.append(LayerLoss(name, code, weights_db, output_db))
        if progress is not None:
            progress(number + 1, len(layers), "rounding layer by layer")
    return sorted(found, key=lambda loss: loss.worst_db)


def _inputs(model: FloatModel, program: Program, samples: Samples, count: int) -> list[list[Array]]:
    """The first samples as LiteRT takes them."""
    names = [t.name for t in program.subgraphs[0].inputs]
    return [[feed[n] for n in names] for feed in islice(model.feeds(samples), count)]


def _layers(
    program: Program, weights: dict[Operator, Array], parameters: dict[Tensor, Any]
) -> list[tuple[str, str, Operator | None, list[Tensor]]]:
    """Name, op, operator and rounded tensors of everything that can be rounded alone.

    Operators that only hand on what they read round nothing of their own.
    """
    main = program.subgraphs[0]
    found: list[tuple[str, str, Operator | None, list[Tensor]]] = [
        (tensor.name, "input", None, [tensor]) for tensor in main.inputs if tensor in parameters
    ]
    for operator in main.operators:
        tensors = [t for t in operator.outputs if t in parameters]
        taken = {_step(parameters[t]) for t in operator.inputs if t is not None and t in parameters}
        # The same scale and zero point as an input: values are handed on without being rounded anew.
        same = operator not in weights and all(_step(parameters[t]) in taken for t in tensors)
        if operator in weights or (tensors and not same):
            found.append((names_of(operator)[0], operator.code, operator, tensors))
    return found


def _step(parameters: Any) -> tuple[float, int]:
    return parameters.scale, parameters.zero_point
