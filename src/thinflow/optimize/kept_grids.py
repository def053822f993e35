"""Eight-bit files of graphs that were read from eight-bit files: with their scales, without samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.compare.differences import difference
from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.engines.litert import ENGINE
from thinflow.errors import EngineCrashed, EngineUnavailable, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.lift.grids import Grid, grid_of
from thinflow.lower.onnx.fake_quant import range_only
from thinflow.onnx.program import DEFAULT_OPSET
from thinflow.optimize.conversion import NOT_VERIFIED, RUNTIMES, Conversion, Converter, told_of
from thinflow.optimize.converted import ConvertedModel, batch_failure, core_feeds, core_results, several
from thinflow.optimize.detections import is_behind_suppression
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import LiteRTMaker, checked_batch, smaller_model
from thinflow.optimize.maker import ModelMaker
from thinflow.optimize.numeric_check import CALLS, CODES_TOLERANCE, require_states
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.quantized import OnnxQuantizedModel, SmallerModel
from thinflow.optimize.samples import Samples, samples_for
from thinflow.quantize.calibrate import Calibration
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.placement import KEPT, UNSEEN
from thinflow.quantize.prepare import prepare
from thinflow.quantize.qdq import quantize_qdq
from thinflow.quantize.qdq_ends import with_integer_ends
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.quantize.trained import before_clamps, spread, without_fake_quants
from thinflow.quantize.unsigned import as_unsigned, has_shifted_weights
from thinflow.tflite.model import Program
from thinflow.tflite.writer import to_bytes
from thinflow.transforms.quantized.grids import FloatEnds, kept_grids, make_ends_float
from thinflow.typing import Array

Model = ConvertedModel[Any]


@dataclass(frozen=True)
class KeptGrids:
    """The grids of a graph whose ends were made real numbers.

    Attributes:
        ends: the types of what it took and gave.
        grids: of its inputs and outputs, by name.
        bits: of the codes of values.
    """

    ends: FloatEnds
    grids: Mapping[str, Grid]
    bits: int

    @property
    def border_types(self) -> dict[str, str]:
        return {**self.ends.inputs, **self.ends.outputs}


def bits_of(graph: Graph, maker: ModelMaker[Any, Any]) -> int | None:
    """The bits of the values of a quantized file that a runtime can keep; None if there are none.

    ONNX Runtime computes in eight bits, LiteRT in eight, or in sixteen where no value has eight.
    """
    found = {grid.bits for grid in kept_grids(graph).values()}
    if 8 in found:
        return 8
    return 16 if 16 in found and isinstance(maker, LiteRTMaker) else None


@dataclass
class KeptConverter(Converter[Any]):
    """Writes a graph that says the grids of a quantized file as a quantized file again."""

    def convert(self) -> Conversion:
        """Write the model that answers as the graph does, its open batch fixed if it has to be.

        Raises:
            VerificationError: it does not; nothing is written.
        """
        plain = self.graph.clone()
        bits = bits_of(plain, self.maker) or 8
        ends = make_ends_float(plain, (bits,))
        optimized = float_graph(plain, verify=self.verify, runtime=self.maker.order, sizes=False)
        kept = _kept(optimized.graph, ends, bits)
        # Files that keep state are asked several times in a row.
        samples = samples_for(optimized.graph, None, limit=CALLS if plain.states else 2)
        make = _onnx if isinstance(self.maker, OnnxMaker) else _litert
        model, made = make(self.maker, optimized.graph, kept, samples)
        require_states(model.core)
        missing = self.maker.missing()
        found: list[float] = []
        beside: list[str] = []

        def check(part: str) -> None:
            feeds = core_feeds(model.core, samples, CALLS if model.core.states else 1)
            # Its codes are told by reading it as a graph.
            is_twin = self.maker.reads_files and not model.coverage.is_part
            try:
                found.append(_compare(model, kept, samples, feeds, part, self.timeout_seconds))
            except VerificationError as error:
                if not is_twin:
                    raise
                beside.append(self._by_layer(part, error))
                found.append(math.inf)
            else:
                beside.append(self.beside_source(part if is_twin else None))

        runs = self.verify and not missing
        size = self.maker.write(made, self._path(model), check=check if runs else None)
        proof = _agrees(model, found[0]) if found else f"not run: {missing}" if self.verify else NOT_VERIFIED
        if self.verify and not runs:
            beside.append(self.beside_source())
        proof = "; ".join(filter(None, [proof, *beside]))
        made_of = self._conversion(model, optimized, size, proof, _notes(made))
        made_of.notes = [_with_codes(note, kept.border_types) for note in made_of.notes]
        return made_of

    def _by_layer(self, part: str, apart: VerificationError) -> str:
        """The proof of a file whose answers are apart from the graph's by roundings that add up: every layer,
        fed with the source's own tensors, is right.

        Raises:
            VerificationError: what was said of the answers, where not every layer is.
        """
        try:
            proof = self.source_proof(part)
        except VerificationError:
            raise apart from None
        if not proof.by_layer:
            raise apart
        return told_of(proof, part)


def _agrees(model: Model, steps: float) -> str:
    runtime, outputs = RUNTIMES[model.engine], model.core.outputs
    if math.isinf(steps):
        return f"{runtime} runs it; roundings that add up lead its answers away from the graph's"
    boxes = [v for v in outputs if is_behind_suppression(v)]
    apart = "detections were not compared one by one, as a step decides which box goes first"
    if boxes and len(boxes) == len(outputs):
        return f"{runtime} runs it; its {apart}"
    agrees = f"{runtime} answers as the graph does, up to {steps:.2g} of the steps that its answers have"
    return f"{agrees}; {apart}" if boxes else agrees


def _with_codes(note: str, types: Mapping[str, str]) -> str:
    """A note on an input or output with the type that the file has."""
    side, *rest = note.split()
    if side in ("input", "output") and rest and rest[0] in types:
        return note.replace(" float[", f" {types[rest[0]]}[")
    return note


def _kept(graph: Graph, ends: FloatEnds, bits: int) -> KeptGrids:
    found = {**_grids_behind(graph.inputs), **_grids_before(graph.outputs)}
    return KeptGrids(ends, found, bits)


def _grids_behind(inputs: Iterable[Value]) -> dict[str, Grid]:
    pairs = ((v.name, grid_of(reader)) for v in inputs for reader in v.readers)
    return {name: grid for name, grid in pairs if grid is not None}


def _grids_before(outputs: Iterable[Value]) -> dict[str, Grid]:
    pairs = ((v.name, grid_of(v.node)) for v in outputs)
    return {name: grid for name, grid in pairs if grid is not None}


def _litert(
    maker: ModelMaker[Any, Any], graph: Graph, kept: KeptGrids, samples: Samples
) -> tuple[Model, SmallerModel[Any]]:
    """The float model with FAKE_QUANT, and the integer one."""
    assert isinstance(maker, LiteRTMaker)
    model = maker.open_or_fixed(graph, samples)
    program, ranges = without_fake_quants(model.program, observer=KEPT, bits=kept.bits)
    scheme = "int16x8" if kept.bits == 16 else "int8"
    recipe = Recipe(scheme=scheme, keep_weights=True, float_parts=frozenset())
    ranges = spread(program, ranges)
    quantized = quantize_int8(program, ranges, recipe, kept.border_types)
    if has_shifted_weights(program) and kept.bits == 8:
        quantized = _unsigned(program, ranges, recipe, kept.border_types) or quantized
    made = smaller_model(model, quantized, Calibration(), [])
    return model, checked_batch(model, made, samples)


def _unsigned(
    program: Program, ranges: dict[Any, Range], recipe: Recipe, types: Mapping[str, str]
) -> Quantized[Program] | None:
    """The program in uint8, whose kernels take weights with a zero point; None where one of them is missing
    here, or an end is another type.
    """
    if not set(types.values()) <= {"uint8"} or ENGINE.available():
        return None
    made = as_unsigned(quantize_int8(program, ranges, recipe, dict.fromkeys(types, "int8"), shifted=True))
    # Kernels tell what they do not take when they are asked to compute, some not before.
    ends = made.program.subgraphs[0].inputs
    zeros = [np.zeros([n or 1 for n in t.shape or ()], t.dtype.numpy()) for t in ends]
    try:
        run_file(to_bytes(made.program), ENGINE.name, [zeros])
    except (EngineUnavailable, EngineCrashed):
        return None
    return made


def _onnx(
    maker: ModelMaker[Any, Any], graph: Graph, kept: KeptGrids, samples: Samples
) -> tuple[Model, SmallerModel[Any]]:
    """The float model without the grids, and the integer one."""
    assert isinstance(maker, OnnxMaker)
    model, made = _qdq(maker, graph, kept, samples, "")
    if model.is_open and not maker.missing():
        with batch_failure() as why:
            feeds = [several(model.core, samples)]
            _compare(model, kept, samples, feeds, made.content)
        if why:
            model, made = _qdq(maker, graph, kept, samples, "".join(why))
    return model, made


def _qdq(
    maker: OnnxMaker, graph: Graph, kept: KeptGrids, samples: Samples, fixed: str
) -> tuple[Model, OnnxQuantizedModel]:
    with range_only(graph):
        # FakeQuant nodes give ranges here, so they must be lowered to notes and not to arithmetic.
        model = replace(maker, opset=maker.opset or DEFAULT_OPSET).lower(graph, samples, fixed=fixed)
    imported = prepare(model.program, observer=KEPT)
    recipe = Recipe(keep_weights=True)
    ranges = before_clamps(model.program, imported)
    # Codes are of uint8 inside, whatever they are at the ends: the kernels that take weights of uint8, too.
    quantized = quantize_qdq(model.program, {}, recipe, imported=ranges)
    whole = {name: kept.grids[name] for name in kept.border_types if name in kept.grids}
    quantized.program = with_integer_ends(quantized.program, whole)
    return model, OnnxQuantizedModel(model.core, quantized, Calibration(), 0, [])


def _compare(
    model: Model,
    kept: KeptGrids,
    samples: Samples,
    feeds: Sequence[Sequence[Array]],
    content: bytes | str,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """The farthest answer of a file from the graph's, in steps of outputs.

    Args:
        model: what of the graph the file holds.
        kept: the grids.
        samples: that the feeds are of.
        feeds: of the core.
        content: of the file, or its path.
        timeout_seconds: for the runtime.

    Raises:
        VerificationError: it answers otherwise.
    """
    core = model.core
    feeds = [
        [_on_grid(x, kept.grids.get(v.name)) for v, x in zip(core.inputs, feed, strict=True)]
        for feed in feeds
    ]
    plan = Plan(core.graph, core.outputs, core.inputs, within=frozenset(core.nodes))
    expected = core_results(plan, core, feeds, samples)
    # The file has its states itself, from one feed to the next.
    fed = core.fed if core.states else core.inputs
    codes = [
        [
            _codes(x, v.name, kept.ends.inputs, kept)
            for v, x in zip(core.inputs, feed, strict=True)
            if v in fed
        ]
        for feed in feeds
    ]
    # As whoever gets the file opens it: what overflows there is wrong.
    runs = run_file(content, model.engine, codes, timeout_seconds=timeout_seconds, careful=False)
    farthest, given = 0.0, core.given if core.states else core.outputs
    # A step more or less decides which of two boxes goes first, and which one is dropped.
    boxes = {v for v in given if is_behind_suppression(v)}
    for wanted, found in zip(expected, runs, strict=True):
        known = dict(zip(core.outputs, wanted, strict=True))
        for value, other in zip(given, found, strict=True):
            if value in boxes:
                continue
            one = known[value]
            farthest = max(farthest, _steps_apart(value, one, model.as_expected(other, one), kept))
    return farthest


def _on_grid(x: Array, grid: Grid | None) -> Array:
    """The numbers that codes stand for nearest to given ones."""
    return x if grid is None else _reals(grid.codes_of(x), grid)


def _codes(x: Array, name: str, types: Mapping[str, str], kept: KeptGrids) -> Array:
    grid = kept.grids.get(name)
    return grid.codes_of(x) if grid is not None and name in types else x


def _reals(codes: Array, grid: Grid) -> Array:
    return np.asarray((codes.astype(np.float64) - grid.zero_point) * grid.scale, np.float32)


def _steps_apart(value: Value, wanted: Array, found: Array, kept: KeptGrids) -> float:
    """The farthest distance of an answer in steps of the output's grid, or, without one, of its 255th part.

    Raises:
        VerificationError: it is too far for roundings that add up.
    """
    grid = kept.grids.get(value.name)
    if grid is not None and found.dtype == grid.kind.numpy() and found.dtype.kind in "iu":
        found = _reals(found, grid)
    apart = difference(wanted, found.reshape(wanted.shape))
    if apart.relative > CODES_TOLERANCE and not _is_astray_in_few(wanted, found.reshape(wanted.shape)):
        raise VerificationError(
            f"the file gives {apart.after} for '{value.name}'{list(apart.index)}, the graph {apart.before}",
            hint="please report this with the model; --no-verify writes it all the same",
        )
    largest = float(np.abs(wanted).max(initial=0)) / 255
    step = grid.scale if grid is not None else largest
    distance = float(np.abs(wanted.astype(np.float64) - found).max(initial=0))
    return distance / step if step else 0.0


def _is_astray_in_few(wanted: Array, found: Array) -> bool:
    """True if no more than one answer in a hundred is far off: in deep networks a tie that one kernel takes
    up and another down may decide some of them. Of a map of classes one in ten: made-up numbers belong to
    none of them, and a published network for segmentation has 71 in a thousand so, and 5 of a picture's.
    """
    if not wanted.size or not (np.isfinite(wanted).all() and np.isfinite(found).all()):
        return False
    distances = np.abs(wanted.astype(np.float64) - found)
    share = 0.9 if wanted.dtype.kind in "iu" else 0.99
    return bool(np.quantile(distances, share) <= CODES_TOLERANCE * np.abs(wanted).max())


def _notes(made: SmallerModel[Any]) -> list[str]:
    """Notes on what is not in eight bits."""
    notes = list(made.warnings)
    floats: Sequence[tuple[Any, str]] = made.quantized.float_operators
    if floats:
        operator, why = floats[0]
        # Nothing was calibrated here: the file's own scales are all that there are.
        why = why.replace(UNSEEN, "the file states no scale of")
        many = " computes" if len(floats) == 1 else "s compute"
        notes.append(f"{len(floats)} operator{many} in float, first {operator.code}: {why}")
    return notes
