"""Arrays by name in numpy's archives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def npz_bytes(arrays: Mapping[str, Any], *, compressed: bool = True) -> bytes:
    """An .npz file. Names may be any, `file` too, which `numpy.savez` takes for its own argument."""
    import io
    import zipfile

    import numpy as np

    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in arrays.items():
            # The size of a member is not known when it is begun; beyond 2 GiB
            # zipfile would give up in the middle.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array))
    return buffer.getvalue()
