"""File formats: how to recognise one, how to read it, how to write it.

A format is a module of this package that defines `FORMAT`; being there is enough to be found. Formats are
asked in the order of their `rank`, the specific before the permissive, and look at content, never at the
suffix: people rename files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePath
from pkgutil import iter_modules
from typing import Any

from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import Vocabulary

HEAD_BYTES = 4096
"""Bytes of a file's beginning, and of its end, that a format may look at."""


@dataclass(frozen=True)
class Sample:
    """Sample of a file or folder, by which its format is recognised.

    Attributes:
        path: the file or folder.
        head: the first bytes of a file; empty for a folder.
        tail: the last bytes of a file.
        size: bytes of the file; 0 for a folder.
    """

    path: Path
    head: bytes = b""
    tail: bytes = b""
    size: int = 0

    @property
    def is_folder(self) -> bool:
        """A folder has no bytes of its own, and a file without any is refused before anyone looks at it."""
        return not self.size

    def word(self) -> bytes:
        """The first identifier of a text file, past blanks and comments; empty if there is none."""
        # The last three are the byte order mark of UTF-8, which some editors put in front.
        start = self.head.lstrip(b" \t\r\n\xef\xbb\xbf")
        while start.startswith(b"#"):
            start = start.partition(b"\n")[2].lstrip()
        return start[:48].split(b"{")[0].split(b":")[0].split(b"<")[0].strip()


def _never(sample: Sample) -> bool:
    del sample
    return False


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: what `format=` calls it.
        title: what people call it, with an article: "a SavedModel folder".
        recognise: whether a file or folder is of this format.
        load: the graph in it, given the path and those of `options` that the caller set.
        save: writes a graph to a path; returns the bytes written. None where it cannot be written.
        suffixes: names that ask for it when writing.
        options: keyword arguments `load` takes, with what each means.
        rank: place in the order of asking; small is early.
        hint: what to do with such a file where a graph was asked for; only if `load` is None.
        vocabulary: whose ops a graph read from such a file is in, if those are not TensorFlow's; `save` only
            copies the file then.
        framework: what people run such files with, if that is neither TensorFlow nor run here; a graph read
            from one keeps a record of the file.
    """

    name: str
    title: str
    recognise: Callable[[Sample], bool] = _never
    load: Callable[..., Graph] | None = None
    save: Callable[[Graph, Any], int] | None = None
    suffixes: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    rank: int = 50
    hint: str = ""
    vocabulary: Vocabulary | None = None
    framework: str = ""

    @property
    def engine(self) -> str:
        """What runs such files as they are; "" if nothing does."""
        return self.vocabulary.engine if self.vocabulary is not None else ""

    def claims(self, path: str) -> bool:
        """True if a file name asks for this format; of two that do the longer suffix wins."""
        return any(PurePath(path).name.endswith(suffix) for suffix in self.suffixes)


@functools.cache
def formats() -> tuple[Format, ...]:
    """Every format, in the order of asking."""
    # By its name, as every format imports this module: the package would be a circle.
    package = import_module(__package__)
    registered: list[Format] = []
    for module in iter_modules(package.__path__):
        if not module.name.startswith("_"):
            format = getattr(import_module(f"{package.__name__}.{module.name}"), "FORMAT", None)
            registered += format if isinstance(format, tuple) else [format] if format is not None else []
    return tuple(sorted(registered, key=lambda f: (f.rank, f.name)))
