"""The order of axes in which a model is fed and answers, where its users want another one than its file has.

Networks from PyTorch take pictures as [n,c,h,w], and so does what is made of them: the transpose is the
model's. Apps that have their pictures as [n,h,w,c] save it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thinflow.errors import GraphError, ParameterError, closest
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import shape_text
from thinflow.load.frozen import LAYOUT
from thinflow.ops.traits import Trait, has
from thinflow.transforms.shared.constants import side_outputs

Layouts = str | Mapping[str, str]
"""A layout for all ends, or layouts by the names of ends; also as a text, "x=nhwc,y=nchw"."""
FIRST, LAST, CHEAPEST = "nchw", "nhwc", "auto"
CHOICES = (FIRST, LAST, CHEAPEST)
_ON_PICTURES = Trait.CONVOLUTION | Trait.CONV_TRANSPOSE | Trait.POOL | Trait.TAKES_IMAGES | Trait.RESIZE
_LINE = 3
"""The rank of [n,c,length]: fewer axes have no channels beside a batch and a place."""
Perm = tuple[int, ...]


def arrange_ends(graph: Graph, inputs: Layouts | None = None, outputs: Layouts | None = None) -> None:
    """Let inputs be fed, and outputs be given, with their channels elsewhere; names stay.

    A layout for all of them moves those of which the graph shows where their channels are: it transposes them
    on the way to its convolutions. One that is named is moved unless the graph shows that it is so already.

    Args:
        graph: with its interface and all shapes inferred; edited.
        inputs, outputs: "nchw" (channels behind the batch), "nhwc" (channels last), or "auto": as the graph
            computes, so that no transposes are left at its ends; or those by name.

    Raises:
        ParameterError: no such layout, or an end has no channels to move.
        GraphError: there is no end of a name.
    """
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.transforms.layout.ends import move_input, move_output

    moved: list[str] = []
    for role, wish in (("input", inputs), ("output", outputs)):
        if wish is None:
            continue
        ends = graph.inputs if role == "input" else graph.outputs
        wish = _read(wish)
        chosen = _chosen(graph, role, wish, ends)
        for value, layout in chosen.items():
            order = _order(graph, value, role, layout, is_named=not isinstance(wish, str))
            if order is None:
                continue
            moved.append(_told(value, role, order))
            _note_order(graph, value, order)
            (move_input if role == "input" else move_output)(graph, value, order)
        if not any(text.startswith(role) for text in moved):
            moved.append(f"no {role} was moved: channels are there already, or nothing shows where they are")
    if moved:
        infer_shapes(graph, {v: v.spec for v in graph.inputs})
        graph.facts[LAYOUT] = "; ".join(moved)


def _read(wish: Layouts) -> Layouts:
    """A layout, or layouts by name: also of a text such as "x=nhwc,y=nchw"."""
    if not isinstance(wish, str) or "=" not in wish:
        return wish
    pairs = (item.partition("=") for item in wish.split(","))
    return {name.strip(): layout.strip() for name, _, layout in pairs}


def _chosen(graph: Graph, role: str, wish: Layouts, ends: Sequence[Value]) -> dict[Value, str]:
    """The ends that may be moved, with the layout that is wanted.

    Raises:
        ParameterError, GraphError: as for `arrange_ends`.
    """
    named = {} if isinstance(wish, str) else {_end(graph, name, role, ends): w for name, w in wish.items()}
    for layout in [wish] if isinstance(wish, str) else wish.values():
        if layout not in CHOICES:
            raise ParameterError(
                f"there is no layout '{layout}'",
                hint=closest(layout, CHOICES) or f"one of {', '.join(CHOICES)}",
            )
    for value in named:
        if role == "output" and (value.port or side_outputs(value.node)):
            raise ParameterError(
                f"output '{value.name}' comes from a node with several outputs, which keep their axes",
                hint="name outputs of other nodes",
            )
        if not _has_channels(graph, value, role):
            raise ParameterError(
                f"{role} '{value.name}' has no channels to move: its shape is {shape_text(value.shape)}",
                hint="give layouts to ends of three axes or more",
            )
    if isinstance(wish, str):
        return {v: wish for v in dict.fromkeys(ends) if _has_channels(graph, v, role)}
    return named


def _end(graph: Graph, name: str, role: str, ends: Sequence[Value]) -> Value:
    plain = graph.aliases.get(name, name).removesuffix(":0")
    found = next((v for v in ends if v.name == plain), None)
    if found is None:
        names = [v.name for v in ends]
        raise GraphError(
            f"there is no {role} '{name}' in the graph",
            graph.path,
            closest(name, names) or f"its {role}s are {', '.join(names[:4])}",
        )
    return found


def _has_channels(graph: Graph, value: Value, role: str) -> bool:
    kept = {end for state in graph.states for end in (state.input, state.output)}
    rank = value.spec.rank
    if rank is None or rank < _LINE or value.name in kept:
        return False
    # What is fed in the place of an inner value keeps its node, and an input is no output of ours to move.
    if role == "input":
        return has(value.node.op, Trait.PLACEHOLDER)
    # Of several outputs under names of their own, those of a node that moves one could not keep theirs.
    return not (value.is_graph_input or value.port or side_outputs(value.node))


def _order(graph: Graph, value: Value, role: str, layout: str, *, is_named: bool) -> Perm | None:
    """The order of axes to give an end; None for that which it has."""
    rank = value.spec.rank or 0
    to_last, to_first = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    # Without ops on pictures nothing tells one order of axes from another.
    if not any(has(n.op, _ON_PICTURES) for n in graph):
        return (to_last if layout == LAST else to_first) if is_named and layout != CHEAPEST else None
    now, last, first = (_cost(graph, value, role, order) for order in (None, to_last, to_first))
    if layout == CHEAPEST:
        best = min(now, last, first)
        return None if best == now else to_last if best == last else to_first
    wanted = to_last if layout == LAST else to_first
    # The end is channels first if the graph moves them last, and channels last if any move is one more.
    is_first, is_last = last < now, last > now and first > now
    if is_first or is_last:
        return None if is_first == (layout == FIRST) else wanted
    return wanted if is_named else None


def _cost(graph: Graph, value: Value, role: str, order: Perm | None) -> int:
    """What transposes of a graph cost in which an end has its axes in another order."""
    from thinflow.rewrite.rule import Trace
    from thinflow.transforms.layout.ends import cost_of_end, move_input, move_output
    from thinflow.transforms.layout.layouts import ToNhwc

    trial = graph.clone()
    end = trial.value(value.name)
    if order is not None:
        end = (move_input if role == "input" else move_output)(trial, end, order)
    # Other outputs could have any order: nobody asks for them here.
    trial.outputs, name = [] if role == "input" else [end], end.name
    ToNhwc().apply(trial, Trace())
    return cost_of_end(trial, trial.value(name))


def _told(value: Value, role: str, order: Perm) -> str:
    shape = value.shape or ()
    new = tuple(shape[axis] for axis in order)
    how = "is fed" if role == "input" else "is given"
    layout = "channels last" if order[-1] == 1 else "channels first"
    return f"{role} '{value.name}' {how} {layout}, {shape_text(new)}, where the file has {shape_text(shape)}"


def _note_order(graph: Graph, value: Value, order: Perm) -> None:
    """Let whoever runs the file itself know how its axes lie in the graph's."""
    if graph.source is not None:
        graph.source = replace(graph.source, orders={**graph.source.orders, value.name: order})
