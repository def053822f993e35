"""Fake quantization: hoisted, freed from its moving averages, turned into eight-bit ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8
from thinflow.ops.fake_quant import nudged_range
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, const, constant_tensor, many, node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.quantized.ops import TO_EIGHT_BITS
from thinflow.transforms.quantized.values import MIN_FIRST, constant, has_loops, ports
from thinflow.transforms.shared.constants import is_finite, stored_once

Bounds = tuple[float, float]


def _bounds(fake: Node) -> Bounds | None:
    """The range of a fake quantization, if it is constant."""
    ends = [constant_tensor(v) for v in fake.inputs[1:]]
    numbers = [float(t.numpy().reshape(())) for t in ends if t is not None and t.size == 1]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _chain(fake: Node, bounds: Bounds) -> list[Node]:
    """The nodes to move in front of, nearest first."""
    chain: list[Node] = []
    reader, value = fake, fake.inputs[0]
    # A node that others read as well would give them quantized values.
    while _is_only_for(reader, value) and _commutes(value.node, bounds):
        chain.append(value.node)
        reader, value = value.node, value.node.inputs[0]
    return chain


def _in_place(fake: Node) -> str | None:
    """The reason to leave it: nothing stands between it and the op that it was trained for."""
    bounds = _bounds(fake)
    moves = bounds is None or fake.control_inputs or _chain(fake, bounds)
    return None if moves else "it stands where it belongs"


def _is_only_for(reader: Node, value: Value) -> bool:
    """True if nobody but `reader` sees a value, and only once."""
    uses = value.uses
    return value.port == 0 and len(uses) == 1 and uses[0].node is reader and not value.node.is_protected


def _commutes(node: Node, bounds: Bounds) -> bool:
    """True if an op gives the same after fake quantization with this range as before it."""
    if not node.inputs or node.get("T") is None or not node.get("T").is_floating:
        return False
    low, high = bounds
    # Order is kept by rounding to levels, so the largest stays the largest.
    if node.op in {"MaxPool", "Transpose"} or has(node.op, Trait.IDENTITY | Trait.RESHAPE):
        return True
    if node.op == "Relu":
        # What Relu cuts off is below the range, and cut off by it already.
        return low >= 0
    if node.op == "Relu6":
        return low >= 0 and high <= 6
    # A padded zero is a level, and so the same before and after.
    return has(node.op, Trait.PAD) and low <= 0 <= high and _pads_zeros(node)


def _pads_zeros(node: Node) -> bool:
    if node.op == "Pad":
        return True
    value = constant_tensor(node.inputs[2]) if len(node.inputs) == 3 else None
    return value is not None and not np.any(value.numpy())


@transform("hoist_fake_quants")
@dataclass(frozen=True)
class HoistFakeQuants(Rewrite):
    """Move fake quantization in front of ops that hand the range of their input on.

    fake_quant(relu(max_pool(x)))  ->  relu(max_pool(fake_quant(x)))

    There it meets the op whose result it was trained for. Zero is always one of the levels, and they are in
    order; so ops that only move, choose or clamp numbers may come before or after.
    """

    tolerance = 1e-6
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node(
        "FakeQuantWithMinMaxVars",
        *(any_value("x"), any_value("low"), any_value("high")),
        name="fake",
        where=_in_place,
    )

    def check(self, m: Match) -> None:
        bounds = _bounds(m.fake)
        if bounds is None:
            raise Refuse("its range is not constant")
        if m.fake.control_inputs:
            raise Refuse("it waits for other nodes")
        m.bind("chain", _chain(m.fake, bounds))

    def describe(self, m: Match) -> str:
        return f"moved in front of '{m.chain[-1].name}'"

    def build(self, m: Match, site: Site) -> Value:
        fake: Node = m.fake
        nearest: Node = m.chain[0]
        last: Node = m.chain[-1]
        x, name = last.inputs[0], f"{fake.name}_hoisted"
        before_last = Site(site.graph, last, self.name)
        moved = before_last.add(fake.op, x, m.low, m.high, name=name, attrs=fake.attrs, device=fake.device)
        # So that ops behind it still know shape and type.
        moved.spec = x.spec
        last.set_input(0, moved)
        site.made.add(nearest)  # it takes the place and the name of what stood behind it
        return nearest.output()


@transform("remove_ema")
@dataclass(frozen=True)
class RemoveEma(Rewrite):
    """Take the moving averages out of fake quantization: the last range measured in training becomes the
    range.

    fake_quant(x, assign(lo, ...), assign(hi, ...))  ->  fake_quant(x, lo, hi)
    """

    exact = False  # the graph before updates its range with every run

    pattern: ClassVar = node(
        "FakeQuantWithMinMaxVars",
        any_value("x"),
        node("Assign", const("low"), any_value(), boundary=True),
        node("Assign", const("high"), any_value(), boundary=True),
        name="quantize",
    )

    def build(self, m: Match, site: Site) -> Value:
        return site.add(m.quantize.op, m.x, m.low, m.high, attrs=m.quantize.attrs)

    def describe(self, m: Match) -> str:
        return f"its range is '{m.low.name}' to '{m.high.name}'"


@dataclass(frozen=True)
class Levels:
    """The levels of eight-bit fake quantization.

    Attributes:
        low, high: what 0 and 255 stand for; zero is on a level.
        scale: the distance of two levels.
        written: the range as the node has it.
    """

    low: np.float32
    high: np.float32
    scale: np.float32
    written: Bounds


def levels_of(node: Node, constant_input: bool) -> Levels:
    """The levels of a fake quantization.

    Raises:
        Refuse: eight-bit ops cannot do it.
    """
    low, high = _written(node)
    bits, narrow = node.get("num_bits", 8), bool(node.get("narrow_range", False))
    if bits != 8:
        raise Refuse(f"it has {bits} bits, not 8")
    if narrow and not constant_input:
        raise Refuse("its narrow_range leaves a value out, which eight-bit ops do not")
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise Refuse(f"{low:g} to {high:g} is no range")
    floor, _, scale = (np.float32(x) for x in nudged_range(low, high, bits, narrow))
    # A smaller scale would be lost in the kernels' divisions by it; float32 ends at 1e-38.
    if not scale * np.float32(255) > 1e-30:
        raise Refuse(f"a range of width {high - low:.3g} cannot be divided into 255 steps")
    # The range is moved until 0 is a level, as in training. The ends are computed back from that level, since
    # eight-bit kernels take ends, not a scale and a zero point.
    zero_point = np.rint((1 if narrow else 0) - floor / scale)
    ends = np.float32(-zero_point * scale), np.float32((255 - zero_point) * scale)
    return Levels(*ends, scale, (low, high))


def _written(node: Node) -> Bounds:
    """The range as the node has it.

    Raises:
        Refuse: it is not one constant range.
    """
    if node.op == "FakeQuantWithMinMaxArgs":
        # The attributes are float32, whatever Python's double says.
        return float(np.float32(node.get("min", -6.0))), float(np.float32(node.get("max", 6.0)))
    if node.op == "FakeQuantWithMinMaxVarsPerChannel":
        raise Refuse("it has a range for each channel, eight-bit ops have one")
    bounds = _bounds(node)
    if bounds is None:
        raise Refuse("its range is not constant")
    return bounds


@transform("convert_fake_quants")
@dataclass(frozen=True)
class ConvertFakeQuants(Rewrite):
    """Replace fake quantization by real eight-bit ops, at the ranges that training gave it.

    fake_quant(x, lo, hi)  ->  Dequantize(Requantize(QuantizeV2(x, lo, hi), lo, hi))    through 32 bits
    fake_quant(w, lo, hi)  ->  Dequantize(q, lo, hi)                                    for constants w
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node(Trait.FAKE_QUANT, any_value("x"), many("ends"), name="fake")

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {"in_loops": has_loops(graph)}

    def check(self, m: Match) -> None:
        weights = constant_tensor(m.x)
        m.bind("levels", levels_of(m.fake, weights is not None))
        if m.fake.output().is_graph_input:
            raise Refuse("it is an input of the graph")
        if weights is not None and not is_finite(weights.numpy()):
            raise Refuse("it reads values that are not finite")

    def describe(self, m: Match) -> str:
        return f"quantizes to {m.levels.low:.6g} to {m.levels.high:.6g}"

    def build(self, m: Match, site: Site) -> Value:
        weights = constant_tensor(m.x)
        if weights is not None:
            result = _stored(m.fake, weights, m.levels, site)
        else:
            result = _computed(m.fake, m.levels, site, m.in_loops)
        name = f"{m.fake.name}_eightbit/dequantize"
        return site.add("Dequantize", *result, name=name, attrs=MIN_FIRST, device=m.fake.device)


