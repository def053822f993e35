"""Trained TensorFlow models without TensorFlow: open, explain, shrink, verify, measure, ship.

Names are resolved on first use (PEP 562), so `import thinflow` costs neither numpy nor protobuf.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinflow.api import (
        TransformGraph,
        benchmark,
        compare,
        convert,
        diff,
        evaluate,
        freeze,
        inspect,
        load,
        load_checkpoint,
        optimize,
        quantize,
        reduce,
        run,
        save,
        summarize,
        transform,
        transform_saved_model,
        verify,
    )
    from thinflow.engines.session import Session
    from thinflow.errors import (
        EngineCrashed,
        EngineUnavailable,
        FeedError,
        FormatError,
        GraphError,
        NodeError,
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
    from thinflow.inference import InferenceInterface
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.ir.tensor import Tensor
    from thinflow.ir.types import DType, TensorSpec
    from thinflow.rewriting import Rewrite, load_plugin, register
    from thinflow.stats import StatSummarizer, StatSummarizerOptions

__version__ = "0.1.0"

__all__ = [
    "DType",
    "EngineCrashed",
    "EngineUnavailable",
    "FeedError",
    "FormatError",
    "Graph",
    "GraphError",
    "InferenceInterface",
    "Node",
    "NodeError",
    "ParameterError",
    "ParseError",
    "PartialModel",
    "Rewrite",
    "Session",
    "ShapeError",
    "StatSummarizer",
    "StatSummarizerOptions",
    "Tensor",
    "TensorSpec",
    "ThinflowError",
    "TransformError",
    "TransformGraph",
    "UnsupportedOp",
    "Value",
    "VerificationError",
    "WriteError",
    "benchmark",
    "compare",
    "convert",
    "diff",
    "evaluate",
    "freeze",
    "inspect",
    "load",
    "load_checkpoint",
    "load_plugin",
    "optimize",
    "quantize",
    "reduce",
    "register",
    "run",
    "save",
    "summarize",
    "transform",
    "transform_saved_model",
    "verify",
]

# Where the names live that are not in thinflow.api.
_HOMES = {
    "thinflow.engines.session": "Session",
    "thinflow.inference": "InferenceInterface",
    "thinflow.errors": (
        "EngineCrashed EngineUnavailable FeedError FormatError GraphError NodeError ParameterError "
        "ParseError PartialModel ShapeError ThinflowError TransformError UnsupportedOp "
        "VerificationError WriteError"
    ),
    "thinflow.ir.graph": "Graph Node Value",
    "thinflow.ir.tensor": "Tensor",
    "thinflow.rewriting": "Rewrite load_plugin register",
    "thinflow.stats": "StatSummarizer StatSummarizerOptions",
    "thinflow.ir.types": "DType TensorSpec",
}
_HOME = dict.fromkeys(__all__, "thinflow.api")
_HOME.update((name, module) for module, names in _HOMES.items() for name in names.split())


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'thinflow' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
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
