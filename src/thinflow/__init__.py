"""Trained networks without their framework: open, explain, shrink, verify, measure, ship.

Names are resolved on first use (PEP 562), so `import thinflow` costs neither numpy nor protobuf.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from thinflow._version import __version__ as __version__

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.api import (
        TransformGraph,
        benchmark,
        check,
        compare,
        convert,
        convert_verified,
        deploy,
        diff,
        evaluate,
        fit,
        freeze,
        inspect,
        lint,
        load,
        load_checkpoint,
        open_device,
        optimize,
        progress_bar,
        quantize,
        reduce,
        run,
        save,
        summarize,
        survey,
        transform,
        transform_saved_model,
        verify,
        view,
    )
    from thinflow.api.viewing import View
    from thinflow.bench.report import BenchmarkReport
    from thinflow.budgets.report import CheckReport
    from thinflow.compare.diff.conversion import ConversionDiff
    from thinflow.compare.diff.report import Diff
    from thinflow.compare.reducing.search import Reduction
    from thinflow.compare.verification import Verification
    from thinflow.compat.android import InferenceInterface
    from thinflow.compat.stat_summarizer import StatSummarizer, StatSummarizerOptions
    from thinflow.deploy.deployment import Deployment
    from thinflow.device.base import Device
    from thinflow.engines.session import Session
    from thinflow.errors import (
        EngineCrashed,
        EngineUnavailable,
        FeedError,
        FormatError,
        GraphError,
        NodeError,
        PagesUnavailable,
        ParameterError,
        ParseError,
        PartialModel,
        ShapeError,
        ThinflowError,
        TransformError,
        UnsupportedOp,
        VerificationError,
        WriteError,
    )
    from thinflow.fit.report import Fit
    from thinflow.formats.checkpoint import Checkpoint
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.ir.tensor import Tensor
    from thinflow.ir.types import DType, TensorSpec
    from thinflow.lint.finding import LintFinding
    from thinflow.lint.report import LintReport
    from thinflow.optimize.conversion import Conversion
    from thinflow.optimize.evaluation.report import Evaluation, Evaluations
    from thinflow.optimize.quality import Quality
    from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
    from thinflow.optimize.report import GraphReport, OptimizeReport
    from thinflow.quantize.recipe import Recipe
    from thinflow.quantize.sample_files import Scaling
    from thinflow.rewriting import Rewrite, load_plugin, register
    from thinflow.survey.report import SurveyReport

__all__ = [
    "BenchmarkReport",
    "CheckReport",
    "Checkpoint",
    "Conversion",
    "ConversionDiff",
    "DType",
    "Deployment",
    "Device",
    "Diff",
    "EngineCrashed",
    "EngineUnavailable",
    "Evaluation",
    "Evaluations",
    "FeedError",
    "Fit",
    "FormatError",
    "Graph",
    "GraphError",
    "GraphReport",
    "InferenceInterface",
    "LintFinding",
    "LintReport",
    "Node",
    "NodeError",
    "OnnxQuantizedModel",
    "OptimizeReport",
    "PagesUnavailable",
    "ParameterError",
    "ParseError",
    "PartialModel",
    "Quality",
    "QuantizedModel",
    "Recipe",
    "Reduction",
    "Rewrite",
    "Scaling",
    "Session",
    "ShapeError",
    "StatSummarizer",
    "StatSummarizerOptions",
    "Summary",
    "SurveyReport",
    "Tensor",
    "TensorSpec",
    "ThinflowError",
    "TransformError",
    "TransformGraph",
    "UnsupportedOp",
    "Value",
    "Verification",
    "VerificationError",
    "View",
    "WriteError",
    "benchmark",
    "check",
    "compare",
    "convert",
    "convert_verified",
    "deploy",
    "diff",
    "evaluate",
    "fit",
    "freeze",
    "inspect",
    "lint",
    "load",
    "load_checkpoint",
    "load_plugin",
    "open_device",
    "optimize",
    "progress_bar",
    "quantize",
    "reduce",
    "register",
    "run",
    "save",
    "summarize",
    "survey",
    "transform",
    "transform_saved_model",
    "verify",
    "view",
]

# Where the names live that are not in thinflow.api.
_HOMES = {
    "thinflow.analysis.summary": "Summary",
    "thinflow.api.viewing": "View",
    "thinflow.bench.report": "BenchmarkReport",
    "thinflow.budgets.report": "CheckReport",
    "thinflow.compare.diff.conversion": "ConversionDiff",
    "thinflow.compare.diff.report": "Diff",
    "thinflow.deploy.deployment": "Deployment",
    "thinflow.device.base": "Device",
    "thinflow.engines.session": "Session",
    "thinflow.optimize.evaluation.report": "Evaluation Evaluations",
    "thinflow.fit.report": "Fit",
    "thinflow.formats.checkpoint": "Checkpoint",
    "thinflow.lint.finding": "LintFinding",
    "thinflow.lint.report": "LintReport",
    "thinflow.optimize.conversion": "Conversion",
    "thinflow.optimize.quality": "Quality",
    "thinflow.optimize.quantized": "OnnxQuantizedModel QuantizedModel",
    "thinflow.optimize.report": "GraphReport OptimizeReport",
    "thinflow.quantize.sample_files": "Scaling",
    "thinflow.quantize.recipe": "Recipe",
    "thinflow.compare.reducing.search": "Reduction",
    "thinflow.compare.verification": "Verification",
    "thinflow.compat.android": "InferenceInterface",
    "thinflow.errors": (
        "EngineCrashed EngineUnavailable FeedError FormatError GraphError NodeError PagesUnavailable "
        "ParameterError ParseError PartialModel ShapeError ThinflowError TransformError UnsupportedOp "
        "VerificationError WriteError"
    ),
    "thinflow.ir.graph": "Graph Node Value",
    "thinflow.ir.tensor": "Tensor",
    "thinflow.survey.report": "SurveyReport",
    "thinflow.rewriting": "Rewrite load_plugin register",
    "thinflow.compat.stat_summarizer": "StatSummarizer StatSummarizerOptions",
    "thinflow.ir.types": "DType TensorSpec",
}
_HOME = dict.fromkeys(__all__, "thinflow.api")
_HOME.update((name, module) for module, names in _HOMES.items() for name in names.split())


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'thinflow' has no attribute {name!r}")
    import gc
    from importlib import import_module

    # What is imported stays: looking through it for garbage takes as long as a tenth of it.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        value = getattr(import_module(module), name)
    finally:
        if was_enabled:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `thinflow.verify` and `thinflow.quantize` functions.

    Importing a submodule binds it in its package. There is a module behind some public names, and without
    this the function would turn into the module as soon as anything imports that.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
