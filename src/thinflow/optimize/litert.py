"""LiteRT models of a graph's core: lowered, in fewer bits, and written."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from thinflow.analysis.shapes import declared_spec, infer_shapes, infer_with_loops
from thinflow.engines.litert import Model
from thinflow.errors import ThinflowError
from thinflow.formats.files import write_file
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.variables import with_variables
from thinflow.optimize.batch_sizes import batch_note, fix_batch, is_open, open_else_fixed
from thinflow.optimize.converted import ConvertedModel, doubled
from thinflow.optimize.core import Core, find_core, whole_with_texts
from thinflow.optimize.coverage import WHOLE
from thinflow.optimize.float_graph import require_numbers, settle_sizes
from thinflow.optimize.maker import ModelMaker, ModelPair
from thinflow.optimize.numeric_check import CALLS, check_calls, largest_difference, why_one_batch
from thinflow.optimize.samples import Samples, samples_for
from thinflow.program.model import Block
from thinflow.quantize.recipe import SCHEMES, Quantized, Recipe
from thinflow.tflite.described import described
from thinflow.tflite.model import Program, Signature, Tensor
from thinflow.tflite.writer import to_bytes, write_program
from thinflow.typing import Array, Progress

if TYPE_CHECKING:
    from thinflow.optimize.judging import KeptAnswers
    from thinflow.optimize.quantized import QuantizedModel
    from thinflow.quantize.calibrate import Calibration

logger = logging.getLogger(__name__)

# One sample may have one row by chance, such as a single word; each costs a run of the prologue.
_SAMPLES_FOR_SIZES = 5
"""Samples that tell whether what is computed before the core has always one row."""


@brief_repr
@dataclass
class FloatModel(ConvertedModel[Program]):
    """The float LiteRT program of a graph's core."""

    runtime, engine, suffix = "LiteRT", "litert", ".tflite"
    keeps_measured_codes = False
    open = staticmethod(Model.as_it_says)

    @property
    def inputs(self) -> Sequence[Tensor]:
        return self.program.subgraphs[0].inputs

    @property
    def blocks(self) -> Sequence[Block[Any, Any]]:
        return self.program.subgraphs

    def _bytes(self) -> bytes:
        return to_bytes(self.program)

    @staticmethod
    def as_expected(found: Array, expected: Array) -> Array:
        # LiteRT gives [] and [1] for one another where there is one number.
        return found.reshape(expected.shape) if expected.size == found.size == 1 else found

    @cached_property
    def stored(self) -> Program:
        """The program of the file, which keeps states from run to run."""
        return described(with_variables(self.program, self.core.states), self.core.graph.usage)

    def chunks(self) -> Iterable[Any]:
        """The file piece by piece, for writing without a copy in memory."""
        return write_program(self.stored)[1]


@dataclass(frozen=True)
class LiteRTMaker(ModelMaker[FloatModel, "QuantizedModel"]):
    """Makes LiteRT models.

    Attributes:
        effort: how much is tried to make a smaller model better, see `climb.EFFORTS`.
    """

    effort: str = "default"

    order, suffix = "litert", ".tflite"
    schemes = tuple(SCHEMES)
    roles, names = ("fp32", "int8"), ("float", "int8")

    def lower(self, graph: Graph, samples: Samples | None = None, *, fixed: str = "") -> FloatModel:
        return float_model(graph, samples, fixed=fixed)

    def open_or_fixed(self, graph: Graph, samples: Samples) -> FloatModel:
        """As for every runtime; sizes beyond the batch that nobody knows, as samples are made up too, stay
        open where that works.
        """
        # Real samples tell the sizes; made-up ones have sizes that somebody invented.
        if samples.synthetic and not graph.states and (free := _with_free_sizes(graph, samples)) is not None:
            return free
        return super().open_or_fixed(graph, samples)

    def quantize(
        self, model: FloatModel, samples: Samples, recipe: Recipe, *, progress: Progress | None = None
    ) -> QuantizedModel:
        model = _with_its_recurrent_form(model, samples, recipe)
        made = quantized_model(model, samples, recipe=recipe, effort=self.effort, progress=progress)
        return checked_batch(model, made, samples)

    def write(
        self,
        model: FloatModel | QuantizedModel,
        path: str | os.PathLike[str],
        *,
        check: Callable[[str], object] | None = None,
    ) -> int:
        chunks = model.chunks() if isinstance(model, FloatModel) else [model.content]
        return write_file(path, chunks, check=check)

    @staticmethod
    def open_file(path: str) -> Model:
        return Model.as_it_says(path)

    def judged(
        self,
        model: FloatModel,
        quantized: QuantizedModel,
        original: Graph,
        evaluation: Samples,
        *,
        progress: Progress | None = None,
        end_to_end: bool = True,
        kept: KeptAnswers | None = None,
    ) -> ModelPair[FloatModel, QuantizedModel]:
        made = super().judged(
            model, quantized, original, evaluation, progress=progress, end_to_end=end_to_end, kept=kept
        )
        # Single calls say nothing of errors that go round through the state.
        if model.core.states:
            quantized.warnings.append(drift(model, quantized, evaluation))
        return made


