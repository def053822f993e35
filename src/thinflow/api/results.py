"""Writing results beside models: JSON and arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def write_json(path: str | os.PathLike[str], data: Any) -> int:
    """Write data as JSON, atomically."""
    import json

    from thinflow.formats._files import write_file

    return write_file(path, [(json.dumps(data, indent=2, default=str) + "\n").encode()])


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> int:
    """Write arrays as .npz, atomically."""
    from thinflow.formats._arrays import npz_bytes
    from thinflow.formats._files import write_file

    return write_file(path, [npz_bytes(arrays)])
