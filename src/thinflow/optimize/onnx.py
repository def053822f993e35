"""ONNX models of a graph's core: lowered, in fewer bits, and written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from thinflow.analysis.shapes import infer_shapes
from thinflow.engines.onnxruntime import ENGINE, Model, complex_of
from thinflow.errors import EngineUnavailable, ThinflowError, UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.lower.onnx.convert import lower_graph, unsupported, unsupported_unit
from thinflow.lower.onnx.fake_quant import range_only
from thinflow.lower.onnx.target import write_onnx
from thinflow.onnx.metadata import described
from thinflow.onnx.program import DEFAULT_OPSET, OPSETS, Program, Tensor, check_opset
from thinflow.onnx.writer import to_bytes, write_program
from thinflow.optimize.batch_sizes import fix_batch, open_else_fixed
from thinflow.optimize.climb import Goal, smaller_program
from thinflow.optimize.converted import ConvertedModel, RuntimeModel
from thinflow.optimize.core import find_core, whole_with_texts
from thinflow.optimize.float_graph import settle_sizes
from thinflow.optimize.maker import ModelMaker
from thinflow.optimize.quantized import OnnxQuantizedModel, why_one_smaller_batch
from thinflow.optimize.samples import Samples
from thinflow.program.model import Block
from thinflow.quantize.onnx_weights import least_opset
from thinflow.quantize.prepare import prepare
from thinflow.quantize.recipe import ONNX_SCHEMES, QdqOptions, Recipe, check_recipe
from thinflow.typing import Array, Progress


@brief_repr
@dataclass
class OnnxModel(ConvertedModel[Program]):
    """The float ONNX program of a graph's core."""

    runtime, engine, suffix = "ONNX", "onnxruntime", ".onnx"
    keeps_measured_codes = True

    @property
    def inputs(self) -> Sequence[Tensor]:
        return self.program.inputs

    @property
    def blocks(self) -> Sequence[Block[Any, Any]]:
        return self.program.programs()

    def _bytes(self) -> bytes:
        return to_bytes(self.program)

    @staticmethod
    def open(content: bytes, *, threads: int) -> RuntimeModel:
        return Model(content, threads=threads)

    @staticmethod
    def as_expected(found: Array, expected: Array) -> Array:
        return complex_of(found) if expected.dtype.kind == "c" else found


@dataclass(frozen=True)
class OnnxMaker(ModelMaker[OnnxModel, OnnxQuantizedModel]):
    """Makes ONNX models.

    Attributes:
        opset: version of ONNX's op set, 17 to 21; default: 17, or for float models a newer one that holds
            more.
        options: of quantization.
        external_data: whether weights go to a file of their own, PATH.data; default: only if they do not fit.
        threads: of ONNX Runtime.
        effort: how much is tried to make a smaller model better, see `climb.EFFORTS`.
    """

    opset: int | None = None
    options: QdqOptions = field(default_factory=QdqOptions)
    external_data: bool | None = None
    threads: int = 2
    effort: str = "default"

    order, suffix = "onnx", ".onnx"
    schemes = ONNX_SCHEMES
    roles = names = ("onnx_fp32", "onnx_int8")
    needs_ranks = True

    def __post_init__(self) -> None:
        if self.opset is not None:
            check_opset(self.opset)

    def lower(self, graph: Graph, samples: Samples | None = None, *, fixed: str = "") -> OnnxModel:
        return onnx_model(graph, samples, opset=self.opset, fixed=fixed)

    def open_or_fixed(self, graph: Graph, samples: Samples) -> OnnxModel:
        """As for every runtime; where ONNX Runtime is missing, an open batch is not tried."""
        return self.lower(graph, samples) if self.missing() else super().open_or_fixed(graph, samples)

    def quantize(
        self, model: OnnxModel, samples: Samples, recipe: Recipe, *, progress: Progress | None = None
    ) -> OnnxQuantizedModel:
        """The model in fewer bits. It is lowered anew, since simulated quantization in the graph is to give
        ranges there, and not to round.

        Raises:
            EngineUnavailable: ONNX Runtime is missing, and ranges are needed.
            FeedError: no samples, or they do not fit.
            ParameterError: the recipe asks for what an ONNX model cannot have.
        """
        check_recipe(recipe)
        graph, why = model.core.graph, model.fixed
        plain, made = self._quantized(graph, samples, recipe, why, progress)
        # An open batch of the smaller model is tried as that of the float one was; failing, both are made
        # anew.
        can_try = plain.is_open and not self.missing()
        if can_try and (why := why_one_smaller_batch(plain, made.content, samples)):
            plain, made = self._quantized(graph, samples, recipe, why, progress)
        return replace(made, warnings=[*plain.batch_notes, *made.warnings])

    def _quantized(
        self, graph: Graph, samples: Samples, recipe: Recipe, fixed: str, progress: Progress | None
    ) -> tuple[OnnxModel, OnnxQuantizedModel]:
        """The float model that is quantized, and the smaller one; see `quantize`."""
        opset = self.opset or least_opset(recipe)
        if recipe.scheme == "float16":
            plain, stated = replace(self, opset=opset).lower(graph, samples, fixed=fixed), {}
        else:
            with range_only(graph):
                # FakeQuant nodes give ranges here, so they must be lowered to notes and not to arithmetic.
                plain = replace(self, opset=opset).lower(graph, samples, fixed=fixed)
            stated = prepare(plain.program)
        recipe.check_names((o for block in plain.program.programs() for o in block.operators), "ONNX")
        made = smaller_program(
            Goal(plain.program, stated, self.options, self.threads),
            plain.feeds(samples),
            recipe,
            self.effort,
            made_up=samples.synthetic,
            progress=progress,
        )
        # All weights inside, whatever their size: only the number of bytes is wanted.
        float_bytes = write_program(plain.program, inline_limit=1 << 62).size
        return plain, OnnxQuantizedModel(
            plain.core, made.quantized, made.calibration, float_bytes, made.warnings, made.way
        )

    def write(
        self,
        model: OnnxModel | OnnxQuantizedModel,
        path: str | os.PathLike[str],
        *,
        check: Callable[[str], object] | None = None,
    ) -> int:
        program = model.program if isinstance(model, OnnxModel) else model.quantized.program
        program = described(program, model.core.graph.usage)
        return write_onnx(program, path, external_data=self.external_data, check=check)

    @staticmethod
    def open_file(path: str) -> object:
        return Model(path)

    def missing(self) -> str | None:
        return ENGINE.available()

    def file_notes(self, model: OnnxModel) -> list[str]:
        return [f"opset  {model.program.opset}"]


