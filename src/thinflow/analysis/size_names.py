"""Names that a file gives to sizes that it leaves open, such as "batch": one holds for several inputs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from thinflow.analysis.shapes import declared_spec
from thinflow.errors import FeedError
from thinflow.ir.graph import Value
from thinflow.ir.types import SIZE_NAMES

Sizes = Sequence[int | None]
Shape = tuple[int | None, ...]


def size_names(inputs: Sequence[Value]) -> dict[str, list[tuple[Value, int]]]:
    """Name of a size -> the inputs that have it, each with the axis."""
    found: dict[str, list[tuple[Value, int]]] = {}
    for value in inputs:
        names = value.node.attrs_view.get(SIZE_NAMES)
        if not isinstance(names, tuple) or len(names) != len(declared_spec(value).shape or ()):
            continue
        for axis, name in enumerate(names):
            if isinstance(name, bytes) and name:
                found.setdefault(name.decode("utf-8", "replace"), []).append((value, axis))
    return found


def is_settled(places: Sequence[tuple[Value, int]]) -> bool:
    """True if somebody gave that size: the inputs that have it do not leave it open any more."""
    # As the input is declared: for costs a batch of one may be assumed.
    shapes = ((value.node.get("shape"), axis) for value, axis in places)
    return all(isinstance(shape, tuple) and shape[axis] is not None for shape, axis in shapes)


def shapes_of_inputs(inputs: Sequence[Value], shapes: Mapping[str, Sizes]) -> dict[str, Shape]:
    """Name of an input -> the shape that a user gave, for all of it or by the names of its sizes.

    What is neither an input nor a size is handed on, for the caller to refuse.

    Args:
        inputs: of a graph.
        shapes: name of an input -> its shape, or name of a size -> that size alone.

    Raises:
        FeedError: several numbers for one size, or one that is none.
    """
    by_name = {value.name: value for value in inputs}
    known = size_names(inputs)
    found = {n.removesuffix(":0"): checked_sizes(n, s) for n, s in shapes.items()}
    for name in [n for n in found if n not in by_name and n in known]:
        size = found.pop(name)
        if len(size) != 1:
            raise FeedError(f"'{name}' is one size, not {len(size)}", hint=f"write {name}=1")
        for value, axis in known[name]:
            dims = list(found.get(value.name, declared_spec(value).shape or ()))
            # A whole shape that was given as well, of another rank, is refused when the graph is made.
            if axis < len(dims):
                dims[axis] = size[0]
            found[value.name] = tuple(dims)
    _spread(found, by_name, known)
    return found


def _spread(
    found: dict[str, Shape], inputs: Mapping[str, Value], known: Mapping[str, list[tuple[Value, int]]]
) -> None:
    """Give a size to all inputs that the file has its name for, where one of them was given as a whole.

    Args:
        found: input -> its shape; edited.
        inputs: by their names.
        known: name of a size -> where it is.
    """
    given = {name: shape for name, shape in found.items() if name in inputs}
    for places in known.values():
        sizes = {given[v.name][n] for v, n in places if v.name in given and n < len(given[v.name])}
        # Exporters that do not know a size may call several the same.
        if len(sizes) != 1 or None in sizes:
            continue
        (size,) = sizes
        for value, axis in places:
            dims = list(found.get(value.name, declared_spec(value).shape or ()))
            if value.name not in given and axis < len(dims) and dims[axis] is None:
                dims[axis] = size
                found[value.name] = tuple(dims)


def checked_sizes(name: str, sizes: Sizes) -> Shape:
    """Sizes as they were given for an input, or for a size by its name; -1 is an open one, as in TensorFlow.

    Raises:
        FeedError: one is no number of elements.
    """
    found: list[int | None] = []
    for size in sizes:
        try:
            number = -1 if size is None else operator.index(size)
        except TypeError:
            number = -2
        if number < -1:
            raise FeedError(
                f"{size!r} is no size for '{name}'", hint="give whole numbers; None leaves one open"
            )
        found.append(None if number < 0 else number)
    return tuple(found)
