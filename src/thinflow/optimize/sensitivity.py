"""The sensitivity of layers: which loses most when it alone is rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

from thinflow.optimize.climb import Goal, spread
from thinflow.optimize.litert import FloatModel
from thinflow.optimize.samples import Samples
from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.activation_noise import activation_parameters
from thinflow.quantize.recipe import Recipe, chosen_recipe, names_of
from thinflow.quantize.schemes import storing
from thinflow.quantize.simulate import rounded_weights, simulated
from thinflow.quantize.trained import without_fake_quants
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.typing import Array, Progress

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
        keep: names of operators that, all in float, spare the model this loss: what reads the output is
            among them where rounding that is the worse, since integers would be made for it.
    """

    name: str
    code: str
    weights_db: float | None
    output_db: float | None
    keep: tuple[str, ...] = ()

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
    feeds = model.feeds(samples)
    goal = Goal(without_fake_quants(model.program)[0], {}, threads=threads)
    fit = goal.fit(feeds, spread(feeds, count), progress)
    # With the channels of the recipe: rescaled layers lose other than they did.
    program = before_squashing(fit.rescaling(recipe).program)
    weights = rounded_weights(program, recipe, storing(program, recipe))
    parameters = {}
    if recipe.needs_samples:
        ranges = fit.calibration(recipe).ranges
        parameters = activation_parameters(program, recipe, ranges)
    meter = SqnrMeter(program, _inputs(model, program, samples, count), threads=threads)
    layers, readers = _layers(program, weights, parameters), program.subgraphs[0].consumers()
    found = []
    for number, (name, code, operator, tensors) in enumerate(layers):
        own = {t: parameters[t] for t in tensors if t in parameters}
        weights_db = output_db = None
        if operator is not None and operator in weights:
            weights_db = meter.sqnr(simulated(program, {operator: weights[operator]}, {}))
        if own:
            output_db = meter.sqnr(simulated(program, {}, own))
        own_loss = math.inf if weights_db is None else weights_db
        touching = [] if operator is None else [operator]
        if output_db is not None and output_db <= own_loss:
            touching += [o for t in tensors for o, _ in readers.get(t, ())]
        keep = tuple(dict.fromkeys(names_of(o)[0] for o in touching if names_of(o)))
        found.append(LayerLoss(name, code, weights_db, output_db, keep))
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
