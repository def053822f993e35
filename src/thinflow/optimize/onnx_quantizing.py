"""A graph as a smaller .onnx file: eight bits, calibrated on samples, or weights of sixteen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from thinflow.analysis.shapes import infer_shapes
from thinflow.engines.onnxruntime import ENGINE
from thinflow.errors import WriteError
from thinflow.ir.brief import brief_repr
from thinflow.ir.counterparts import counterparts
from thinflow.ir.graph import Graph
from thinflow.ir.notebook import table_html
from thinflow.lower.onnx.fake_quant import range_only
from thinflow.onnx.program import DEFAULT_OPSET, Program, check_opset
from thinflow.onnx.writer import to_bytes, write_program
from thinflow.optimize.batch_check import why_one_batch
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import Coverage, coverage_of, require_name
from thinflow.optimize.float_model import float_graph, spec_after
from thinflow.optimize.onnx import OnnxModel, onnx_model, open_or_fixed, write_onnx
from thinflow.optimize.quantizing import chosen_recipe
from thinflow.optimize.samples import Samples, rebind, samples_for
from thinflow.quantize.calibrate import Calibration, calibrate
from thinflow.quantize.prepare import prepare
from thinflow.quantize.recipe import QdqOptions, Recipe, check_recipe
from thinflow.quantize.result import Quantized
from thinflow.quantize.schemes import quantize_program
from thinflow.typing import Array, Progress


@brief_repr
@dataclass
class OnnxQuantizedModel:
    """The smaller ONNX program of a graph's core, and how it came to be.

    Attributes:
        calibration: empty for float16.
        float_bytes: size of the float file, prepared for quantization.
    """

    core: Core
    quantized: Quantized[Program]
    calibration: Calibration
    float_bytes: int
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the graph it is."""
        return coverage_of(self.core)

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made."""
        return to_bytes(self.quantized.program)

    def _repr_html_(self) -> str:
        rows = [("bytes", len(self.content)), ("quantized tensors", len(self.quantized.decisions))]
        rows.append(("operators that stay float", len(self.quantized.float_operators)))
        title = "part of a model" if self.coverage.is_part else "whole model"
        warnings = [("warning", text) for text in self.warnings]
        return table_html(f"ONNX, {title}", [*rows, *warnings])

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> int:
        """Write an .onnx file; the bytes written.

        Raises:
            WriteError: the name does not end in .onnx, or it cannot be written.
            PartialModel: it is a part of the model, and the name does not say so.
        """
        if not os.fspath(path).endswith(".onnx"):
            raise WriteError("this is an ONNX model", os.fspath(path), hint="end the name in .onnx")
        require_name(self.coverage, path)
        return write_onnx(self.quantized.program, path, external_data=external_data)


def onnx_quantized_model(
    graph: Graph,
    samples: Samples,
    *,
    recipe: Recipe | None = None,
    options: QdqOptions | None = None,
    opset: int = DEFAULT_OPSET,
    threads: int = 2,
    fixed: str = "",
    progress: Progress | None = None,
) -> OnnxQuantizedModel:
    """Lower what ONNX Runtime can run whole and make it smaller, for eight bits by what samples show.

    Ranges of simulated quantization in the graph are used as they are. A batch that the graph leaves open
    stays open if the model answers for two samples at once as well as for one.

    Args:
        graph: with inputs and outputs set.
        samples: for it.
        recipe, options, opset: what to make; see `quantize_onnx`.
        threads: of ONNX Runtime.
        fixed: why an open batch has to be fixed; default: where it is found to be so.
        progress: called with (done, total, label).

    Raises:
        UnsupportedOp: ONNX Runtime can run nothing of the graph.
        EngineUnavailable: ONNX Runtime is missing.
        FeedError: no samples, or they do not fit.
        ParameterError: the recipe asks for what an ONNX model cannot have.
    """
    recipe = recipe or Recipe()
    check_recipe(recipe)
    can_run = ENGINE.available() is None
    if can_run and not fixed:
        fixed = open_or_fixed(graph, samples, opset=opset).fixed
    model, made = _made(graph, samples, recipe, options, opset, threads, fixed, progress)
    if can_run and model.is_open:
        contents = to_bytes(model.program), made.content
        if why := why_one_batch(model, *contents, samples, engine="onnxruntime"):
            model, made = _made(graph, samples, recipe, options, opset, threads, why, progress)
    return replace(made, warnings=[*model.batch_notes, *made.warnings])


def _made(
    graph: Graph,
    samples: Samples,
    recipe: Recipe,
    options: QdqOptions | None,
    opset: int,
    threads: int,
    fixed: str,
    progress: Progress | None,
) -> tuple[OnnxModel, OnnxQuantizedModel]:
    """The float model and the smaller one; see `onnx_quantized_model`."""
    if recipe.scheme == "float16":
        model = onnx_model(graph, samples, opset=opset, fixed=fixed)
        halved = quantize_program(model.program, recipe)
        return model, OnnxQuantizedModel(
            model.core, halved, Calibration(), _size(model.program), list(halved.warnings)
        )
    with range_only(graph):
        model = onnx_model(graph, samples, opset=opset, fixed=fixed)
    imported = prepare(model.program)
    feeds = _Rewalkable(model.core, samples)
    calibration = calibrate(model.program, feeds, recipe, threads=threads, progress=progress)
    quantized = quantize_program(
        model.program, recipe, calibration.ranges, options=options, imported=imported
    )
    warnings = [*calibration.warnings, *quantized.warnings]
    return model, OnnxQuantizedModel(model.core, quantized, calibration, _size(model.program), warnings)


def quantize_onnx(
    source: Any,
    calibration: Any = None,
    *,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    activations: str = "uint8",
    reduce_range: bool = False,
    opset: int = DEFAULT_OPSET,
    strict: bool = False,
    progress: Progress | None = None,
    **names: Any,
) -> OnnxQuantizedModel:
    """A smaller ONNX model of a graph or file; the arguments are those of `thinflow.quantize`.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        ParameterError: there is no such scheme, type or opset.
        FeedError: the samples do not fit.
    """
    from thinflow.load.graphs import load_for_inference, require_tensorflow

    recipe, options = chosen_recipe(scheme, recipe), QdqOptions(activations, reduce_range)
    check_recipe(recipe)
    check_opset(opset)
    graph, _ = load_for_inference(source, **names)
    require_tensorflow(graph, "quantized")
    samples = samples_for(graph, calibration)
    optimised = float_graph(graph, samples=samples, progress=progress, runtime="onnx").graph
    moved = rebind(samples, graph, optimised)
    made = onnx_quantized_model(
        optimised, moved, recipe=recipe, options=options, opset=opset, progress=progress
    )
    if strict:
        made.coverage.require_whole()
    return made


def reopened(original: Graph, optimised: Graph) -> Graph:
    """A copy of the optimised graph with the sizes the original has.

    Making a LiteRT model fixes the batch that the graph leaves open; an ONNX model leaves it open.
    """
    graph = optimised.clone()
    twins = counterparts(original.inputs, graph.inputs, graph)
    infer_shapes(graph, {twin: spec_after(v, twin) for v, twin in zip(original.inputs, twins, strict=True)})
    return graph


def _size(program: Program) -> int:
    return write_program(program, inline_limit=1 << 62).size


class _Rewalkable:
    """The core's feeds as something that can be walked more than once and knows its length."""

    def __init__(self, core: Core, samples: Samples) -> None:
        self._core, self._samples = core, samples

    def __iter__(self) -> Iterator[dict[str, Array]]:
        names = [v.name for v in self._core.inputs]
        for feed in self._samples:
            yield dict(zip(names, self._core.before(feed), strict=True))

    def __len__(self) -> int:
        if self._samples.count is None:
            raise TypeError("the number of samples is not known")
        return self._samples.count
