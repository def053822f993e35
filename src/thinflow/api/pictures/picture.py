"""Content of a picture of a graph: boxes and arrows, without their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, Node, Value

MOST_BOXES = 1000
"""More than these nobody can read: scopes are then drawn as one box each."""


@dataclass(frozen=True)
class Box:
    """One node, or a scope of nodes.

    Attributes:
        key: unlike that of all others: the node's name, or the scope's with a slash.
        lines: what stands in it, the op first.
        scope: names of the scopes around it, outermost first.
        kind: "input", "output", "constant", "group" or "op".
        about: everything worth telling, for whoever points at it.
    """

    key: str
    lines: tuple[str, ...]
    scope: tuple[str, ...] = ()
    kind: str = "op"
    about: str = ""


@dataclass(frozen=True)
class Arrow:
    """From the box of a producer to that of a reader; a control arrow passes no data."""

    source: str
    target: str
    label: str = ""
    is_control: bool = False


@dataclass
class Picture:
    """A graph to draw.

    Attributes:
        title: what it is.
        boxes, arrows: each box and each arrow once.
        functions: pictures of the functions of the library, if asked for.
        notes: what is not shown.
    """

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    functions: list[Picture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def picture(
    graph: Graph,
    title: str = "",
    *,
    constants: bool = False,
    depth: int | None = None,
    functions: bool = True,
) -> Picture:
    """The picture of a graph whose specs are set.

    Args:
        graph: what to draw.
        title: what it is called.
        constants: draw constants as boxes of their own; otherwise their readers mention them.
        depth: how many scopes to look into; default: as many as give a readable picture.
        functions: draw the functions of the library, too.
    """
    drawn = Picture(title)
    hidden = {} if constants else _hidden_constants(graph)
    if hidden:
        drawn.notes.append(f"{len(hidden)} constants stand in the boxes of their readers")
    nodes = [node for node in graph if node not in hidden]
    level = _readable_depth(nodes) if depth is None else max(depth, 0)
    homes = {node: _home(node, level) for node in nodes}
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(homes[node], []).append(node)
    for key, members in groups.items():
        drawn.boxes.append(_group(key, members) if key.endswith("/") else _box(members[0], hidden))
    if len(groups) < len(nodes):
        drawn.notes.append(f"{len(nodes)} nodes in {len(groups)} boxes; --depth N opens N scopes")
    drawn.arrows = _arrows(nodes, homes)
    if functions:
        drawn.functions = list(_functions(graph, constants, depth, drawn.notes))
    return drawn


def _functions(graph: Graph, constants: bool, depth: int | None, notes: list[str]) -> Iterator[Picture]:
    for name in graph.functions:
        try:
            body = graph.functions[name].graph
        except ThinflowError as error:
            notes.append(f"the function '{name}' is not drawn: {error.message}")
            continue
        yield picture(body, name, constants=constants, depth=depth, functions=False)


# --- boxes --------------------------------------------------------------------------------------------------


def _hidden_constants(graph: Graph) -> dict[Node, str]:
    """Constants that only data inputs read, and nodes that only hand such a one on -> what they hold."""
    hidden: dict[Node, str] = {}
    for node in graph:
        if node.tensor is not None and not node.is_protected and not node.control_inputs:
            hidden[node] = f"{node.tensor.dtype}{_sizes(node.tensor.shape)}"
    for node in graph:
        sources = [v.node for v in node.inputs]
        passes = node.op in ("Identity", "ReadVariableOp")
        if passes and len(sources) == 1 and sources[0] in hidden and not node.is_protected:
            hidden[node] = hidden[sources[0]]
    return {
        node: text
        for node, text in hidden.items()
        if not node.control_inputs and not node.control_outputs and node.readers
    }


def _sizes(shape: Iterable[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _box(node: Node, hidden: Mapping[Node, str]) -> Box:
    *scope, name = node.name.split("/")
    held = _counted([hidden[v.node] for v in node.inputs if v.node in hidden])
    spec = str(node.output(0).spec) if node.output(0).spec.shape is not None else ""
    lines = [node.op, name, *(["+ " + ", ".join(held)] if held else []), *([spec] if spec else [])]
    return Box(node.name, tuple(lines), tuple(scope), _kind(node), _about(node))


def _counted(texts: Sequence[str]) -> list[str]:
    """`["a", "a", "b"]` as `["2 x a", "b"]`."""
    counts = Counter(texts)
    return [f"{count} x {text}" if count > 1 else text for text, count in counts.items()]


def _kind(node: Node) -> str:
    if any(v.is_graph_output for v in node.outputs):
        return "output"
    if node.op == "_Arg" or node.op.startswith("Placeholder") or any(v.is_graph_input for v in node.outputs):
        return "input"
    return "constant" if node.tensor is not None else "op"


def _about(node: Node) -> str:
    lines = [f"{node.name} ({node.op})"]
    lines += [f"input {i}: {v.name} {v.spec}" for i, v in enumerate(node.inputs)]
    lines += [f"output {v.port}: {v.spec}" for v in node.outputs]
    if node.device:
        lines.append(f"device: {node.device}")
    return "\n".join(lines)


def _group(key: str, members: list[Node]) -> Box:
    *scope, name = key.rstrip("/").split("/")
    ops = Counter(node.op for node in members)
    common = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    about = f"{key} {len(members)} nodes\n" + "\n".join(f"{count} {op}" for op, count in common)
    top = ", ".join(f"{count} {op}" for op, count in common[:2])
    return Box(key, (f"{name}/", f"{len(members)} nodes", top), tuple(scope), "group", about)


# --- scopes -------------------------------------------------------------------------------------------------


def _home(node: Node, level: int | None) -> str:
    """The key of the box a node is drawn in: its own, or its scope's if that is not looked into."""
    if level is None or node.is_protected:
        return node.name
    scope = node.name.split("/")[:-1]
    return "/".join(scope[: level + 1]) + "/" if len(scope) > level else node.name


def _readable_depth(nodes: list[Node]) -> int | None:
    """Number of scopes that may be open so that not too many boxes are drawn; None for all."""
    if len(nodes) <= MOST_BOXES:
        return None
    deepest = max(node.name.count("/") for node in nodes)
    # From the deepest: as much detail as still can be read.
    for level in range(deepest, 0, -1):
        if len({_home(node, level) for node in nodes}) <= MOST_BOXES:
            return level
    return 0


# --- arrows -------------------------------------------------------------------------------------------------


def _arrows(nodes: Iterable[Node], homes: Mapping[Node, str]) -> list[Arrow]:
    """Each pair of boxes once; data before control."""
    found: dict[tuple[str, str], Arrow] = {}
    for node in nodes:
        for value in node.inputs:
            source = homes.get(value.node)
            if source is not None and source != homes[node]:
                found.setdefault((source, homes[node]), Arrow(source, homes[node], _label(value)))
    for node in nodes:
        for awaited in node.control_inputs:
            source = homes.get(awaited)
            if source is not None and source != homes[node]:
                # Data wins: where values flow, an edge that only waits says nothing more.
                found.setdefault((source, homes[node]), Arrow(source, homes[node], "", True))
    return list(found.values())


def _label(value: Value) -> str:
    port = f":{value.port}" if value.port else ""
    spec = "" if value.spec.shape is None else str(value.spec)
    return f"{port} {spec}".strip()
