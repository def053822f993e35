"""Flags that label_image and label_wav share, and the printing of labels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import OldFlags, Setting
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import csv_cell

if TYPE_CHECKING:
    from pathlib import Path

    from thinflow.compat.label_image import Guess

COMMON: dict[str, tuple[Setting, str]] = {
    "csv": (False, "print comma-separated values: file, rank, label, index, score"),
    "json": (False, "print the same content for machines"),
    "engine": ("auto", "auto, litert, onnxruntime or reference; auto is exact for eight-bit graphs"),
    "num_threads": (1, "threads of the engine"),
}


def required(tool: OldFlags, flags: Mapping[str, Setting], *names: str) -> bool:
    """Whether all of these are given; else usage is printed."""
    missing = [name for name in names if not flags[name]]
    if missing:
        print(f"--{missing[0]} is needed.\n{tool.usage()}", file=sys.stderr)
    return not missing


def number(flags: Mapping[str, Setting], name: str) -> float | None:
    """A flag as a number; None if it is not given.

    Raises:
        ParameterError: it is none.
    """
    if flags[name] == "":
        return None
    try:
        return float(flags[name])
    except ValueError:
        raise ParameterError(f"--{name}={flags[name]} is not a number", hint="give a number") from None


def print_labels(
    found: Iterable[tuple[Path, list[Guess]]], flags: Mapping[str, Setting], line: Callable[[Guess], str]
) -> list[list[Guess]]:
    """Print the labels of each file as soon as they are there, several files under their names."""
    import csv
    import json

    rows: list[tuple[Path, list[Guess]]] = []
    writer: Any = csv.writer(sys.stdout, lineterminator="\n")
    if flags["csv"]:
        writer.writerow(["file", "rank", "label", "index", "score"])
    for file, guesses in found:
        if flags["csv"]:
            writer.writerows(
                [csv_cell(str(file)), rank, csv_cell(g.label), g.index, f"{g.score:.6g}"]
                for rank, g in enumerate(guesses, start=1)
            )
        elif not flags["json"]:
            if rows:
                print()
            # A single file needs no title; of a folder each has one.
            if rows or _is_folder(flags):
                print_lines([f"{file}:"])
            print_lines(map(line, guesses))
        rows.append((file, guesses))
    if flags["json"]:
        print(json.dumps([{"file": str(f), "labels": [g.__dict__ for g in gs]} for f, gs in rows], indent=2))
    return [guesses for _, guesses in rows]


def _is_folder(flags: Mapping[str, Setting]) -> bool:
    from pathlib import Path

    return Path(str(flags.get("image") or flags.get("wav") or "")).expanduser().is_dir()
