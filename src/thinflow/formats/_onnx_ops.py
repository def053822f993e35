"""The ops an .onnx file is made of."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from thinflow.formats._onnx_model import parse_model

_OWN = "ai.onnx"


def needed_ops(data: memoryview) -> dict[tuple[str, int], set[str]]:
    """Domain ("" is ONNX's own) and version of its op set -> names of ops, those of inner graphs included.

    Raises:
        FormatError: the bytes are no model.
    """
    message = parse_model(data, None).message
    versions = {_domain(o.domain): int(o.version) for o in message.opset_import}
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    pending = [message.graph]
    while pending:
        for node in pending.pop().node:
            domain = _domain(node.domain)
            found[domain, versions.get(domain, 1)].add(node.op_type)
            pending.extend(_bodies(node))
    return dict(found)


def _domain(name: str) -> str:
    return "" if name == _OWN else name


def _bodies(node: Any) -> list[Any]:
    """The graphs in the attributes of a node."""
    single = [a.g for a in node.attribute if a.HasField("g")]
    return [*single, *(g for a in node.attribute for g in a.graphs)]
