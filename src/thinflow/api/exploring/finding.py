"""Boxes by what others call them: nodes of a run, a profile or a comparison, and tensors of a file."""

from __future__ import annotations

from thinflow.compare.inner_values import names_of
from thinflow.explorer.building import Built
from thinflow.explorer.document import NodeKind


class Finder:
    """Places of boxes by the names of their nodes, calls before them, or of the tensors they compute."""

    def __init__(self, built: Built) -> None:
        self._nodes: dict[str, int] = {}
        # What runs is meant before what is stored: an operator and its bias may have the same names.
        self._constants: dict[str, int] = {}
        self._tensors: dict[str, int] = {}
        for place, box in enumerate(built.boxes):
            names = self._constants if box.kind is NodeKind.CONSTANT else self._nodes
            names[box.name] = place
            if box.node is None or box.kind is NodeKind.CONSTANT:
                continue
            for value in box.node.outputs:
                for name in names_of(value):
                    self._tensors.setdefault(name, place)

    def find(self, name: str) -> int | None:
        """The place of a box; of several names joined by ";" the first that there is."""
        plain = [part.strip().removesuffix(":0") for part in (name, *name.split(";"))]
        for names in (self._nodes, self._tensors), (self._constants,):
            for part in plain:
                for spelled in (part, part.rpartition(":")[0] if ":" in part else ""):
                    place = next((found[spelled] for found in names if spelled in found), None)
                    if place is not None:
                        return place
        return None
