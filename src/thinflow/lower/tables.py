"""Lookup tables for the rules of all targets."""

from __future__ import annotations

from thinflow.analysis.tables import Content, content_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node


def known_content(node: Node) -> Content:
    """The content of the table that a node reads.

    Raises:
        UnsupportedOp: that is not known before it runs.
    """
    content = content_of(node)
    if isinstance(content, Content):
        return content
    raise UnsupportedOp(f"{content}, so that it is not known what the table holds")
