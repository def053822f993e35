"""Finds the while loops of TF1 graphs, so that each can run as one step.

A loop is a frame: Enter nodes of one `frame_name` lead in, Merge joins the first value with the one
NextIteration brings back, LoopCond decides, Switch leads on into the body or out to Exit. Loops may nest.
Source: TensorFlow's white paper "Implementation of Control Flow in TensorFlow".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from thinflow.errors import GraphError, NodeError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, NEXT_ITERATIONS, execution_order
from thinflow.ops.traits import Trait, has

_STEERS = Trait.ENTER | Trait.NEXT_ITERATION | Trait.EXIT
MAX_ITERATIONS = 1_000_000
"""A loop that iterates more often is taken to be endless, unless `at_most_iterations` says otherwise."""
_LIMIT: ContextVar[int | None] = ContextVar("thinflow_max_iterations", default=None)


@contextmanager
def at_most_iterations(limit: int | None) -> Iterator[None]:
    """Within this, loops may iterate so often; None changes nothing."""
    if limit is None:
        yield
        return
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def max_iterations(default: int = MAX_ITERATIONS) -> int:
    """The largest number of iterations of a loop, as set now."""
    limit = _LIMIT.get()
    return default if limit is None else limit


def endless(limit: int) -> NodeError:
    """The error of a loop that has iterated so often."""
    return NodeError(
        f"the loop did not end after {limit} iterations",
        hint="check its inputs; if it is just long, raise the limit: max_iterations=N, or --max-iterations N",
    )


@dataclass(eq=False)
class Loop:
    """One while loop.

    Attributes:
        name: frame name.
        enters: what leads in; their inputs are read outside.
        merges: loop variable -> (its Enter, its NextIteration).
        condition: the LoopCond node.
        head: the steps that the condition needs, in order. Inner loops are steps; Enter, NextIteration, Exit
            and the loop variables are not, the loop itself plays them.
        body: the other steps of one iteration, in order.
        ending: those steps of the body that the Exits need when the condition has become false.
        exits: what leads out; their outputs are read outside.
        free: outer values that are read directly, without an Enter (constants that lost their control edge).
    """

    name: str
    condition: Node
    enters: list[Node] = field(default_factory=list)
    merges: dict[Node, tuple[Node, Node]] = field(default_factory=dict)
    head: list[Step] = field(default_factory=list)
    body: list[Step] = field(default_factory=list)
    ending: list[Step] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)
    free: list[Value] = field(default_factory=list)

    @property
    def next_iterations(self) -> list[Node]:
        """The nodes that carry values to the next iteration."""
        return [following for _, following in self.merges.values()]


Step = Node | Loop


def schedule(graph: Graph, needed: Iterable[Node]) -> list[Step]:
    """The needed nodes in an order that works, each loop as one step. O(nodes + edges) per level of nesting.

    Raises:
        GraphError: a loop is not built as TensorFlow builds them.
    """
    # Order of execution: each node comes behind its producers, whose frames are then known.
    members = set(needed)
    order = [n for n in execution_order(graph) if n in members]
    if not any(has(n.op, Trait.ENTER) for n in order):
        return list(order)
    # Loops are steps now, and their order among the others has to be found anew.
    return list(_sorted_units(_Frames(order).units("")[1]))


class _Frames:
    """The frame that each node runs in, and the one that each frame is in ("" is the graph itself)."""

    def __init__(self, order: Sequence[Node]) -> None:
        self.order = order
        self.frame_of: dict[Node, str] = {}
        self.parents: dict[str, str] = {}
        for node in order:
            around = self._around(node)
            if has(node.op, Trait.ENTER):
                name = str(node.get("frame_name", ""))
                # A frame's name is unique to its loop: two ways in would make one loop of two.
                if self.parents.setdefault(name, around) != around or not name:
                    raise GraphError(
                        f"the frame '{name}' is entered from two places",
                        node.where,
                        hint="the file is damaged",
                    )
                around = name
            self.frame_of[node] = around

    def _around(self, node: Node) -> str:
        """The innermost frame among what the node reads; an Exit's readers are one frame further out."""
        # A node of a loop may read constants of outer frames directly, so not every producer decides.
        innermost, depth = "", 0
        for producer in _producers(node):
            frame = self.frame_of.get(producer, "")  # what NextIteration hands back is not known yet
            if has(producer.op, Trait.EXIT) and frame:  # one that is fed is in no frame
                frame = self.parents[frame]
            if self._depth(frame) > depth:
                innermost, depth = frame, self._depth(frame)
        return innermost

    def _depth(self, frame: str) -> int:
        depth = 0
        while frame:
            frame, depth = self.parents[frame], depth + 1
        return depth

    def _child_of(self, frame: str, ancestor: str) -> str | None:
        """The frame directly inside `ancestor` that holds `frame`; None if `frame` is not inside it."""
        while frame != ancestor:
            if not frame:
                return None
            if self.parents[frame] == ancestor:
                return frame
            frame = self.parents[frame]
        return None

    def units(self, frame: str) -> tuple[dict[Node, Step], dict[Step, set[Step]]]:
        """Node -> the node or loop directly in a frame that it is part of, and step -> the steps it needs."""
        unit_of: dict[Node, Step] = {}
        members: dict[Step, list[Node]] = {}
        loops: dict[str, Loop] = {}
        carriers = self._carriers(frame)
        for node in self.order:
            home = self.frame_of[node]
            if home == frame:
                # The loop itself is the step of the outer level; what carries its variables is played by it.
                if node in carriers:
                    continue
                unit: Step = node
            else:
                child = self._child_of(home, frame)
                # The frame is around this one, or beside it.
                if child is None:
                    continue
                if child not in loops:
                    loops[child] = self._loop(child)
                unit = loops[child]
            unit_of[node] = unit
            members.setdefault(unit, []).append(node)
        # A loop's own edges are not needs of the step that it is.
        needs = {
            unit: {unit_of[p] for n in nodes for p in _producers(n) if p in unit_of} - {unit}
            for unit, nodes in members.items()
        }
        return unit_of, needs

    def _carriers(self, frame: str) -> set[Node]:
        """Nodes that the loop step itself plays: entering, joining, carrying over, leaving."""
        if not frame:
            return set()
        own = [n for n in self.order if self.frame_of[n] == frame]
        return {n for n in own if has(n.op, _STEERS) or _is_loop_variable(n)}

    def _loop(self, name: str) -> Loop:
        own = [n for n in self.order if self.frame_of[n] == name]
        condition = next((n for n in own if n.op == "LoopCond"), None)
        if condition is None:
            raise GraphError(
                f"the loop '{name}' has no LoopCond", hint="it was cut; keep the whole loop or none of it"
            )
        loop = Loop(name, condition)
        loop.enters = [n for n in own if has(n.op, Trait.ENTER)]
        loop.exits = [n for n in own if has(n.op, Trait.EXIT)]
        for node in own:
            if _is_loop_variable(node):
                # The Merge of a loop variable reads exactly these two; any other Merge joins branches.
                enter = next((v.node for v in node.inputs if has(v.node.op, Trait.ENTER)), None)
                following = next(v.node for v in node.inputs if v.node.op in NEXT_ITERATIONS)
                if enter is None:
                    raise GraphError("the loop variable has no Enter", node.where, hint="the file is damaged")
                loop.merges[node] = (enter, following)
        unit_of, needs = self.units(name)
        steps = list(_sorted_units(needs))
        # The last test of the condition has no iteration of the body behind it, so the two are kept apart.
        head = _closure([condition], needs)
        ending = _closure([unit_of[v.node] for n in loop.exits for v in n.inputs if v.node in unit_of], needs)
        loop.head = [s for s in steps if s in head]
        loop.body = [s for s in steps if s not in head]
        # What the Exits need of the head has run by the time the condition is false.
        loop.ending = [s for s in loop.body if s in ending]
        frames = ((n, self.frame_of[n]) for n in self.order)
        inside = dict.fromkeys(n for n, frame in frames if frame == name or self._child_of(frame, name))
        # What Enters read belongs to the outside: they are how it legally gets in.
        read = (v for n in inside if n not in loop.enters for v in n.inputs)
        loop.free = list(dict.fromkeys(v for v in read if v.node not in inside))
        return loop