def recurrent_form(recipe: Recipe) -> str:
    """What LSTMs become on the way to a recipe's model, see `lower_graph`.

    A loop hands over floats; LiteRT's own op has a form in integers, whether or not it is faster.
    """
    return "fused" if recipe.scheme == "int8" and not recipe.leaves("recurrent") else "auto"


def _with_its_recurrent_form(model: FloatModel, samples: Samples, recipe: Recipe) -> FloatModel:
    """The float model that a recipe's is made from: lowered anew where loops may become LSTMs in integers."""
    form = recurrent_form(recipe)
    if form == "auto" or not any(o.code == "WHILE" for o in model.program.subgraphs[0].operators):
        return model
    return float_model(model.core.graph, samples, fixed=model.fixed, settle=False, recurrent=form)


def float_model(
    graph: Graph,
    samples: Samples | None = None,
    *,
    fixed: str = "",
    settle: bool = True,
    recurrent: str = "auto",
) -> FloatModel:
    """The part of the graph that LiteRT can run whole, lowered. An open batch stays open if no more can be
    lowered with a fixed one.

    Args:
        graph: with inputs and outputs set.
        samples: the first one settles sizes that the graph leaves open.
        fixed: why an open batch has to be fixed all the same, at that of the first sample.
        settle: whether the first sample settles sizes beyond the batch; if not, they stay open.
        recurrent: what LSTMs become, see `lower_graph`.

    Raises:
        UnsupportedOp: it can run nothing of it.
    """
    require_numbers(graph)
    if settle:
        settle_sizes(graph, samples)
    if fixed:
        fix_batch(graph, samples)
        return replace(_lowered(graph, samples, fix=True, recurrent=recurrent), fixed=fixed)
    lower = partial(_lowered, graph, samples, recurrent=recurrent)
    lowered, why = open_else_fixed(graph, samples, lower, partial(lower, fix=True))
    return replace(lowered, fixed=why)


def _lowered(
    graph: Graph, samples: Samples | None, *, fix: bool = False, recurrent: str = "auto"
) -> FloatModel:
    """The program of the core.

    Args:
        fix: whether the batch of what is computed before the core is fixed, where it is always one; so it is
            too where the graph's inputs leave none open.
    """
    core = whole_with_texts(graph, partial(find_core, one_sample=False))
    # Without an open input there is no batch that a computed size could count.
    fix = fix or not any(is_open(v.spec) for v in graph.inputs)
    # Values that samples tell nothing about count as one row where the batch is fixed.
    counts = _leading_sizes(core, samples) if fix else {}
    specs = {v: _with_sizes(v, counts.get(v, {1} if fix else {})) for v in core.inputs}
    # Shapes behind the core's inputs follow from the sizes that were chosen for them.
    infer_shapes(graph, {v: v.spec for v in graph.inputs} | specs)
    lowered = lower_graph(graph, core.inputs, core.outputs, specs={}, recurrent=recurrent)
    model = FloatModel(core, lowered.program)
    model.program.description = model.coverage.description
    return model


