"""Where the values of a network lie: with the caller, among the constants, or at a place in the arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.lower.c.banded import View
from thinflow.lower.c.layer import Call, Layer, Scratch, Verbatim
from thinflow.program.arena import place
from thinflow.program.model import Span
from thinflow.tflite.model import Operator, Subgraph, Tensor

ALIGNMENT = 8
"""Bytes: the largest type that is read from the arena. Places are multiples of it."""
_TRIES = 40
"""Orders of placing; the first is the best for most networks."""


@dataclass(eq=False)
class Buffer:
    """Memory of one or more tensors, one after the other, or the same in other sizes.

    Attributes:
        size_bytes: of the largest.
        span: from the first that is written to the last that is read.
        owner: the input, output or constant of the network whose memory it is; None for the arena.
        offset: in the arena.
    """

    size_bytes: int
    span: Span
    owner: Tensor | None = None
    offset: int = -1

    def join(self, other: Buffer) -> None:
        """Take in another one, which must not be used any more."""
        self.size_bytes = max(self.size_bytes, other.size_bytes)
        self.span = Span(min(self.span.start, other.span.start), max(self.span.end, other.span.end))
        self.owner = self.owner or other.owner


@dataclass
class Plan:
    """Places of everything.

    Attributes:
        buffers: of each tensor; of a view that of its base.
        views: tensors that are parts of others.
        scratches: offsets in the arena.
        arena_bytes: its size.
    """

    buffers: dict[Tensor, Buffer]
    views: Mapping[Tensor, View] = field(default_factory=dict)
    scratches: dict[Scratch, int] = field(default_factory=dict)
    arena_bytes: int = 0


def plan(
    block: Subgraph,
    layers: Sequence[Layer],
    views: Mapping[Tensor, View] | None = None,
    *,
    keep_all: bool = False,
) -> Plan:
    """Places for the values of a block; a layer whose output should be its input but cannot gets a copy.

    Args:
        block: all sizes known.
        layers: of its operators, in order.
        views: tensors that are parts of others.
        keep_all: whether everything computed is to be there after a run.
    """
    planned = shared(block, layers, views or {}, keep_all=keep_all)
    inside = list({id(b): b for b in planned.buffers.values() if b.owner is None}.values())
    scratches = [(s, number) for number, layer in enumerate(layers) for s in layer.scratches()]
    sized = [(_rounded(b.size_bytes), b.span) for b in inside]
    # Scratch memory is needed by its layer alone, and lies where others have theirs before and after.
    sized += [(_rounded(s.size_bytes), Span(number, number)) for s, number in scratches]
    offsets, planned.arena_bytes = place(sized, _TRIES)
    for buffer, offset in zip(inside, offsets, strict=False):
        buffer.offset = offset
    planned.scratches = {s: at for (s, _), at in zip(scratches, offsets[len(inside) :], strict=True)}
    return planned


def shared(
    block: Subgraph, layers: Sequence[Layer], views: Mapping[Tensor, View], *, keep_all: bool = False
) -> Plan:
    """What shares memory with what, yet without places."""
    buffers = _separate(block, views)
    # Nothing ends before the run does, so that nothing is written over.
    if keep_all:
        for buffer in buffers.values():
            buffer.span = Span(-1, len(layers))
    for number, layer in enumerate(layers):
        if layer.same is not None:
            _alias(buffers, layer, block)
        elif layer.in_place is not None and not keep_all:
            _overlay(buffers, layer, number, views)
    # Tensors that share memory have one buffer between them.
    return Plan(buffers, views)


def alive_bytes(planned: Plan, layers: Sequence[Layer]) -> list[int]:
    """Bytes of the arena that are in use while each layer runs."""
    found = [sum(_rounded(s.size_bytes) for s in layer.scratches()) for layer in layers]
    for buffer in {id(b): b for b in planned.buffers.values() if b.owner is None}.values():
        for number in range(max(buffer.span.start, 0), min(buffer.span.end + 1, len(layers))):
            found[number] += _rounded(buffer.size_bytes)
    return found


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _separate(block: Subgraph, views: Mapping[Tensor, View]) -> dict[Tensor, Buffer]:
    """Memory for each tensor by itself, views aside; those of the interface are the caller's."""
    spans = block.lifetimes()
    # A part is touched where the whole is, and nobody needs to have written either by its own name.
    parted = {*views, *(view.base for view in views.values())}
    for number, operator in enumerate(block.operators):
        for tensor in parted.intersection(operator.touched()):
            known = spans.get(tensor, Span(number, number))
            spans[tensor] = Span(min(known.start, number), max(known.end, number))
    outside = {*block.inputs, *block.outputs, *block.constants()}
    found: dict[Tensor, Buffer] = {}
    for tensor in block.tensors():
        if tensor.is_variable:
            continue  # layers keep their states themselves
        base = views[tensor].base if tensor in views else tensor
        span = spans.get(tensor, Span(-1, -1))
        own = Buffer(base.size_bytes or 0, span, base if base in outside else None)
        if base in found:
            found[base].join(own)
        else:
            found[base] = own
        found[tensor] = found[base]
    return found


def _alias(buffers: dict[Tensor, Buffer], layer: Layer, block: Subgraph) -> None:
    """Let the output be the input, or copy it if both have memory that is not the network's to choose.

    Nor may it be what one has from the caller that the other does not fit into: what a layer made smaller in
    place lies on what was larger.
    """
    operator = layer.operator
    x, y = _input(operator, layer.same), operator.outputs[0]
    source, target = buffers[x], buffers[y]
    is_narrow = target.owner is not None and source.size_bytes > target.size_bytes
    if (source.owner is not None and target.owner is not None) or is_narrow:
        size = Verbatim(str(y.size_bytes))
        # Such a layer does nothing else; and each schedule that is tried makes a plan of the same layers.
        layer.calls = [Call("copy", {}, [y, x, size])]
        return
    # An output of the network that takes in what is computed before: its memory is used from there on.
    source.join(target)
    _replace(buffers, target, source)


def _overlay(buffers: dict[Tensor, Buffer], layer: Layer, number: int, views: Mapping[Tensor, View]) -> None:
    """Let the output lie on the input if nothing reads that afterwards."""
    x, y = _input(layer.operator, layer.in_place), layer.operator.outputs[0]
    source, target = buffers[x], buffers[y]
    # What the caller gave is not the network's to write to, and constants lie in flash.
    is_free = source.owner is None and target.owner is None and source.span.end == number
    size = y.size_bytes or 0
    if parts := [views[t] for t in (x, y) if t in views]:
        # They begin together only where both begin their bases; and rows made before are not written over.
        is_free = is_free and not any(v.offset or v.step for v in parts) and target.span.start == number
        size = target.size_bytes
    if is_free and size <= source.size_bytes:
        source.join(target)
        _replace(buffers, target, source)


def _input(operator: Operator, number: int | None) -> Tensor:
    tensor = operator.inputs[number or 0]
    assert tensor is not None
    return tensor


def _replace(buffers: dict[Tensor, Buffer], old: Buffer, new: Buffer) -> None:
    for tensor, buffer in buffers.items():
        if buffer is old:
            buffers[tensor] = new
