"""Types in the signatures of the public functions, besides those of `thinflow.typing`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from thinflow.ir.graph import Graph
from thinflow.typing import Progress, Shapes

__all__ = ["Opening", "Progress", "Saveable", "Shapes", "Source", "opening"]

Source = str | os.PathLike[str] | Graph
Opening = Mapping[str, Any]
"""How to open a model: those of `tags`, `signature` and `checkpoint` that are given."""


def opening(
    tags: str | None, signature: str | None, checkpoint: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """Keyword arguments for opening a model; what is None was not given."""
    options = {"tags": tags, "signature": signature, "checkpoint": checkpoint}
    return {name: value for name, value in options.items() if value is not None}


class Saveable(Protocol):
    """A model that is not a graph any more and knows how to write itself: what `quantize` returns."""

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write it; the bytes written."""