def _with_free_sizes(graph: Graph, samples: Samples) -> FloatModel | None:
    """A model of the whole graph that leaves open what the graph does, such as the steps of a recurrent net,
    and answers as the graph does for one choice of these sizes and for twice those.

    None if there is no such model, or nothing is open but the batch.
    """
    before = {v: v.spec for v in graph.inputs}
    if not any(spec.shape and None in spec.shape[1:] for spec in before.values()):
        return None
    first = next(iter(samples))
    try:
        model = float_model(graph, samples, settle=False)
        # Only a model that takes the graph's own inputs has the graph's open sizes.
        if not model.fixed and model.coverage.kind == WHOLE:
            # Two choices of sizes: a program that has one of them fixed inside fails for the other.
            feeds = [model.core.before(feed) for feed in (first, doubled(first))]
            largest_difference(model, feeds, samples)
            if not why_one_batch(model, samples):
                return model
    except ThinflowError as error:
        logger.debug("sizes are settled: %s", error.message)
    # The attempt has written shapes into the graph.
    infer_with_loops(graph, before)
    return None


def _leading_sizes(core: Core, samples: Samples | None) -> dict[Value, set[int]]:
    """The leading sizes that values computed before the core have for the first samples, where open.

    Without samples for one that is made up, if it goes through what is before the core.
    """
    computed = [v for v in core.inputs if v not in core.graph.inputs and v.shape and v.shape[0] is None]
    if not computed:
        return {}
    found: dict[Value, set[int]] = {v: set() for v in computed}
    made_up = samples is None
    chosen = samples_for(core.graph, None, limit=1) if samples is None else samples
    with suppress(ThinflowError) if made_up else nullcontext():
        for feed in islice(chosen, _SAMPLES_FOR_SIZES):
            for value, array in zip(core.inputs, core.before(feed), strict=True):
                if value in found and array.ndim:
                    found[value].add(len(array))
    return {value: sizes for value, sizes in found.items() if sizes}


def _with_sizes(value: Value, leading: Collection[int]) -> TensorSpec:
    """The spec to convert with: an open batch becomes 1 if nothing else was seen, other open sizes stay open.

    Args:
        leading: leading sizes that were seen; an open one that is not always 1 is no batch, and stays open.
    """
    spec = declared_spec(value) if value.spec.shape is None else value.spec
    fixed = _reshaped_size(value, spec)
    if fixed is not None and spec.shape is not None:
        return TensorSpec(spec.dtype, (fixed, *spec.shape[1:]))
    if spec.shape and spec.shape[0] is None and None not in spec.shape[1:] and set(leading) == {1}:
        return TensorSpec(spec.dtype, (1, *spec.shape[1:]))
    return spec


def _reshaped_size(value: Value, spec: TensorSpec) -> int | None:
    """The open leading size of a computed value, told by a Reshape that gives it a known size; else None.

    Rows that were looked up in parts of a table and put together again are such.
    """
    if not spec.shape or spec.shape[0] is not None or None in spec.shape[1:] or value.is_graph_input:
        return None
    # A Reshape keeps the number of elements: those of its result, by those of one row, are the rows.
    each = math.prod(size or 0 for size in spec.shape[1:])
    for use in value.uses:
        result = use.node.output().spec
        if use.node.op == "Reshape" and use.index == 0 and result.is_static and each:
            return (result.size or 0) // each
    return None


def quantized_model(
    model: FloatModel,
    samples: Samples,
    *,
    recipe: Recipe | None = None,
    effort: str = "default",
    threads: int = 2,
    progress: Progress | None = None,
) -> QuantizedModel:
    """The float program in a recipe's scheme, calibrated on samples if the scheme needs ranges.

    Ranges that the model was trained with (FakeQuant) count more than those of samples.

    Args:
        effort: how much is tried to make it better, see `climb.EFFORTS`.

    Raises:
        FeedError: no samples, or they do not fit.
        ParameterError: the recipe names nodes that the program does not have.
    """
    # A conversion to float does without, and it takes as long to import as most models to convert.
    from thinflow.optimize.climb import Goal, smaller_program
    from thinflow.quantize.trained import without_fake_quants

    recipe = recipe or Recipe()
    recipe.check_names((o for block in model.program.subgraphs for o in block.operators), "LiteRT")
    program, stated = without_fake_quants(model.program) if recipe.needs_samples else (model.program, {})
    goal = Goal(program, stated, threads=threads)
    made = smaller_program(
        goal, model.feeds(samples), recipe, effort, made_up=samples.synthetic, progress=progress
    )
    return replace(
        smaller_model(model, made.quantized, made.calibration, made.warnings),
        way=made.way,
    )


