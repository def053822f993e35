"""Graphs in Graphviz's DOT language."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.api.pictures.picture import Box, Picture
from thinflow.ir.graph import Graph

_COLOURS = {
    "input": "#d5e8d4",
    "output": "#ffe6cc",
    "constant": "#f5f5f5",
    "group": "#e1d5e7",
    "op": "#dae8fc",
}
_INDENT = "  "


def quoted(text: str) -> str:
    """The text as a DOT string, whatever is in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else " " for c in escaped) + '"'


def plain_dot(graph: Graph) -> str:
    """A line for each node with its op, and one for each edge, as TensorFlow's graph_to_dot laid them out."""
    lines = ["digraph graphname {"]
    for node in graph:
        lines.append(f"  {quoted(node.name)} [label={quoted(node.op)}];")
        # Each source once, however many of its outputs are read.
        edges = dict.fromkeys((v.node.name, "") for v in node.inputs)
        edges |= dict.fromkeys((n.name, " [style=dashed]") for n in node.control_inputs)
        lines += [f"  {quoted(source)} -> {quoted(node.name)}{style};" for source, style in edges]
    return "\n".join([*lines, "}", ""])


def dot(picture: Picture) -> str:
    """The picture with scopes as frames, and functions as frames of their own."""
    lines = [
        "digraph graphname {",
        f"  label={quoted(picture.title)};",
        '  fontname="Helvetica"; fontsize=12; labeljust=l;',  # titles beside the arrows, not under them
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8];',
        *_content(picture, "", 1),
    ]
    for number, function in enumerate(picture.functions):
        lines.append(f"  subgraph {quoted(f'cluster_function_{number}')} {{")
        lines.append(f"    label={quoted(f'function {function.title}')}; style=bold;")
        lines += _content(function, f"{function.title}\u203a", 2)
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _content(picture: Picture, prefix: str, level: int) -> Iterator[str]:
    """Boxes in their frames, then arrows. Keys get the prefix, since functions have names of their own."""
    yield from _frame(picture.boxes, 0, prefix, level)
    indent = _INDENT * level
    for arrow in picture.arrows:
        ends = f"{quoted(prefix + arrow.source)} -> {quoted(prefix + arrow.target)}"
        style = ["style=dashed"] if arrow.is_control else []
        style += [f"label={quoted(arrow.label)}"] if arrow.label else []
        yield f"{indent}{ends}{_attributes(style)};"


def _attributes(texts: list[str]) -> str:
    return f" [{', '.join(texts)}]" if texts else ""


def _frame(boxes: list[Box], depth: int, prefix: str, level: int) -> Iterator[str]:
    """The boxes of one scope, and below it the frames of the scopes inside."""
    indent = _INDENT * level
    inner: dict[str, list[Box]] = {}
    for box in boxes:
        if len(box.scope) > depth:
            inner.setdefault(box.scope[depth], []).append(box)
        else:
            yield f"{indent}{_box_line(box, prefix)}"
    for name, members in inner.items():
        key = f"cluster_{prefix}{'/'.join(members[0].scope[: depth + 1])}"
        yield f"{indent}subgraph {quoted(key)} {{"
        yield f"{indent}{_INDENT}label={quoted(name)};"
        yield from _frame(members, depth + 1, prefix, level + 1)
        yield f"{indent}}}"


def _box_line(box: Box, prefix: str) -> str:
    # Quoted line by line: the \n between them is DOT's own line break and must not be escaped.
    label = "\\n".join(quoted(line)[1:-1] for line in box.lines)
    return (
        f'{quoted(prefix + box.key)} [label="{label}", fillcolor="{_COLOURS[box.kind]}", '
        f"tooltip={quoted(box.about)}];"
    )
