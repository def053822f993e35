"""Arrays as JSON, for the process that measures memory."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from thinflow.typing import Array

_PLAIN = "biufc"


def parcel(value: Any) -> Any:
    """Arrays, None, and mappings and sequences of them, as JSON; see `unpacked`."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {"named": [[str(name), parcel(item)] for name, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"listed": [parcel(item) for item in value]}
    return _array_parcel(np.asarray(value))


def _array_parcel(array: Array) -> dict[str, Any]:
    shape = list(array.shape)
    if array.dtype.kind in _PLAIN:
        return {"type": array.dtype.str, "shape": shape, "bytes": _text(array.tobytes())}
    if array.dtype.kind in "OSU":
        # Not as text: strings of TensorFlow are bytes, and need not be UTF-8.
        items = [x.encode() if isinstance(x, str) else bytes(x) for x in array.reshape(-1).tolist()]
        return {"strings": [_text(item) for item in items], "shape": shape}
    return {"floats": array.astype(np.float32).tolist()}  # bfloat16 and the like, cast again when it is fed


def unpacked(made: Any) -> Any:
    """The value that `parcel` was given."""
    if made is None:
        return None
    if "named" in made:
        return {name: unpacked(item) for name, item in made["named"]}
    if "listed" in made:
        return [unpacked(item) for item in made["listed"]]
    if "floats" in made:
        return np.asarray(made["floats"], np.float32)
    if "strings" in made:
        strings = np.empty(len(made["strings"]), object)
        strings[:] = [base64.b64decode(text) for text in made["strings"]]
        return strings.reshape(made["shape"])
    # A copy, since what frombuffer gives cannot be written to, as engines may want.
    return np.frombuffer(base64.b64decode(made["bytes"]), made["type"]).reshape(made["shape"]).copy()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
