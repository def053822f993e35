"""`_class` annotations, as the transforms know them; see `rewrite.colocation`."""

from __future__ import annotations

from thinflow.rewrite.colocation import drop_lost_classes, rename_classes

__all__ = ["drop_lost_classes", "rename_classes"]
