"""Releases of TensorFlow, and the ops, attributes and values each brought; from `data/op_history.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from thinflow.errors import ParameterError
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
    found = History()
    release = (0, 0)
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("["):
            name, version = line.strip("[]").split()
            release = read_release(name)
            found.graph_versions[release] = int(version)
        elif not line.startswith("#"):
            _, _, items = line.partition(": ")
            for item in items.split():
                # The first release that lists it counts.
                found.since.setdefault(item, release)
    return found


def read_release(text: str) -> Release:
    """A release from "1.4" or "1.4.1".

    Raises:
        ParameterError: it is not one.
    """
    # A patch level is read and left out: it brings no ops.
    found = re.fullmatch(r"\s*(\d{1,3})\.(\d{1,3})(\.\w+)?\s*", text)
    if found is None:
        raise ParameterError(f"'{text}' is not a release of TensorFlow", hint="write version=1.4")
    return int(found[1]), int(found[2])


def knows(op: str) -> bool:
    """Whether the op is one of TensorFlow's own."""
    return op in history().since


def too_new(item: str, release: Release) -> bool:
    """Whether an op, `Op.attr` or `Op.attr=value` came after the release."""
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
