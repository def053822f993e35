"""Let trained ranges quantize: fake quantization becomes real one.

fake_quant(x, lo, hi)  ->  Dequantize(Requantize(QuantizeV2(x, lo, hi), lo, hi))    through 32 bits
fake_quant(w, lo, hi)  ->  Dequantize(codes, lo, hi)                                for constants w
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8
from thinflow.ops.fake_quant import nudged_range
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, many, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.quantized.ops import TO_EIGHT_BITS
from thinflow.transforms.quantized.values import MIN_FIRST, constant, has_loops, ports
from thinflow.transforms.shared.constants import const_tensor, is_finite, stored_once


@dataclass(frozen=True)
class Levels:
    """The levels of eight-bit fake quantization.

    Attributes:
        low, high: what codes 0 and 255 stand for; zero is on a level.
        step: distance of two levels.
        given: the range as written.
    """

    low: np.float32
    high: np.float32
    step: np.float32
    given: tuple[float, float]


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
        raise Refuse("its narrow_range leaves a code out, which eight-bit ops do not")
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise Refuse(f"{low:g} to {high:g} is no range")
    floor, _, step = (np.float32(x) for x in nudged_range(low, high, bits, narrow))
    # A smaller step would be lost in the kernels' divisions by it; float32 ends at 1e-38.
    if not step * np.float32(255) > 1e-30:
        raise Refuse(f"a range of width {high - low:.3g} cannot be divided into 255 steps")
    # The range is moved until 0 is a level, as in training. The ends are computed back from that level, since
    # eight-bit kernels take ends, not a step and a zero point.
    zero = np.rint((1 if narrow else 0) - floor / step)
    return Levels(np.float32(-zero * step), np.float32((255 - zero) * step), step, (low, high))


def _written(node: Node) -> tuple[float, float]:
    if node.op == "FakeQuantWithMinMaxArgs":
        # The attributes are float32, whatever Python's double says.
        return float(np.float32(node.get("min", -6.0))), float(np.float32(node.get("max", 6.0)))
    if node.op == "FakeQuantWithMinMaxVarsPerChannel":
        raise Refuse("it has a range for each channel, eight-bit ops have one")
    ends = [const_tensor(v) for v in node.inputs[1:]]
    numbers = [float(t.numpy().reshape(())) for t in ends if t is not None and t.size == 1]
    if len(numbers) != 2:
        raise Refuse("its range is not constant")
    return numbers[0], numbers[1]


@transform("convert_fake_quants")
@dataclass(frozen=True)
class ConvertFakeQuants(Rewrite):
    """Turn FakeQuantWithMinMaxVars and ...Args of eight bits into QuantizeV2 and Requantize. A step of
    quantize_nodes.
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node(Trait.FAKE_QUANT, any_value("x"), many("ends"), name="fake")

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {"in_loops": has_loops(graph)}

    def check(self, m: Match) -> None:
        weights = const_tensor(m.x)
        m.bind("levels", levels_of(m.fake, weights is not None))
        if m.fake.output().is_graph_input:
            raise Refuse("it is an input of the graph")
        if weights is not None and not is_finite(weights.numpy()):
            raise Refuse("it reads values that are not finite")

    def describe(self, m: Match) -> str:
        return f"quantizes to {m.levels.low:.6g} to {m.levels.high:.6g}"

    def build(self, m: Match, site: Site) -> Value:
        weights = const_tensor(m.x)
        if weights is not None:
            result = _stored(m.fake, weights, m.levels, site)
        else:
            result = _computed(m.fake, m.levels, site, m.in_loops)
        name = f"{m.fake.name}_eightbit/dequantize"
        return site.add("Dequantize", *result, name=name, attrs=MIN_FIRST, device=m.fake.device)


def _computed(node: Node, levels: Levels, site: Site, in_loops: bool) -> tuple[Value, Value, Value]:
    base = f"{node.name}_eightbit"
    # In a loop a constant has to wait for something inside, to be there in every turn.
    near = (node.inputs[0].node,) if in_loops else ()
    ends = zip(("min", "max"), (levels.low, levels.high), levels.given, (1, 2), strict=True)
    low, high = (
        node.inputs[i]
        # Ends that training had on levels already stay the nodes that they are.
        if moved == np.float32(given) and len(node.inputs) == 3
        else constant(site, np.asarray(moved, np.float32), f"{base}/{which}", near)
        for which, moved, given, i in ends
    )
    attrs = {**MIN_FIRST, "T": QINT32}
    wide = site.add("QuantizeV2", node.inputs[0], low, high, name=f"{base}/quantize", attrs=attrs)
    # The first node of the chain waits for what the old one waited for.
    for awaited in node.control_inputs:
        wide.node.add_control_input(awaited)
        node.remove_control_input(awaited)
    inputs = (*ports(wide.node), low, high)
    narrow = site.add("Requantize", *inputs, name=f"{base}/requantize", attrs=TO_EIGHT_BITS)
    for made in (wide, narrow):
        made.node.device = node.device
    return ports(narrow.node)


def _stored(node: Node, weights: Tensor, levels: Levels, site: Site) -> tuple[Value, Value, Value]:
    """A constant's codes at the levels that training gave it."""
    base = f"{node.name}_eightbit"
    values = np.asarray(weights.numpy(), np.float32)
    zero = np.rint(-levels.low / levels.step)
    lowest = 1 if node.get("narrow_range", False) else 0
    # As training's kernel rounds: floor(x / step + 0.5). With narrow_range code 0 is not used.
    codes = np.clip(np.floor(values / levels.step + np.float32(0.5)) + zero, lowest, 255).astype(np.uint8)
    # The codes are there when both the constant and the node were.
    near = [*node.inputs[0].node.control_inputs, *node.control_inputs]
    return (
        constant(site, stored_once(Tensor.from_array(codes, QUINT8)), f"{base}/quantize", near),
        constant(site, np.asarray(levels.low, np.float32), f"{base}/min", near),
        constant(site, np.asarray(levels.high, np.float32), f"{base}/max", near),
    )
