"""State: variables that a run changes. What a run reads back after it has written is what it wrote; what it
leaves for the next run becomes an output where state is to be kept, see `frozen`, or else is told.

    v.assign(f(x));  y = g(v)     ->     y = g(f(x))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import INT32, DType, TensorSpec
from thinflow.load.checkpoint_keys import variables
from thinflow.load.frozen import kept_note
from thinflow.load.read_ops import ORIGIN, READERS, handed_on
from thinflow.ops.traits import Trait, has

_WRITES = re.compile(
    r"(Resource)?(Assign|Apply|SparseApply|StridedSliceAssign)|(Resource)?Scatter(?!NdNonAliasing|Nd$)"
    r"|(Resource)?CountUpTo|Save|Restore"
)
"""Ops that change variables or files: families that optimizers of their own join, so names tell them."""

_MADE: Mapping[str, str] = {
    "AssignAdd": "AddV2",
    "AssignAddVariableOp": "AddV2",
    "AssignSub": "Sub",
    "AssignSubVariableOp": "Sub",
    "ResourceScatterUpdate": "TensorScatterUpdate",
    "ResourceScatterAdd": "TensorScatterAdd",
    "ResourceScatterSub": "TensorScatterSub",
    "ResourceScatterNdUpdate": "TensorScatterUpdate",
    "ResourceScatterNdAdd": "TensorScatterAdd",
    "ResourceScatterNdSub": "TensorScatterSub",
    "ResourceStridedSliceAssign": "TensorStridedSliceUpdate",
}
"""Write op -> op that computes the new value from the one before and the other inputs."""
_PLACE_ATTRS = frozenset({
    "Tindices", "Index", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask",
})  # fmt: skip
_SCATTER = "ResourceScatter"
_CONTROL = Trait.ENTER | Trait.SWITCH | Trait.MERGE | Trait.EXIT | Trait.NEXT_ITERATION
_HINT = "make the state an input and an output of the model, or choose outputs that do not change variables"


def is_write(node: Node) -> bool:
    """True if a node changes a variable or a file."""
    return _WRITES.match(node.op) is not None


@dataclass
class _Uses:
    """Uses of a variable. A place is a node and the input that gets the variable.

    Attributes:
        writes: nodes that change it.
        reads: places that use its value.
        conditional: writes in loops and branches, which may happen any number of times.
    """

    writes: list[Node] = field(default_factory=list)
    reads: list[tuple[Node, int]] = field(default_factory=list)
    conditional: set[Node] = field(default_factory=set)


def _uses(variable: Node) -> _Uses:
    uses = _Uses()
    # The handle (or reference) is followed to all that get it; loops and branches on
    # the way make a write conditional.
    pending, seen = [(variable.output(), False)], {variable.output()}
    while pending:
        value, controlled = pending.pop()
        for use in value.uses:
            node = use.node
            if is_write(node):
                uses.writes.append(node)
                if controlled:
                    uses.conditional.add(node)
                continue
            # An Identity of a variable of old reads it.
            is_read = (
                variable.op != "VarHandleOp" and has(node.op, Trait.IDENTITY) and node.op != "RefIdentity"
            )
            handed = () if is_read else handed_on(node, use.index)
            if not handed:
                uses.reads.append((node, use.index))
                continue
            # Loops lead back.
            fresh = [v for v in handed if v not in seen]
            seen.update(fresh)
            pending += [(v, controlled or has(node.op, _CONTROL)) for v in fresh]
    return uses


def written_state(graph: Graph) -> list[str]:
    """Variables that a run of the outputs both reads and changes: what one run leaves for the next."""
    results = [v.node for v in graph.outputs]
    # Writes happen because something waits for them; what is read counts if its value arrives.
    touched, needed = ancestors(results), ancestors(results, control=False)
    return [
        variable.name
        for variable, uses in _changed(graph, touched)
        if any(node in needed for node, _ in uses.reads)
    ]


def forward_writes(graph: Graph, kept: Iterable[Node] = ()) -> dict[Node, Value]:
    """Let the outputs read what was written where they read a variable after it was written in the same run.

    Args:
        graph: edited.
        kept: variables whose last values are wanted.

    Returns:
        Of each kept variable that is changed, what a run leaves in it.

    Raises:
        UnsupportedOp: that is not known: the write is in a loop or branch, or of an unusual kind, or several
            are in no order.
    """
    touched = ancestors(v.node for v in graph.outputs)
    wanted = set(kept)
    left: dict[Node, Value] = {}
    for variable, uses in _changed(graph, touched):
        written = _Written(graph, variable, uses)
        for node, index in uses.reads:
            if node in touched:
                written.forward(node, index)
        if variable in wanted:
            left[variable] = written.left()
    return left


def kept_variables(graph: Graph) -> list[Node]:
    """Variables that a run changes and that its outputs, or what it leaves in others of them, depend on."""
    outputs = [v.node for v in graph.outputs]
    changed = dict(_changed(graph, ancestors(outputs)))
    changing: list[Node] = []
    while True:
        # Round by round: what a variable is given may be computed from another, which then has to be kept as
        # well.
        needed = ancestors([*outputs, *(w for v in changing for w in changed[v].writes)], control=False)
        more = [
            v for v, uses in changed.items() if v not in changing and any(n in needed for n, _ in uses.reads)
        ]
        if not more:
            return [v for v in changed if v in changing]
        changing += more


def _changed(graph: Graph, touched: set[Node]) -> Iterator[tuple[Node, _Uses]]:
    # Most models are frozen without any write: then nothing is walked.
    if not any(is_write(node) for node in touched):
        return
    for variable in variables(graph):
        uses = _uses(variable)
        uses.writes = [node for node in uses.writes if node in touched]
        if uses.writes:
            yield variable, uses


class _Written:
    """The values of a variable after each write."""

    def __init__(self, graph: Graph, variable: Node, uses: _Uses) -> None:
        self.graph, self.variable, self.uses = graph, variable, uses
        self.before = {node: ancestors([node]) for node in uses.writes}
        self.values: dict[Node, Value] = {}
        shape = variable.attrs.get("shape")
        element = variable.attrs.get("dtype")
        self.spec = TensorSpec(element if isinstance(element, DType) else None, getattr(shape, "dims", None))

    def forward(self, node: Node, index: int) -> None:
        """Let a place read what the last write before it wrote; nothing happens if there is none."""
        last = self._last(node, ancestors([node]) - {node})
        if last is None:
            return
        value = self._after(last)
        # A variable of old is read by whatever takes its output, so that the input is all there is to change;
        # a handle is read by an op that has to go.
        inputs = list(node.inputs)
        inputs[index] = value
        if self.variable.op != "VarHandleOp":
            node.set_inputs(inputs)
        elif node.op in READERS and self.spec.dtype is not None:
            node.set_inputs(inputs)
            READERS[node.op](self.graph, node, self.spec)
        else:
            raise self._refusal(node, "reads")

    def left(self) -> Value:
        """The value of the variable after all writes."""
        # Of all writes the one that comes after the others; the node named is for the message only.
        last = self._last(self.uses.writes[-1], self.uses.writes)
        assert last is not None
        return self._after(last)

    def _last(self, reader: Node, before: Iterable[Node]) -> Node | None:
        """The write before a node that comes after all others before it."""
        reached = set(before)
        writes = [node for node in self.uses.writes if node in reached]
        if not writes:
            return None
        # Each write is among its own ancestors here. Of writes in no order none has all the others.
        last = [w for w in writes if all(other in self.before[w] for other in writes)]
        # Whether a write in a loop or a branch has happened is not known before the run.
        if not last or not self.uses.conditional.isdisjoint(writes):
            raise self._refusal(reader, "reads")
        return last[0]

    def _after(self, write: Node) -> Value:
        if write not in self.values:
            self.values[write] = self._computed(write)
        return self.values[write]

    def _computed(self, write: Node) -> Value:
        # Whatever was there before is gone.
        if has(write.op, Trait.ASSIGN):
            return write.inputs[1]
        op = _MADE.get(write.op)
        if op is None or self.spec.dtype is None:
            raise self._refusal(write, "changes")
        last = self._last(write, self.before[write] - {write})
        old = self._read(write) if last is None else self._after(last)
        rest = write.inputs[1:]
        if write.op.startswith(_SCATTER) and not write.op.startswith(f"{_SCATTER}Nd"):
            # These name rows by their numbers alone.
            axis = self.graph.constant(np.array(-1, np.int32), f"{write.name}/axis", before=write)
            attrs: dict[str, Attr] = {"T": write.attrs.get("Tindices", INT32), "Tdim": INT32}
            places = self.graph.add(
                "ExpandDims", [rest[0], axis], f"{write.name}/places", attrs=attrs, before=write
            )
            rest = (places.output(), *rest[1:])
        place = {k: v for k, v in write.attrs.items() if k in _PLACE_ATTRS}
        return self._add(op, [old, *rest], f"{write.name}/written", write, place)

    def _read(self, write: Node) -> Value:
        """The value that the variable has before all writes."""
        element = self.spec.dtype
        assert element is not None
        if self.variable.op != "VarHandleOp":
            return self._add("Identity", [self.variable.output()], f"{write.name}/read", write)
        fresh = self.graph.add(
            "ReadVariableOp",
            [self.variable.output()],
            f"{write.name}/read",
            attrs={"dtype": element},
            before=write,
        )
        return fresh.output()

    def _add(
        self,
        op: str,
        inputs: Sequence[Value],
        name: str,
        before: Node,
        more: Mapping[str, Attr] | None = None,
    ) -> Value:
        assert self.spec.dtype is not None
        attrs: dict[str, Attr] = {"T": self.spec.dtype, **(more or {})}
        fresh = self.graph.add(op, inputs, name, attrs=attrs, before=before)
        fresh.origin = ORIGIN
        return fresh.output()

    def _refusal(self, node: Node, does: str) -> UnsupportedOp:
        return UnsupportedOp(
            f"it {does} the variable '{self.variable.name}' after the run has changed it, in a way that a"
            " frozen graph cannot follow",
            node.where,
            _HINT,
        )


def state_note(names: Sequence[str]) -> str:
    """Note that a frozen graph had state, and what that means."""
    return (
        f"{kept_note(names)}; here every run begins with the values that were saved. For sequences in pieces,"
        " convert the model to .tflite, which keeps state, or make it inputs and outputs: --state inputs"
    )
