"""Spell concatenations for runtimes that are older than ConcatV2.

concat_v2(v0, v1, ..., axis)  ->  concat(axis, v0, v1, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, constant_node, many, node
from thinflow.rewrite.rule import Refuse, transform


@transform("backport_concatv2")
@dataclass(frozen=True)
class BackportConcatV2(Rewrite):
    """Turn every ConcatV2 into a Concat, whose axis comes first and is int32."""

    pattern: ClassVar = node("ConcatV2", many("values"), any_value("axis"), name="concat")

    def check(self, m: Match) -> None:
        if is_int64(m) and constant_node(m.axis) is None:
            raise Refuse(f"its axis '{m.axis.name}' is int64 and not constant; Concat takes int32", m.concat)

    def build(self, m: Match, site: Site) -> Value:
        axis = m.axis
        if is_int64(m):
            axis = site.constant(m.array("axis").astype(np.int32), f"{m.concat.name}/axis_int32")
        # Concat has no such attribute: its axis is always int32.
        attrs = {k: v for k, v in m.concat.attrs.items() if k != "Tidx"}
        return site.add("Concat", axis, *m.values, attrs=attrs)

    def describe(self, m: Match) -> str:
        return "now Concat" + (", with an int32 copy of its axis" if is_int64(m) else "")


def is_int64(m: Match) -> bool:
    """Whether the axis is of a type that Concat does not take."""
    # The constant's own type goes first: the attribute may be absent, and then means int32.
    source = constant_node(m.axis)
    if source is not None and source.tensor is not None:
        return source.tensor.dtype is INT64
    return m.concat.attrs.get("Tidx", INT32) is INT64