def require_onnx(recipe: Recipe) -> None:
    """Refuse what cannot be done before any work is.

    Raises:
        EngineUnavailable: ONNX Runtime is missing.
        ParameterError: the recipe asks for what an ONNX model cannot have.
    """
    missing = ENGINE.available()
    if missing:
        raise EngineUnavailable(missing, hint="pip install 'thinflow[onnx]', or leave the .onnx files out")
    check_recipe(recipe)


def onnx_model(
    graph: Graph,
    samples: Samples | None = None,
    *,
    opset: int | None = None,
    fixed: str = "",
    lowered: Callable[[Graph, int | None], OnnxModel] | None = None,
) -> OnnxModel:
    """The part of the graph that ONNX Runtime can run whole, lowered. An open batch stays open if no more
    can be lowered with a fixed one.

    Args:
        graph: with inputs and outputs set.
        samples: the first one settles ranks that the graph leaves open.
        opset: version of ONNX's op set, 17 to 21; default: 17, or a newer one that holds more.
        fixed: why an open batch has to be fixed all the same, at that of the first sample.
        lowered: what makes the model of a graph whose ranks are known, given the opset; default: for ONNX
            Runtime.

    Raises:
        UnsupportedOp: it can run nothing of it.
        ParameterError: an opset that cannot be written.
    """
    # Lowering to ONNX takes open sizes, but no open ranks.
    if any(v.spec.shape is None for v in graph.inputs):
        settle_sizes(graph, samples)
    lower = partial(lowered or _lowered, graph, opset)
    if fixed:
        fix_batch(graph, samples)
        return replace(lower(), fixed=fixed)
    model, why = open_else_fixed(graph, samples, lower, lower)
    return replace(model, fixed=why)


def fits_onnx(graph: Graph) -> bool:
    """True if an .onnx file could hold all of a graph. Shapes are inferred anew in it."""
    try:
        return not onnx_model(graph).coverage.is_part
    except ThinflowError:
        return False


def _lowered(graph: Graph, opset: int | None) -> OnnxModel:
    if opset is not None:
        return _lowered_to(graph, opset)
    try:
        model = _lowered_to(graph, DEFAULT_OPSET)
    except UnsupportedOp as error:
        # The refusal's own words name the opset: `Builder.append` says "since opset N".
        wanted = _newer_opset([error.problem])
        if not wanted:
            raise
        return _lowered_to(graph, wanted)
    wanted = _newer_opset(model.core.outside.values())
    return _lowered_to(graph, wanted) if wanted else model


def _newer_opset(reasons: Iterable[str]) -> int:
    """The opset that some of the reasons for leaving nodes out ask for; 0 if none does."""
    found = (int(n) for why in reasons for n in re.findall(r"since opset (\d+)", why))
    return max((n for n in found if n in OPSETS), default=0)


def _lowered_to(graph: Graph, opset: int) -> OnnxModel:
    unit = partial(unsupported_unit, specs={}, opset=opset)
    find = partial(
        find_core,
        unsupported=partial(unsupported, opset=opset),
        runtime="ONNX",
        unsupported_unit=unit,
    )
    core = whole_with_texts(graph, find)
    infer_shapes(graph, {v: v.spec for v in (*graph.inputs, *core.inputs)})
    model = OnnxModel(core, lower_graph(graph, core.inputs, core.outputs, specs={}, opset=opset).program)
    model.program.description = model.coverage.description
    return model
