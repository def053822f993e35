"""Quantization of a model from any file: in memory, or into a file with an account of how good it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.load.frozen import AUTO, FREEZE, kept_else_frozen, opening_notes, source_notes
from thinflow.load.graphs import load_for_inference
from thinflow.lower.c.settle import require_sizes
from thinflow.optimize.c_conversion import CFiles
from thinflow.optimize.c_options import COptions
from thinflow.optimize.coverage import whole
from thinflow.optimize.examination import attach, examine
from thinflow.optimize.float_graph import float_graph, reopened
from thinflow.optimize.judging import compare_models
from thinflow.optimize.layer_noise import layer_errors
from thinflow.optimize.litert import FloatModel, LiteRTMaker, drift
from thinflow.optimize.maker import M, ModelMaker, Q
from thinflow.optimize.numeric_check import StateNotKept, require_states
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.openvino import OpenVinoMaker, require_openvino
from thinflow.optimize.optimized_graph import picture_warnings
from thinflow.optimize.quality import Quality, decibels, finite_decibels
from thinflow.optimize.quality_page import Shown, shown_of
from thinflow.optimize.quality_text import quality_data, quality_lines
from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel, SmallerModel
from thinflow.optimize.quantized_graph import SUFFIXES as GRAPHS
from thinflow.optimize.quantized_page import quantize_document
from thinflow.optimize.recipe_options import (
    OpenedRecipe,
    opened_recipe,
    recipe_notes,
    save_recipe,
    with_choices,
)
from thinflow.optimize.recurrent_advice import without_samples
from thinflow.optimize.samples import SampleOptions, Samples, both_samples, class_names_of, doubts_of, rebind
from thinflow.optimize.sensitivity import sensitivity
from thinflow.optimize.source_proof import note_proof, prove_and_free
from thinflow.pages.shell import require_pages, save_document
from thinflow.program.amounts import bytes_text
from thinflow.quantize.onnx_weights import least_opset
from thinflow.quantize.recipe import QdqOptions, Recipe, check_recipe, chosen_recipe
from thinflow.quantize.shares import reading_matrices
from thinflow.typing import FilePath, Progress

ONNX_ONLY = ("opset", "external_data", "activations", "reduce_range")
"""Options that only ONNX models have."""
KEEPING = (".tflite", ".c")
"""Suffixes of files that keep variables from one run to the next."""


@brief_repr
@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(SampleOptions):
    """Options of quantization, in memory and into a file.

    Attributes:
        scheme, recipe: which scheme, or all that can be chosen, or a file of that; one of them, or neither.
        effort: how much is tried to make the model better, a key of `climb.EFFORTS`; default: nothing for a
            recipe of a file.
        save_recipe: a file for the recipe that was found.
        sensitivity: also measure what each layer loses alone, see `sensitivity`.
        opset, external_data, activations, reduce_range: of ONNX models; see `OnnxMaker` and `QdqOptions`.
        strict: refuse to make a part.
        html: a file for a page to look at.
        progress: called with (done, total, label).
        of_c: what is asked of a .c file.
        names: how to open the model, as for `load`.
    """

    scheme: str | None = None
    recipe: Recipe | FilePath | None = None
    effort: str | None = None
    save_recipe: FilePath | None = None
    sensitivity: bool = False
    opset: int | None = None
    external_data: bool | None = None
    activations: str | None = None
    reduce_range: bool | None = None
    strict: bool = False
    html: FilePath | None = None
    progress: Progress | None = None
    of_c: COptions = field(default_factory=COptions)
    names: Mapping[str, Any] = field(default_factory=dict)

    def chosen(self) -> Recipe:
        """The recipe, or the plain one of the scheme; see `chosen_recipe`."""
        return chosen_recipe(self.scheme, self.opened.recipe)

    @cached_property
    def opened(self) -> OpenedRecipe:
        """The recipe, read if it is a file, and the effort; refused before any work is done."""
        return opened_recipe(self.recipe, self.effort)

    def for_onnx(self) -> OnnxMaker:
        """The maker of ONNX models that was asked for; what cannot be done is refused before any work is.

        Raises:
            ParameterError: no such opset, type or scheme, or something that is measured with LiteRT only.
        """
        if self.sensitivity:
            raise ParameterError(
                "sensitivity is measured with LiteRT",
                hint="write a .tflite with it first; layers that lose much there do so here, too",
            )
        # None means "not said", so that an option for another runtime can be told from a default.
        options = QdqOptions(self.activations or "uint8", self.reduce_range)
        check_recipe(self.chosen())
        # Fixed here: only float models take a newer opset by themselves.
        opset = least_opset(self.chosen()) if self.opset is None else self.opset
        return OnnxMaker(
            opset=opset, options=options, external_data=self.external_data, effort=self.opened.effort
        )

    def for_openvino(self) -> OpenVinoMaker:
        """The maker of OpenVINO models that was asked for; as `for_onnx`."""
        if self.opset is not None or self.external_data is not None:
            what = "an opset goes" if self.opset is not None else "external data goes"
            raise ParameterError(f"{what} with .onnx files only", hint="end the output's name in .onnx")
        require_openvino()
        plain = self.for_onnx()
        return OpenVinoMaker(options=plain.options, effort=plain.effort)

    def for_litert(self, kind: str, hint: str) -> LiteRTMaker:
        """The maker of LiteRT models that was asked for.

        Raises:
            ParameterError: an option of ONNX models was given; the sentence says what those are.
        """
        # Set at all, even to its default: whoever says it expects something of it.
        wrong = next((name for name in ONNX_ONLY if getattr(self, name) is not None), None)
        if wrong is not None:
            raise ParameterError(f"{wrong} goes with {kind} only", hint=hint)
        return LiteRTMaker(self.opened.effort)


@dataclass(frozen=True)
class _Inputs:
    """A model that can be quantized, and samples for it.

    Attributes:
        original: the graph as it was opened.
        settings: what was set in it for inference.
        graph: the same after the float pipeline.
        data, tested: samples for the ranges and to judge on, for `original`.
        calibration, judges: the same two for `graph`.
    """

    original: Graph
    settings: Sequence[str]
    graph: Graph
    data: Samples
    tested: Samples

    @property
    def calibration(self) -> Samples:
        return rebind(self.data, self.original, self.graph)

    @property
    def judges(self) -> Samples:
        return rebind(self.tested, self.original, self.graph)

    def judges_of(self, calibration: Samples) -> Samples:
        """The samples that judge: those of calibration themselves if there are no others."""
        return calibration if self.tested is self.data else self.judges


def _opened(source: Any, order: str, options: QuantizeOptions, state: str | None = None) -> _Inputs:
    """The model opened for inference, optimized for a runtime, with its samples.

    Args:
        state: what becomes of variables that runs change; default: as for `load`.
    """
    names = options.names if state is None else {**options.names, "state": state}
    graph, settings = load_for_inference(source, **names)
    may_differ = isinstance(source, Graph)
    is_proven = prove_and_free(graph, may_differ=may_differ)
    data, tested = both_samples(graph, options)
    if not is_proven:
        note_proof(graph, data, may_differ=may_differ)
    optimized = float_graph(graph, samples=data, progress=options.progress, runtime=order).graph
    return _Inputs(graph, settings, optimized, data, tested)


def _quantized(
    maker: ModelMaker[M, Q], inputs: _Inputs, options: QuantizeOptions, *, is_c: bool = False
) -> tuple[M, Q]:
    """The float model and the smaller one.

    Args:
        is_c: whether C is made of it, which needs all sizes; told before anything is calibrated.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        OpenSizes: C needs sizes that are open.
    """
    samples = inputs.calibration
    model = maker.open_or_fixed(inputs.graph, samples)
    require_states(model.core)
    # Who waits for a calibration does not want to learn afterwards that there is nothing to write.
    if is_c and isinstance(model, FloatModel):
        for tensor in model.inputs:
            require_sizes(tensor, {v.name: a.shape for feed in samples for v, a in feed.items()})
    if options.strict:
        model.coverage.require_whole()
    found = examine(
        model, inputs.original, (inputs.data, samples), inputs.judges_of(samples), options.chosen()
    )
    made = maker.quantize(model, samples, options.chosen(), progress=options.progress)
    attach(made, found)
    if options.strict:
        made.coverage.require_whole()
    made.warnings[:0] = [
        *recipe_notes(options.opened.file, inputs.original),
        *doubts_of(inputs.data, inputs.tested),
    ]
    if options.save_recipe is not None:
        save_recipe(options.save_recipe, made.way, inputs.original, made.note_of(inputs.data))
    return model, made


def quantize(source: Any, options: QuantizeOptions) -> QuantizedModel:
    """A smaller LiteRT model of a graph or file; the arguments are those of `thinflow.quantize`.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        ParameterError: there is no such scheme.
        FeedError: the samples do not fit.
    """
    maker = options.for_litert("ONNX models", 'say format="onnx"')
    # Refused before the model is opened, which may take long.
    options.chosen()
    inputs = _opened(source, maker.order, options)
    _, made = _quantized(maker, inputs, options)
    made.for_onnx = partial(_for_onnx, inputs, options)
    return made


def _for_onnx(inputs: _Inputs, options: QuantizeOptions) -> OnnxQuantizedModel:
    """The same for ONNX Runtime, of the graph that the LiteRT model was made of."""
    again = reopened(inputs.original, inputs.graph)
    same = _Inputs(inputs.original, inputs.settings, again, inputs.data, inputs.tested)
    # The LiteRT model stands already; its ONNX twin may be a part.
    return _quantized(options.for_onnx(), same, replace(options, strict=False))[1]


def quantize_onnx(source: Any, options: QuantizeOptions) -> OnnxQuantizedModel:
    """A smaller ONNX model of a graph or file; the arguments are those of `thinflow.quantize`.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        ParameterError: there is no such scheme, type or opset.
        FeedError: the samples do not fit.
    """
    maker = options.for_onnx()
    return _quantized(maker, _opened(source, maker.order, options), options)[1]


def quantize_to_file(source: Any, path: str | os.PathLike[str], options: QuantizeOptions) -> dict[str, Any]:
    """Write a smaller .tflite, .onnx, .xml, .c or .pb; its size, its quality beside the graph, and warnings.

    A .pb is the whole graph, in which FakeQuants round as the .tflite does. Of the others a part of the model
    is written under another name: small.tflite becomes small_part.tflite.

    Args:
        source: path or Graph.
        path: whose suffix says for which runtime.
        options: see `QuantizeOptions`.

    Raises:
        PartialModel: the file could hold only a part, and `strict` forbids that; nothing is written.
        ParameterError: another suffix, or options that do not go with it.
        ThinflowError: the model cannot be read, quantized or written.
    """
    name = os.fspath(path)
    if name.endswith(".onnx"):
        return _quantize_to_file(source, name, options.for_onnx(), options)
    if name.endswith(".xml"):
        return _quantize_to_file(source, name, options.for_openvino(), options)
    maker = options.for_litert(".onnx files", "end the output's name in .onnx")
    if name.endswith(".mlpackage"):
        # Core ML computes in floats: bits are saved in weights, and need no samples.
        raise ParameterError(
            f"{name}: a Core ML package is made smaller while it is converted",
            hint="thinflow convert MODEL OUT.mlpackage --weights int8",
        )
    if not name.endswith((".tflite", ".c", *GRAPHS)):
        raise ParameterError(
            f"{name}: a quantized model is a .tflite, .onnx, .xml, .c or .pb file",
            hint="end the name in .tflite, .onnx, .xml, .c or .pb",
        )
    return _quantize_to_file(source, name, maker, options)


def _quantize_to_file(
    source: Any, path: str, maker: ModelMaker[M, Q], options: QuantizeOptions
) -> dict[str, Any]:
    """The account of the file that a maker made; see `quantize_to_file`."""
    options.chosen()
    options.of_c.chosen()
    if options.html is not None:
        require_pages()
    is_graph = path.endswith(GRAPHS)
    # What LiteRT cannot hold stays around it in a graph.
    model_options = replace(options, strict=options.strict and not is_graph)
    is_c = path.endswith(".c")
    # As `convert` and `optimize` do, where the format has variables.
    chosen = options.names.get("state", AUTO)
    state = chosen if chosen != AUTO or path.endswith(KEEPING) else FREEZE

    def opened(state: str) -> tuple[Graph, _Inputs]:
        inputs = _opened(source, maker.order, options, state)
        return inputs.original, inputs

    def quantized(_: Graph, inputs: _Inputs) -> tuple[M, Q]:
        return _quantized(maker, inputs, model_options, is_c=is_c)

    _, inputs, (model, made) = kept_else_frozen(source, state, opened, quantized, StateNotKept)
    contents, progress = {"smaller": made.comparable}, options.progress
    quality = compare_models(
        model, contents, inputs.original, inputs.judges, progress=progress, smaller={"smaller": made}
    )["smaller"]
    made.layers = layer_errors(made.quantized, model.feeds(inputs.judges))
    if isinstance(model, FloatModel) and isinstance(made, QuantizedModel) and model.core.states:
        made.warnings.append(drift(model, made, inputs.calibration))
    losses = []
    if options.sensitivity and isinstance(model, FloatModel):
        losses = sensitivity(model, inputs.calibration, recipe=made.way.recipe, progress=progress)
    if is_graph:
        made.coverage = whole(made.core)
    where = made.coverage.path(path)
    of_c: CFiles | None = None
    if isinstance(made, QuantizedModel) and path.endswith(".c"):
        of_c = made.save_c(where, options.of_c)
        size = of_c.size_bytes
    elif isinstance(made, QuantizedModel) and not path.endswith(".tflite"):
        # Run beside LiteRT on its way to the disk, and no file of LiteRT's to open.
        size = made.save(where)
    else:
        size = maker.write(made, where, check=maker.open_file)
    if isinstance(source, (str, os.PathLike)) and of_c is None and 0 < _bytes_of(source) < size:
        own = f"{os.path.basename(source)} itself is smaller, {bytes_text(_bytes_of(source))}"
        made.warnings.append(f"{own}: its weights are not all floats")
    account = {
        **_account(inputs, made, quality, options.chosen(), path, size),
        "trials": [asdict(trial) for trial in made.way.trials],
        "sensitivity": [asdict(loss) for loss in losses],
        "c": [] if of_c is None else [of_c.proof, *of_c.notes],
    }
    if options.html is not None:
        shown = _shown(inputs, quality, options)
        save_document(quantize_document(account, inputs.original.path, made, quality, shown), options.html)
    return account


def _bytes_of(source: FilePath) -> int:
    """Bytes of a file; 0 of a folder, of which much may be something else."""
    return os.path.getsize(source) if os.path.isfile(source) else 0


def _shown(inputs: _Inputs, quality: Quality, options: QuantizeOptions) -> Shown:
    """What the samples look like whose answers are told, unless they were made up."""
    tested = inputs.tested
    if tested.synthetic:
        return Shown()
    return shown_of(quality.told, tested, tested.place, class_names_of(inputs.original, options.labels))


def _account(
    inputs: _Inputs, made: SmallerModel[Any], quality: Quality, recipe: Recipe, path: str, size: int
) -> dict[str, Any]:
    """The size, origin and quality of the file that was made.

    Args:
        quality: of the model that was made.
        path: as it was asked for.
        size: bytes of the file.
    """
    data, coverage = inputs.data, made.coverage
    name = coverage.path(path)
    made_up = data.synthetic and bool(made.quantized.measured)
    # What stays float matters most where it has weights.
    matrices = reading_matrices(made.quantized.program)
    ranges = "the ranges fit made-up inputs; give real samples with --calibration"
    source = made.quantized.source
    note = [ranges + ("" if source is None else without_samples(source))] if made_up else []
    return {
        "path": name,
        "partial": coverage.is_part,
        "coverage": coverage.data(),
        "verdict": coverage.verdict(name, path) if coverage.is_part else coverage.note,
        "origin": [*source_notes(inputs.original), *filter(None, [made.ranges_note])],
        "scheme": recipe.scheme,
        "size_bytes": size,
        "float_bytes": made.float_bytes,
        "quality": "; ".join(filter(None, (quality.sentence(), coverage.note))),
        "sqnr_db": finite_decibels(quality.sqnr_db),
        "noise": decibels(quality.sqnr_db),
        "judged": quality_lines(quality),
        **quality_data(quality),
        "samples": made.note_of(data),
        "tested_on": made.note_of(inputs.tested),
        "synthetic": data.synthetic,
        "calibration": [finding.data() for finding in made.findings],
        "arithmetic": made.shares.data(),
        "noise_by_layer": made.layers.data(),
        "float_operators": [
            [o.code, o.origin, why]
            for o, why in sorted(made.quantized.float_operators, key=lambda pair: pair[0] not in matrices)
        ],
        "warnings": [
            *opening_notes(inputs.original),
            *switch_notes(inputs.settings),
            *note,
            *picture_warnings(inputs.original, data),
            *made.warnings,
        ],
    }


def observer_named(text: str) -> tuple[str, dict[str, float]]:
    """`percentile(percent=99.99)` as a name and options.

    Raises:
        ParameterError: it is not written like that.
    """
    name, bracket, rest = text.strip().partition("(")
    options: dict[str, float] = {}
    if bracket and not rest.endswith(")"):
        raise ParameterError(f"--observer {text}: a bracket is open", hint="write percentile(percent=99.99)")
    for item in filter(None, rest.removesuffix(")").split(",")):
        option, equals, value = item.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ParameterError(
                f"--observer {text}: '{item}' is no option", hint="write percentile(percent=99.99)"
            )
        # Options such as the number of bins are whole numbers, and observers may count with them.
        options[option.strip()] = int(number) if number.is_integer() else number
    return name, options


def recipe_from(
    recipe: FilePath | None = None,
    *,
    observer: str | None = None,
    keep_float: Sequence[str] = (),
    **choices: Any,
) -> Recipe | FilePath:
    """The recipe that a command line describes; its file, if it names one and contradicts nothing in it.

    Args:
        choices: fields of `Recipe`; None for what was not said.

    Raises:
        ParameterError: something of it does not exist, or contradicts the file.
    """
    said = {name: value for name, value in choices.items() if value is not None}
    if observer is not None:
        said["observer"], said["observer_options"] = observer_named(observer)
    if keep_float:
        said["skip_nodes"] = tuple(keep_float)
    return with_choices(recipe, said)
