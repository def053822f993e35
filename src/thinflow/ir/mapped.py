"""Memory that numbers take which lie in a mapped file."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def release(array: np.ndarray[Any, Any]) -> None:
    """Give back the memory that reading an array of a mapped file has taken; it can be read again.

    Of maps for reading alone, which hold nothing that the file does not. Nothing happens to other arrays.
    """
    # Not on Windows, where the system decides alone.
    if not hasattr(mmap.mmap, "madvise") or not hasattr(mmap, "MADV_DONTNEED"):
        return
    owner = _owner(array)
    if owner is None or not array.flags.c_contiguous:
        return
    import numpy as np

    start = _address(array) - _address(np.frombuffer(owner, np.uint8))
    # Whole pages: the others hold what stands beside it, too.
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    count = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if count > 0:
        owner.madvise(mmap.MADV_DONTNEED, first, count)


def _owner(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """The map for reading that an array lies in."""
    base: Any = array
    while getattr(base, "base", None) is not None:
        base = base.base
    owner = base.obj if isinstance(base, memoryview) and base.readonly else None
    return owner if isinstance(owner, mmap.mmap) else None


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
