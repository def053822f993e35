"""Types in the signatures of the public functions, besides those of `thinflow.typing`."""

from __future__ import annotations

import os
from typing import Protocol

from thinflow.load.graphs import Opening, Source, opening
from thinflow.typing import Progress, Shapes

__all__ = ["Opening", "Progress", "Saveable", "Shapes", "Source", "opening"]


class Saveable(Protocol):
    """A model that is not a graph any more and knows how to write itself: what `quantize` returns."""

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write it; the bytes written."""