def _is_loop_variable(node: Node) -> bool:
    return node.op in MERGES and any(v.node.op in NEXT_ITERATIONS for v in node.inputs)


def _producers(node: Node) -> list[Node]:
    return [v.node for v in node.inputs] + list(node.control_inputs)


def _closure(steps: Iterable[Step], needs: Mapping[Step, set[Step]]) -> set[Step]:
    """The steps and all they need, directly or not."""
    closure: set[Step] = set()
    stack = list(steps)
    while stack:
        step = stack.pop()
        if step not in closure:
            closure.add(step)
            stack.extend(needs[step])
    return closure


def _sorted_units(needs: Mapping[Step, set[Step]]) -> Iterator[Step]:
    waiting = {unit: len(sources) for unit, sources in needs.items()}
    readers: dict[Step, list[Step]] = {}
    for unit, sources in needs.items():
        for source in sources:
            readers.setdefault(source, []).append(unit)
    # A stack, reversed so that steps that are ready alike come in the order of the graph.
    ready = [unit for unit, count in waiting.items() if count == 0][::-1]
    done = 0
    while ready:
        unit = ready.pop()
        done += 1
        yield unit
        for reader in readers.get(unit, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if done != len(needs):
        raise GraphError("two loops need each other's results", hint="the file is damaged")
