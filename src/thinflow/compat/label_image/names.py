"""The names of classes, and the files to label."""

from __future__ import annotations

import os
from pathlib import Path

from thinflow.errors import FormatError

PICTURES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp"})
SOUNDS = frozenset({".wav"})
_MAX_LABEL_BYTES = 1 << 26


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a labels file, without the white space at their ends.

    Raises:
        FormatError: no such file, or it is no text.
    """
    try:
        if os.path.getsize(path) > _MAX_LABEL_BYTES:
            raise FormatError("this is too long to be a list of labels", os.fspath(path))
        text = Path(path).read_text("utf-8")
    except OSError as e:
        raise FormatError(
            f"the labels cannot be read: {e.strerror}", os.fspath(path), "give a text file, one label a line"
        ) from e
    except UnicodeDecodeError as e:
        raise FormatError("this is not a text file", os.fspath(path), "give one label a line") from e
    # At \n alone: splitlines also breaks at form feeds and the like, which would shift all labels behind.
    labels = [line.rstrip() for line in text.split("\n")]
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise FormatError("there are no labels in it", os.fspath(path), "give one label a line")
    return labels


def files_of(path: str | os.PathLike[str], suffixes: frozenset[str]) -> list[Path]:
    """A file, or the files of a folder with one of the suffixes, sorted.

    Raises:
        FormatError: nothing is there.
    """
    given = Path(path)
    if not given.is_dir():
        return [given]
    found = sorted(p for p in given.rglob("*") if p.suffix.lower() in suffixes)
    if not found:
        raise FormatError(f"there is no {' or '.join(sorted(suffixes))} file in this folder", str(given))
    return found
