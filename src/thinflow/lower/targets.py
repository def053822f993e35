"""The targets: formats that a graph is lowered to. Each is a folder here with a module `target`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TypeAlias

from thinflow.ir.graph import Graph
from thinflow.typing import FilePath

Writer: TypeAlias = Callable[[Graph, FilePath], int]


@dataclass(frozen=True)
class Target:
    """A target: what the module `target` of a folder calls TARGET.

    Attributes:
        name: what `format=` calls it.
        suffixes: names of files that ask for it.
        write: lowers a graph with outputs and writes the file; the bytes written.
        has_runtime: whether a runtime runs its files here, so that `convert` runs them before it keeps them.
        takes: vocabularies of files that it is given as they are, not in TensorFlow's ops.
        extra: the extra of thinflow that has what writes its files; "" if nothing more is needed. What looks
            at many models does not try such a target: it may be missing, and takes seconds to begin with.
    """

    name: str
    suffixes: tuple[str, ...]
    write: Writer
    has_runtime: bool = False
    takes: tuple[str, ...] = ()
    extra: str = ""


@cache
def targets() -> tuple[Target, ...]:
    """Every target, by name."""
    package = __package__ or ""
    folders = [m.name for m in iter_modules(import_module(package).__path__) if m.ispkg]
    modules = [f"{package}.{name}.target" for name in sorted(folders)]
    # find_spec first: a folder without that module is no target, and an import that fails inside of one must
    # be seen.
    return tuple(import_module(module).TARGET for module in modules if find_spec(module) is not None)


def target_for(path: FilePath, format: str | None = None) -> Target | None:
    """The target that a format's name asks for, else the suffix of a file; None if that is no target's."""
    name = os.fspath(path)
    for target in targets():
        if target.name == format if format is not None else name.endswith(target.suffixes):
            return target
    return None
