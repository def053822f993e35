"""Library functions: graphs that nodes of other graphs call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.graph import Function, Graph, Node

__all__ = [
    "ARGUMENT",
    "KEPT_WHOLE",
    "NMS_PADDED",
    "Edited",
    "Function",
    "Selection",
    "changes",
    "edited_name",
    "mentioned",
    "name_before_edits",
    "reachable",
]

# TensorFlow's own op for it, once a FunctionDef is made a graph.
ARGUMENT = "_Arg"
"""The op of the nodes that stand for a function's arguments; its attribute T is the element type."""

NMS_PADDED = "non_max_suppression_padded_v2"
KEPT_WHOLE = frozenset({NMS_PADDED})
"""Names of what functions implement, by their own word, for which runtimes have better than the body."""


# Taken off before a new digest is put on, so that names do not grow with every save.
_EDITED = re.compile(r"__edited_[0-9a-f]{8}$")


def edited_name(name: str, digest: str) -> str:
    """The name in a file of a function whose body is another one than in the file that it is from."""
    return f"{name_before_edits(name)}__edited_{digest}"


def name_before_edits(name: str) -> str:
    """The name of an edited function in the file that it is from."""
    return _EDITED.sub("", name)


class Edited(Mapping[str, Function]):
    """A library with functions changed or added, the rest decoded when somebody asks for it.

    Attributes:
        library: what it was made from.
        changes: the changed and added functions by name.
    """

    def __init__(self, library: Mapping[str, Function], changes: Mapping[str, Function]) -> None:
        self.library = library
        self.changes = dict(changes)

    def __getitem__(self, name: str) -> Function:
        return self.changes[name] if name in self.changes else self.library[name]

    def __contains__(self, name: object) -> bool:
        return name in self.changes or name in self.library

    def __iter__(self) -> Iterator[str]:
        yield from self.library
        yield from (name for name in self.changes if name not in self.library)

    def __len__(self) -> int:
        return len(self.library) + sum(name not in self.library for name in self.changes)


class Selection(Mapping[str, Function]):
    """Some functions of a library, each decoded when somebody asks for it."""

    def __init__(self, library: Mapping[str, Function], names: Set[str]) -> None:
        self.library = library
        self._names = [name for name in library if name in names]
        self._chosen = frozenset(self._names)

    def __getitem__(self, name: str) -> Function:
        if name not in self._chosen:
            raise KeyError(name)
        return self.library[name]

    def __contains__(self, name: object) -> bool:
        return name in self._chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def changes(functions: Mapping[str, Function]) -> dict[str, Function]:
    """The functions of a library that do not stand in the file behind it, or stand there differently.

    A library that a file stands behind says so by a true attribute `is_stored`.
    """
    if isinstance(functions, Edited):
        return {**changes(functions.library), **functions.changes}
    if isinstance(functions, Selection):
        return {name: f for name, f in changes(functions.library).items() if name in functions}
    return {} if getattr(functions, "is_stored", False) else dict(functions)


def reachable(graph: Graph) -> set[str]:
    """Names of the functions that a graph mentions, directly or through others. O(nodes of their bodies).

    Raises:
        ThinflowError: one of them is damaged.
    """
    names: set[str] = set()
    stack = [graph]
    while stack:
        for node in stack.pop():
            for name in mentioned(node):
                # The second condition ends at functions that call each other in a circle.
                if name in graph.functions and name not in names:
                    names.add(name)
                    stack.append(graph.functions[name].graph)
    return names


def mentioned(node: Node) -> Iterator[str]:
    """The function names that a node may mean: its op and those in its attributes."""
    # A function may be called by a node whose op is the function's name, with no attribute that says so.
    yield node.op
    stack: list[Attr] = list(node.attrs.values())
    while stack:
        attr = stack.pop()
        if isinstance(attr, tuple):
            stack.extend(attr)
        elif isinstance(attr, FunctionAttr):
            yield attr.name
            # A function given to a function: attributes of a reference may hold references.
            stack.extend(attr.attrs.values())
