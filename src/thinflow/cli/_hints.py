"""Hints of the library, which are written for Python, in the words of the command line."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

_OWN_FLAG = {
    **dict.fromkeys(("benchmark", "run", "reduce", "verify"), "--engine"),
    **dict.fromkeys(("benchmark_model", "label_image", "label_wav"), "--engine"),
}
"""Commands that choose an engine, and how; the others are helped by `thinflow run`."""
_ENGINE = re.compile(r"\bengine='([^']*)'")
_NAMES = re.compile(r"\b(inputs|outputs)=\[\.\.\.\](?: when loading)?")
_SHAPES = re.compile(r"\bshapes=\.\.\.(?: or --shape)?")
# The word alone, not `MODEL.pb` or a name that begins so.
_MODEL = re.compile(r"(\bthinflow \w+ (?:--\w+ )*(?:--(?:in_)?graph=)?)MODEL(?![.\w])")
_COMMAND = re.compile(r"`(thinflow [^`]+)`|'(thinflow [^']+)'|(?:^|: )(thinflow .+)$")
_FEEDS = {"feeds={...}": "--feed NAME=FILE", "calibration=SAMPLES": "--calibration SAMPLES"}


def in_flags(hint: str, verb: str) -> str:
    """The hint as somebody can type it who ran that command."""
    for python, flag in _FEEDS.items():
        hint = hint.replace(python, flag)
    hint = _SHAPES.sub("--shape", _NAMES.sub(r"--\1 NAMES", hint))
    own = _OWN_FLAG.get(verb)
    return _ENGINE.sub(rf"{own} \1" if own else r"`thinflow run MODEL --engine \1`", hint)


def told_after(hint: str, args: Sequence[str]) -> str:
    """The hint for a command that failed: its flags, its model for MODEL; "" if it says to do the same again.

    Args:
        hint: of an error.
        args: the command, its verb first.
    """
    hint = in_flags(hint, args[0] if args else "")
    if model := model_of(args):
        hint = _MODEL.sub(lambda found: found[1] + shlex.quote(model), hint)
    # A hint to do what has just failed helps nobody.
    return "" if list(args) in commands_in(hint) else hint


def model_of(args: Sequence[str]) -> str:
    """The first argument that leads to a file or folder: what a command works on. "" if none does."""
    for text in args[1:]:
        name, equals, value = text.partition("=")
        path = value if equals and name.startswith("-") else text
        if not path.startswith("-") and os.path.exists(os.path.expanduser(path)):
            return path
    return ""


def commands_in(text: str) -> list[list[str]]:
    """The commands that a hint proposes, without `thinflow`: what stands in marks, or behind a colon."""
    found = []
    for match in _COMMAND.finditer(text):
        try:
            words = shlex.split(next(filter(None, match.groups())))[1:]
        except ValueError:  # a mark in a name: no command that anybody can type
            continue
        if len(words) > 1:  # a verb alone is only spoken of
            found.append(words)
    return found