def smaller_model(
    model: FloatModel, quantized: Quantized[Program], calibration: Calibration, warnings: Sequence[str]
) -> QuantizedModel:
    """A quantized program as the smaller one of a float model."""
    from thinflow.optimize.quantized import QuantizedModel

    float_bytes = write_program(model.program)[0]
    return QuantizedModel(model.core, quantized, calibration, float_bytes, [*warnings])


def checked_batch(model: FloatModel, made: QuantizedModel, samples: Samples) -> QuantizedModel:
    """A smaller LiteRT model whose batch is open only if it answers so; a fixed one is told in its warnings.

    Args:
        model: the float model that it was made from.
        made: the smaller one.
        samples: for the whole graph.
    """
    if not model.is_open:
        return replace(made, warnings=[*model.batch_notes, *made.warnings])
    from thinflow.optimize.quantized import why_one_smaller_batch

    why = why_one_smaller_batch(model, made.comparable, samples)
    if not why:
        return made
    first = model.core.before(next(iter(samples)))
    # By name, as the quantized program has tensors of its own for the same inputs.
    sizes = {v.name: len(a) for v, a in zip(model.core.inputs, first, strict=True) if a.ndim}
    quantized = _with_batch(made.quantized, sizes)
    note = batch_note(quantized.program.subgraphs[0].inputs, model.core, why)
    return replace(made, quantized=quantized, warnings=[note, *made.warnings])


def _with_batch(made: Quantized[Program], sizes: dict[str, int]) -> Quantized[Program]:
    """The program with first sizes of its inputs fixed where they are open."""
    main = made.program.subgraphs[0]
    fixed = {t: _fixed(t, sizes.get(t.name, 1)) for t in main.inputs if is_open(TensorSpec(t.dtype, t.shape))}
    # Copies, as the given program stays as it is; float_operators names operators by identity, so that its
    # entries have to move along.
    moved = {
        o: replace(o, inputs=[t if t is None else fixed.get(t, t) for t in o.inputs])
        for o in main.operators
        if any(t in fixed for t in o.inputs)
    }
    inputs, outputs = ([fixed.get(t, t) for t in side] for side in (main.inputs, main.outputs))
    operators = [moved.get(o, o) for o in main.operators]
    subgraph = replace(main, inputs=inputs, outputs=outputs, operators=operators)
    signatures = {
        key: Signature(*({name: fixed.get(t, t) for name, t in side.items()} for side in pair))
        for key, pair in made.program.signatures.items()
    }
    subgraphs = [subgraph, *made.program.subgraphs[1:]]
    return replace(
        made,
        program=replace(made.program, subgraphs=subgraphs, signatures=signatures),
        float_operators=[(moved.get(o, o), reason) for o, reason in made.float_operators],
    )


def _fixed(tensor: Tensor, size: int) -> Tensor:
    return replace(tensor, shape=(size, *(tensor.shape or ())[1:]))


def drift(model: FloatModel, quantized: QuantizedModel, samples: Samples) -> str:
    """The drift of a smaller model that keeps its own state over calls in a row, in a sentence."""
    states = model.core.states
    from thinflow.optimize.quantized import with_float_borders

    content = to_bytes(with_variables(with_float_borders(quantized.quantized.program, states), states))
    apart = check_calls(model, content, samples, tolerance=math.inf)
    return (
        f"the smaller model keeps its state with its own rounding: over {CALLS} calls in a row its answers"
        f" are up to {apart:.2g} of the largest value away; the qualities shown are those of single calls"
    )
