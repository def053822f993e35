"""A graph's LiteRT program in fewer bits: the samples, the scheme, and the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from thinflow.errors import ParameterError, WriteError
from thinflow.formats._files import write_file
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import table_html
from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.program import Operator, Program, Subgraph, Tensor, to_bytes
from thinflow.lower.tflite.variables import with_variables
from thinflow.optimize.coverage import Coverage, require_name
from thinflow.optimize.float_model import FloatModel, float_graph
from thinflow.optimize.samples import Samples, rebind, samples_for
from thinflow.quantize.calibrate import Calibration, calibrate
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.result import Quantized
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.trained import without_fake_quants
from thinflow.typing import Array, Progress

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph
    from thinflow.optimize.onnx_quantizing import OnnxQuantizedModel


@brief_repr
@dataclass
class QuantizedModel:
    """The smaller program, its file content, and how it came to be.

    Attributes:
        calibration: empty for schemes that need no samples.
        for_onnx: makes the same for ONNX Runtime, where the graph is known.
        coverage: how much of the graph it is.
    """

    quantized: Quantized[Program]
    calibration: Calibration
    content: bytes
    warnings: list[str] = field(default_factory=list)
    for_onnx: Callable[[], OnnxQuantizedModel] | None = field(default=None, repr=False, kw_only=True)
    coverage: Coverage | None = field(default=None, repr=False, kw_only=True)

    @cached_property
    def comparable(self) -> bytes:
        """The file that takes and gives floats as the float model does, whatever the types at the borders."""
        return to_bytes(with_float_borders(self.quantized.program))

    def _repr_html_(self) -> str:
        rows = [("bytes", len(self.content)), ("quantized tensors", len(self.quantized.decisions))]
        rows.append(("operators that stay float", len(self.quantized.float_operators)))
        title = "part of a model" if self.coverage is not None and self.coverage.is_part else "whole model"
        warnings = [("warning", text) for text in self.warnings]
        return table_html(f"LiteRT, {title}", [*rows, *warnings])

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write a .tflite file, or an .onnx made from the same graph and samples; the bytes written.

        Raises:
            WriteError: the name ends otherwise, or it cannot be written.
            ParameterError: the scheme has no ONNX form.
            PartialModel: it is a part of the model, and the name does not say so.
        """
        name = os.fspath(path)
        if name.endswith(".onnx") and self.for_onnx is not None:
            return self.for_onnx().save(path)
        if not name.endswith(".tflite"):
            raise WriteError("this is a LiteRT model", name, hint="name it .tflite")
        if self.coverage is not None:
            require_name(self.coverage, path)
        return write_file(path, [self.content])


def quantized_model(
    model: FloatModel,
    samples: Samples,
    *,
    recipe: Recipe | None = None,
    threads: int = 2,
    progress: Progress | None = None,
) -> QuantizedModel:
    """The float program in a recipe's scheme, calibrated on samples if the scheme needs ranges.

    Ranges that the model was trained with (FakeQuant) count more than those of samples.

    Raises:
        FeedError: no samples, or they do not fit.
        ParameterError: the recipe names nodes that the program does not have.
    """
    recipe = recipe or Recipe()
    calibration, program = Calibration(), model.program
    if recipe.needs_samples:
        program, trained = without_fake_quants(program)
        feeds = Rewalkable(model, samples)
        calibration = calibrate(program, feeds, recipe, threads=threads, progress=progress)
        calibration.ranges.update(trained)
    quantized = quantize_program(program, recipe, calibration.ranges)
    content = to_bytes(with_variables(quantized.program, model.core.states))
    warnings = [*calibration.warnings, *quantized.warnings]
    return QuantizedModel(quantized, calibration, content, warnings, coverage=model.coverage)


def with_float_borders(program: Program) -> Program:
    """The program behind QUANTIZE and before DEQUANTIZE where its inputs and outputs are integers."""
    main = program.subgraphs[0]
    inside = [t for t in (*main.inputs, *main.outputs) if t.quantization is not None]
    if not inside:
        return program
    outside = {t: Tensor(f"{t.name}/float", t.shape, FLOAT) for t in dict.fromkeys(inside)}
    before = [Operator("QUANTIZE", [outside[t]], [t]) for t in main.inputs if t in outside]
    after = [
        Operator("DEQUANTIZE", [t], [outside[t]])
        for t in dict.fromkeys(main.outputs)
        if t in outside and t not in main.inputs
    ]
    inputs, outputs = ([outside.get(t, t) for t in side] for side in (main.inputs, main.outputs))
    wrapped = Subgraph(inputs, outputs, [*before, *main.operators, *after], name=main.name)
    return replace(program, subgraphs=[wrapped, *program.subgraphs[1:]], signatures={})


class Rewalkable:
    """The core's feeds as something that can be walked more than once and knows its length."""

    def __init__(self, model: FloatModel, samples: Samples) -> None:
        self._model, self._samples = model, samples

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return self._model.feeds(self._samples)

    def __len__(self) -> int:
        if self._samples.count is None:
            raise TypeError("the number of samples is not known")
        return self._samples.count


def chosen_recipe(scheme: str | None, recipe: Recipe | None) -> Recipe:
    """A recipe, or the plain one of a scheme.

    Raises:
        ParameterError: there is no such scheme, or both are given and differ.
    """
    if recipe is None:
        return Recipe(scheme=scheme or "int8")
    if scheme is not None and scheme != recipe.scheme:
        raise ParameterError(
            f"scheme is '{scheme}' and the recipe's is '{recipe.scheme}'", hint="give one of them"
        )
    return recipe


def quantize(
    source: Any,
    calibration: Any = None,
    *,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    **names: Any,
) -> QuantizedModel:
    """A smaller LiteRT model of a graph or file; the arguments are those of `thinflow.quantize`.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        ParameterError: there is no such scheme.
        FeedError: the samples do not fit.
    """
    from thinflow.load.graphs import load_for_inference, require_tensorflow
    from thinflow.optimize.batch_check import checked_batch
    from thinflow.optimize.checking import open_or_fixed

    recipe = chosen_recipe(scheme, recipe)
    graph, _ = load_for_inference(source, **names)
    require_tensorflow(graph, "quantized")
    samples = samples_for(graph, calibration)
    optimised = float_graph(graph, samples=samples, progress=progress, runtime="litert").graph
    moved = rebind(samples, graph, optimised)
    model = open_or_fixed(optimised, moved)
    if strict:
        model.coverage.require_whole()
    made = quantized_model(model, moved, recipe=recipe, progress=progress)
    made = checked_batch(model, made, moved)
    made.for_onnx = partial(_for_onnx, graph, optimised, samples, recipe)
    return made


def _for_onnx(graph: Graph, optimised: Graph, samples: Samples, recipe: Recipe) -> OnnxQuantizedModel:
    from thinflow.optimize.onnx_quantizing import onnx_quantized_model, reopened

    again = reopened(graph, optimised)
    return onnx_quantized_model(again, rebind(samples, graph, again), recipe=recipe)
