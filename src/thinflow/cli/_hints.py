"""Hints of the library, which are written for Python, in the words of the command line."""

from __future__ import annotations

import re

_OWN_FLAG = {
    "benchmark": "--engines",
    **dict.fromkeys(("run", "reduce", "verify", "view"), "--engine"),
    **dict.fromkeys(("benchmark_model", "label_image", "label_wav"), "--engine"),
}
"""Commands that choose an engine, and how; the others are helped by `thinflow run`."""
_ENGINE = re.compile(r"\bengine='([^']*)'")
_NAMES = re.compile(r"\b(inputs|outputs)=\[\.\.\.\]")
_FEEDS = {"feeds={...}": "--feed NAME=FILE", "calibration=SAMPLES": "--calibration SAMPLES"}


def in_flags(hint: str, verb: str) -> str:
    """The hint as somebody can type it who ran that command."""
    for python, flag in _FEEDS.items():
        hint = hint.replace(python, flag)
    hint = _NAMES.sub(r"--\1 NAMES", hint)
    own = _OWN_FLAG.get(verb)
    return _ENGINE.sub(rf"{own} \1" if own else r"`thinflow run MODEL --engine \1`", hint)