def _computed(node: Node, levels: Levels, site: Site, in_loops: bool) -> tuple[Value, Value, Value]:
    base = f"{node.name}_eightbit"
    # In a loop a constant has to wait for something inside, to be there in every iteration.
    near = (node.inputs[0].node,) if in_loops else ()
    ends = zip(("min", "max"), (levels.low, levels.high), levels.written, (1, 2), strict=True)
    low, high = (
        node.inputs[i]
        # Ends that training had on levels already stay the nodes that they are.
        if moved == np.float32(end) and len(node.inputs) == 3
        else constant(site, np.asarray(moved, np.float32), f"{base}/{which}", near)
        for which, moved, end, i in ends
    )
    attrs = {**MIN_FIRST, "T": QINT32}
    wide = site.add("QuantizeV2", node.inputs[0], low, high, name=f"{base}/quantize", attrs=attrs)
    # The first node of the chain waits for what the old one waited for.
    for awaited in node.control_inputs:
        wide.node.add_control_input(awaited)
        node.remove_control_input(awaited)
    inputs = (*ports(wide.node), low, high)
    narrow = site.add("Requantize", *inputs, name=f"{base}/requantize", attrs=TO_EIGHT_BITS)
    for value in (wide, narrow):
        value.node.device = node.device
    return ports(narrow.node)


