"""`thinflow compare_graphs`: TensorFlow's tool of that name; says how two GraphDefs first differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import OldFlags

USAGE_EXIT = 255  # the original's -1, as a shell sees it
_FILES = (("A", "the graph to look at"), ("B", "what it should equal"))
FLAGS = OldFlags(
    "compare_graphs",
    {
        "all": (False, "every difference, not just the first"),
        "functions": (False, "compare the function library, too"),
        "versions": (False, "compare the versions of the GraphDefs, too"),
        "internal_attrs": (False, "compare attributes that start with _, too"),
        "ignore_defaults": (False, "an absent attribute equals its default"),
        "numeric": (False, "run both graphs and compare their outputs, too"),
        "rtol": ("", "floats are equal if |a - b| <= atol + rtol |b|"),
        "atol": ("", "see --rtol"),
        "inputs": ("", "names, comma-separated, for --numeric; default: the best guess"),
        "outputs": ("", "names, comma-separated, for --numeric; default: the best guess"),
    },
    arguments=_FILES,
    examples="""
  thinflow compare_graphs before.pb after.pb
  thinflow compare_graphs before.pb after.pb --all --functions --rtol=1e-5
  thinflow compare_graphs before.pb after.pb --numeric --inputs=x --outputs=y
""",
)
_SWITCHES = tuple(name for name, (default, _) in FLAGS.flags.items() if isinstance(default, bool))
_VALUES = tuple(name for name in FLAGS.flags if name not in _SWITCHES)
HELP = "\n".join(
    [
        "usage: thinflow compare_graphs A B [options]",
        "",
        *(f"  --{n + ('' if n in _SWITCHES else '=X'):17}{text}" for n, (_, text) in FLAGS.flags.items()),
        "",
        "Exit 0: equal, 1: different, 255: a problem.",
        f"examples:{FLAGS.examples.rstrip()}",
    ]
)


def compare_graphs(argv: Sequence[str]) -> int:
    if any(a in {"--help", "-h", "-help"} for a in argv):
        print(HELP)
        return 0
    files, options, problem = _read(argv)
    if problem:
        print(f"{problem}\n{HELP}", file=sys.stderr)
        return USAGE_EXIT
    if len(files) != 2:
        print("compare_graphs expects two file names as arguments", file=sys.stderr)
        print(HELP, file=sys.stderr)
        return USAGE_EXIT
    from thinflow.errors import ThinflowError

    try:
        differences = _differences(files, options)
    except ThinflowError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE_EXIT
    if not differences:
        print("Graphs are equal.")
        return 0
    print_lines(differences if options.get("all") else differences[:1])
    return 1


def _read(argv: Sequence[str]) -> tuple[list[str], dict[str, Any], str]:
    """The files, the options by name, and what is wrong with the first that cannot be read."""
    from thinflow.cli._oldflags import as_switch

    files: list[str] = []
    options: dict[str, Any] = {}
    waiting = list(reversed(argv))
    while waiting:
        word = waiting.pop()
        if not word.startswith("-"):
            files.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if name not in (*_SWITCHES, *_VALUES):
            return [], {}, _unknown(word, name)
        if name in _VALUES and not equals:
            text = waiting.pop() if waiting else ""
        value = _value(name, text) if name in _VALUES else as_switch(text if equals else "true")
        if value is None:
            return [], {}, f"Couldn't interpret value {text} for flag {name}."
        options[name] = value
    return files, options, ""


def _unknown(word: str, name: str) -> str:
    from thinflow.errors import closest

    near = closest(name, (*_SWITCHES, *_VALUES))
    return f"Unknown argument {word}" + (f"\nhint: {near}" if near else "")


def _value(name: str, text: str) -> float | list[str] | None:
    """A list of names, or a number; None if it is none."""
    if name in {"inputs", "outputs"}:
        return [n.strip() for n in text.split(",") if n.strip()] or None
    try:
        return float(text)
    except ValueError:
        return None


def _differences(files: Sequence[str], options: dict[str, Any]) -> list[str]:
    import thinflow

    structural = ("functions", "versions", "internal_attrs", "ignore_defaults", "rtol", "atol")
    found = thinflow.compare(*files, **{k: options[k] for k in structural if k in options})
    if options.get("numeric"):
        ends: dict[str, Any] = {k: options.get(k) for k in ("inputs", "outputs")}
        # The second file is the expected one, as in the comparison of structure.
        told = thinflow.verify(files[1], files[0], tolerance=options.get("rtol", 1e-4), **ends)
        found += [
            f"Output '{o.name}' differs by {o.largest:.6g} ({o.relative:.3g} of the largest value)"
            for o in told.outputs
            if o.relative > told.tolerance
        ]
    return found
