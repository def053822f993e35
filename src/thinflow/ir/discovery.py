"""What files register, found by the decorators at their margin, and imported when it is needed.

A new op, rule, layer or transform is one file: nobody lists it anywhere. What a file registers is read off
its source, `@op("Tile", "Bucketize")` at the margin, each time a process needs it: that takes a few
milliseconds for a hundred files, and importing them as long as converting a small model. There is no cache
that could be out of date or needs a folder to write to, and nothing to be made when a wheel is built.

Decorators whose names are computed (`@lower(*_UNARY, to="tflite")`), indented ones, and files whose source is
not there (compiled, in an archive) say too little: such files are imported, one by one, when a name is asked
for that no other file is known to have. So answers are the same as if all were imported, as long as whatever
registers something is written as a decorator, or as a call of it at the beginning of a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")
_SUFFIXES = ("py", "pyc", "so", "pyd")
_NAMES = re.compile(rb'((?:[\s,]|"[^"\n]+"|\*\(|\),)+)(?:\)|\w+[=.])')
"""The arguments of a decorator: names, and perhaps an option such as `masks="pass"` or `Severity.NOTE`."""


class Registered(Mapping[str, T]):
    """What the modules of some packages register, by name.

    A module is imported when one of its names is asked for, and all of them are by whoever iterates. What is
    registered elsewhere, as by a plug-in, is found, too.
    """

    def __init__(self, packages: str | Iterable[str], *decorators: str) -> None:
        self._packages = [packages] if isinstance(packages, str) else list(packages)
        self._decorators = decorators
        self._found: dict[str, T] = {}
        self._is_whole = False

    def add(self, name: str, what: T, module: str) -> T:
        """Register what a module defines; gives what is registered under the name now, which is the first."""
        # What ships comes before what a plug-in has, whichever is imported first.
        if module.partition(".")[0] != self._packages[0].partition(".")[0]:
            self.find(name)
        return self._found.setdefault(name, what)

    def find(self, name: str) -> T | None:
        """What is registered under a name, None if nothing is."""
        found = self._found.get(name)
        if found is None and not self._is_whole:
            told = self._index.names.get(name)
            # Each time anew: while another thread is still importing one, this waits for it.
            for module in self._index.computed if told is None else [told]:
                import_module(module)
                if (found := self._found.get(name)) is not None:
                    break
        return found

    def __getitem__(self, name: str) -> T:
        if (found := self.find(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if not self._is_whole:
            for module in {*self._index.names.values(), *self._index.computed}:
                import_module(module)
            self._is_whole = True
        return self._found

    @cached_property
    def _index(self) -> Index:
        return Index(self._packages, self._decorators)


class Index:
    """What the sources of the modules in some packages say.

    Attributes:
        names: name that a decorator registers -> its module.
        computed: modules that register names which their sources do not tell.
    """

    def __init__(self, packages: Iterable[str], decorators: Iterable[str]) -> None:
        self.names: dict[str, str] = {}
        self.computed: list[str] = []
        calls = [f"{decorator}(".encode() for decorator in decorators]
        for package in packages:
            for module, source in _sources(package):
                if source is None or not all(self._read(call, module, source) for call in calls):
                    self.computed.append(module)

    def _read(self, call: bytes, module: str, source: bytes) -> bool:
        """Note the names that a module registers; False if its source does not tell them all."""
        is_told, at = True, source.find(call)
        while at >= 0:
            line = source[source.rfind(b"\n", 0, at) + 1 : at]
            names = _NAMES.match(source, at + len(call)) if line == b"@" else None
            if names is not None:
                self.names.update(dict.fromkeys(names[1].decode().split('"')[1::2], module))
            elif line.strip() in (b"", b"@"):
                is_told = False
            at = source.find(call, at + len(call))
        return is_told


def _sources(package: str) -> Iterator[tuple[str, bytes | None]]:
    """The modules of a package and of those within, with the source of each; None where there is none."""
    found = find_spec(package)
    for folder in found.submodule_search_locations or () if found is not None else ():
        yield from _below(package, folder)


def _below(package: str, folder: str) -> Iterator[tuple[str, bytes | None]]:
    for name, is_package in sorted(_listed(folder)):
        path = os.path.join(folder, name)
        try:
            with open(os.path.join(path, "__init__.py") if is_package else f"{path}.py", "rb") as file:
                yield f"{package}.{name}", file.read()
        except OSError:
            yield f"{package}.{name}", None
        if is_package:
            yield from _below(f"{package}.{name}", path)


def _listed(folder: str) -> set[tuple[str, bool]]:
    """The names of the modules in a folder, and whether each is a package."""
    try:
        files = os.listdir(folder)
    except OSError:
        from pkgutil import iter_modules

        return {(module.name, module.ispkg) for module in iter_modules([folder])}
    # Not by pkgutil, which imports as much as the help of a command.
    parts = [file.partition(".") for file in files if not file.startswith("__init__.")]
    modules = {(name, False) for name, _, suffix in parts if name and suffix.endswith(_SUFFIXES)}
    folders = (name for name, dot, _ in parts if name.isidentifier() and not dot)
    begins = ("__init__.py", "__init__.pyc")
    packages = (n for n in folders if any(os.path.isfile(os.path.join(folder, n, b)) for b in begins))
    return modules | {(name, True) for name in packages}