def _stored(node: Node, weights: Tensor, levels: Levels, site: Site) -> tuple[Value, Value, Value]:
    """A constant quantized to the levels that training gave it."""
    base = f"{node.name}_eightbit"
    values = np.asarray(weights.numpy(), np.float32)
    zero_point = np.rint(-levels.low / levels.scale)
    lowest = 1 if node.get("narrow_range", False) else 0
    # As training's kernel rounds: floor(x / scale + 0.5). With narrow_range 0 is not used.
    quantized = np.floor(values / levels.scale + np.float32(0.5)) + zero_point
    quantized = np.clip(quantized, lowest, 255).astype(np.uint8)
    # The quantized values are there when both the constant and the node were.
    near = [*node.inputs[0].node.control_inputs, *node.control_inputs]
    return (
        constant(site, stored_once(Tensor.from_array(quantized, QUINT8)), f"{base}/quantize", near),
        constant(site, np.asarray(levels.low, np.float32), f"{base}/min", near),
        constant(site, np.asarray(levels.high, np.float32), f"{base}/max", near),
    )


@transform("fake_quantize_training")
@dataclass(frozen=True)
class FakeQuantizeTraining(Transform):
    """Not offered: the Graph Transform Tool once prepared training graphs for quantization here."""

    def __post_init__(self) -> None:
        raise ParameterError(
            "fake quantization has to be in the graph while it is trained, and thinflow gets it afterwards",
            hint="use quantization-aware training of the training framework, or quantize_weights here",
        )

    def apply(self, graph: Graph, trace: Trace) -> None:
        raise AssertionError("it cannot be made")
