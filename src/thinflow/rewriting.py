"""Everything one needs to write a transform of one's own; see docs/write-a-transform.md.

A local change is a class with a pattern (`Rewrite`), any other a class with `apply` (`Transform`) or a plain
function (`register`). All of them run like the transforms that come with thinflow: checked, compared with the
graph before, and undone if they broke it.
"""

from __future__ import annotations

from thinflow.api.function_transforms import (
    BoolParam,
    Context,
    Editor,
    FloatParam,
    IntParam,
    StrParam,
    register,
    register_raw,
)
from thinflow.api.plugins import load_plugin
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_of, any_value, const, many, match, node, optional, output_of
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform

__all__ = [
    "BoolParam",
    "Context",
    "Editor",
    "FloatParam",
    "IntParam",
    "Match",
    "Refuse",
    "Rewrite",
    "Site",
    "StrParam",
    "Trace",
    "Transform",
    "any_of",
    "any_value",
    "const",
    "load_plugin",
    "many",
    "match",
    "node",
    "optional",
    "output_of",
    "register",
    "register_raw",
    "transform",
]
