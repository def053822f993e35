"""Releases of TensorFlow: the ops, attributes and values that each brought, and which of them wrote a graph.

The table is `data/op_history.txt`, written by `scripts/op_history.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.types import DType

Release = tuple[int, int]
"""Major and minor number."""


@dataclass(frozen=True)
class History:
    """Ops, attributes and values, with the releases that brought them.

    Attributes:
        graph_versions: release -> the version of graphs it writes, in order.
        since: op, `Op.attr` or `Op.attr=value` -> the release. Attributes that came with their op, and values
            that came with their attribute, are not listed.
    """

    graph_versions: dict[Release, int] = field(default_factory=dict)
    since: dict[str, Release] = field(default_factory=dict)


@cache
def history() -> History:
    """The table, read on first use."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/op_history.txt").read_text("utf-8")
    table = History()
    release = (0, 0)
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("["):
            name, version = line.strip("[]").split()
            release = read_release(name)
            table.graph_versions[release] = int(version)
        elif not line.startswith("#"):
            _, _, items = line.partition(": ")
            for item in items.split():
                # The first release that lists it counts.
                table.since.setdefault(item, release)
    return table


def read_release(text: str) -> Release:
    """A release from "1.4" or "1.4.1".

    Raises:
        ParameterError: it is not one.
    """
    # A patch level is read and left out: it brings no ops.
    match = re.fullmatch(r"\s*(\d{1,3})\.(\d{1,3})(\.\w+)?\s*", text)
    if match is None:
        raise ParameterError(f"'{text}' is not a release of TensorFlow", hint="write version=1.4")
    return int(match[1]), int(match[2])


def knows(op: str) -> bool:
    """True if the op is one of TensorFlow's own."""
    return op in history().since


def too_new(item: str, release: Release) -> bool:
    """True if an op, `Op.attr` or `Op.attr=value` came after the release."""
    # What no release brought is as old as the table, or not TensorFlow's.
    return history().since.get(item, (0, 0)) > release


def too_new_value(op: str, attr: str, value: object, release: Release) -> str:
    """The `Op.attr=value` that came after the release, among the types and words of an attribute; or ""."""
    for item in value if isinstance(value, tuple) else (value,):
        word = (
            item.name
            if isinstance(item, DType)
            # Any byte is a character of latin-1: an odd word is then just not in the table.
            else item.decode("latin-1")
            if isinstance(item, bytes)
            else ""
        )
        if word and too_new(name := f"{op}.{attr}={word}", release):
            return name
    return ""


def graph_version(release: Release) -> int:
    """The version of the graphs that a release writes; of the last listed one before it.

    Raises:
        ParameterError: it is older than all that are listed.
    """
    versions = history().graph_versions
    earlier = [r for r in versions if r <= release]
    if not earlier:
        first = ".".join(map(str, min(versions)))
        raise ParameterError(
            f"nothing is known about TensorFlow {release[0]}.{release[1]}",
            hint=f"the oldest is version={first}",
        )
    return versions[max(earlier)]


def era(graph: Graph) -> str:
    """The releases of TensorFlow that may have written a graph: by the version it declares, else by its ops.

    "" if neither tells anything.
    """
    producer = graph.versions.producer if graph.versions is not None else 0
    if producer:
        return f"{_written_by(producer)}, GraphDef version {producer}"
    bodies = [graph, *(function.graph for function in graph.functions.values())]
    known = {node.op for body in bodies for node in body if knows(node.op)}
    if not known:
        return ""
    youngest = max(history().since[op] for op in known)
    if youngest == min(history().graph_versions):
        return "TensorFlow of any release, by its ops"
    return f"TensorFlow {_named(youngest)} or newer, by its ops"


def _written_by(producer: int) -> str:
    """The releases that write a version of graphs. Nightly builds count between two releases."""
    versions = history().graph_versions
    same = [release for release, version in versions.items() if version == producer]
    if same:
        first, last = _named(min(same)), _named(max(same))
        return f"TensorFlow {first}" if first == last else f"TensorFlow {first} to {last}"
    before = [release for release, version in versions.items() if version < producer]
    after = [release for release, version in versions.items() if version > producer]
    if before and after:
        return f"TensorFlow {_named(max(before))} to {_named(min(after))}"
    return (
        f"TensorFlow {_named(max(before))} or newer" if before else f"TensorFlow before {_named(min(after))}"
    )


def _named(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
