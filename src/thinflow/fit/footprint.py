"""What a network in C takes: flash, memory, stack and instructions, as a whole and layer by layer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from thinflow.fit.cross import Compiled, compiled
from thinflow.fit.instructions import KERNELS_OF, Costs, estimated
from thinflow.fit.work import work_of
from thinflow.ir.brief import brief_repr
from thinflow.lower.c.convert import Network
from thinflow.lower.c.layer import Layer
from thinflow.lower.c.plan import Buffer
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Tensor

_DEFAULT_CODE, _DEFAULT_CALL, _DEFAULT_STACK = 900, 120, 400
"""Bytes of a kernel, of a call and of stack where nothing was measured: the middle of those that were."""


@brief_repr
@dataclass(frozen=True)
class LayerFit:
    """A layer.

    Attributes:
        name: of what it computes, as the model says.
        operator: LiteRT's name of it.
        shape: of its output.
        macs: products that are summed.
        weights_bytes: of its constants.
        ram_bytes: that are alive while it runs, those of the caller included.
        instructions: estimated; None on a processor of which none were counted.
        is_counted: whether its kernels were counted, and not taken for others of their kind.
    """

    name: str
    operator: str
    shape: tuple[int, ...]
    macs: int
    weights_bytes: int
    ram_bytes: int
    instructions: float | None
    is_counted: bool


@brief_repr
@dataclass(frozen=True)
class Footprint:
    """A network.

    Attributes:
        flash_bytes: code and constants.
        weights_bytes: of the constants.
        ram_bytes: arena, inputs, outputs and state; without the stack.
        arena_bytes: of it, the arena.
        stack_bytes: of a run.
        is_compiled: whether flash and stack are the compiler's, and not estimated.
        layers: in the order they run.
    """

    flash_bytes: int
    weights_bytes: int
    ram_bytes: int
    arena_bytes: int
    stack_bytes: int
    is_compiled: bool
    layers: tuple[LayerFit, ...]

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def instructions(self) -> float | None:
        """Of a run; None on a processor of which none were counted."""
        found = [layer.instructions for layer in self.layers]
        return None if None in found else sum(i for i in found if i is not None)

    @property
    def peak(self) -> LayerFit | None:
        """The layer that takes most memory."""
        return max(self.layers, key=lambda layer: layer.ram_bytes, default=None)


def stack_bytes(cpu: str) -> int:
    """The stack that a network takes on a processor, as the deepest of those that were measured."""
    costs = Costs.of(cpu) or Costs.of("cortex-m4")
    return _DEFAULT_STACK if costs is None else costs.stack_bytes


def footprint(network: Network, *, compile: bool = True) -> Footprint:
    """What a network takes on its processor.

    Args:
        network: see there.
        compile: whether to ask the processor's compiler, where it is here.
    """
    cpu = network.options.cpu
    found = compiled(Writer(network, "network").files(values=False), "network", cpu) if compile else None
    size = found or _estimated(network, cpu)
    return Footprint(
        size.flash_bytes,
        network.weights_bytes,
        network.ram_bytes,
        network.plan.arena_bytes,
        size.stack_bytes,
        found is not None,
        tuple(_layers(network)),
    )


def _estimated(network: Network, cpu: str) -> Compiled:
    """Flash and stack by what kernels took in other networks."""
    costs = Costs.of(cpu) or Costs.of("cortex-m4")
    code = {} if costs is None else costs.code_bytes
    kernels = {work_of(layer).kernels for layer in network.layers if layer.calls}
    calls = sum(len(layer.calls) for layer in network.layers)
    size = sum(code.get(name, _DEFAULT_CODE) for name in kernels)
    size += calls * (_DEFAULT_CALL if costs is None else costs.call_bytes)
    return Compiled(network.weights_bytes + size, stack_bytes(cpu))


def _layers(network: Network) -> Iterator[LayerFit]:
    """The layers; of one that runs on some rows at a time all parts together."""
    parts: dict[Operator, list[LayerFit]] = {}
    for number, layer in enumerate(network.layers):
        # Braces around layers take nothing themselves.
        if layer.calls or not layer.brace:
            parts.setdefault(layer.whole, []).append(_layer(network, number, layer))
    for found in parts.values():
        counts = [one.instructions for one in found]
        # Parts read the same constants, and run one after the other: the most of memory, the sum of work.
        yield replace(
            found[0],
            macs=sum(one.macs for one in found),
            weights_bytes=max(one.weights_bytes for one in found),
            ram_bytes=max(one.ram_bytes for one in found),
            instructions=None if None in counts else sum(n for n in counts if n is not None),
            is_counted=all(one.is_counted for one in found),
        )


def _layer(network: Network, number: int, layer: Layer) -> LayerFit:
    operator = layer.whole
    y = next(iter((*operator.outputs, *operator.reads())))
    cpu = network.options.cpu
    cost = estimated(work_of(layer), cpu)
    arrays = [a for a in layer.arguments() if isinstance(a, Tensor) and a.is_constant]
    weights = sum(c.data.nbytes for c in layer.constants()) + sum(t.size_bytes or 0 for t in arrays)
    # By identity: values that lie on one another share a buffer, which counts once.
    buffers = {id(b): b for b in network.plan.buffers.values() if _is_alive(b, number)}
    alive = sum(b.size_bytes for b in buffers.values()) + sum(s.size_bytes for s in layer.scratches())
    return LayerFit(
        _short(y.name),
        operator.code if operator.code != "CUSTOM" else operator.custom_code,
        tuple(n or 1 for n in y.shape or ()),
        layer.macs * layer.count,
        weights,
        alive + network.state_bytes,
        cost.instructions * layer.count if cpu in KERNELS_OF else None,
        cost.is_counted,
    )


def _is_alive(buffer: Buffer, number: int) -> bool:
    """Whether memory is in use while a layer runs; constants lie in flash."""
    if buffer.owner is not None and buffer.owner.is_constant:
        return False
    return buffer.owner is not None or buffer.span.start <= number <= buffer.span.end


def _short(name: str) -> str:
    """The name of a value without what converters put around it."""
    return re.sub(r"^(model|sequential|functional)(_\d+)?/", "", name.split(";")[0]).removesuffix(":0")
