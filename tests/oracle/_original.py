"""The C++ Graph Transform Tool inside the TensorFlow wheel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

try:
    from tensorflow.python.util import _pywrap_transform_graph as _tool
except ImportError:  # a wheel without it
    _tool = None


def available() -> bool:
    """Whether this TensorFlow still has the tool."""
    return _tool is not None


def transform_graph(
    graph_def: Any, inputs: Sequence[str], outputs: Sequence[str], pipeline: str
) -> Any | None:
    """What the original makes of a graph; None where it gives up with an error."""
    try:
        content = _tool.TransformGraphWithStringInputs(
            graph_def.SerializeToString(),
            ",".join(inputs).encode(),
            ",".join(outputs).encode(),
            pipeline.encode(),
        )
    except (ValueError, RuntimeError):
        return None
    return tf.compat.v1.GraphDef.FromString(content)
