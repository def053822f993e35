"""Fake quantization around ops that converters make eight-bit ones of, with ranges known beforehand.

    relu(conv(x, w))  ->  fake_quant(relu(conv(x, fake_quant(w))))

A chain of convolution, bias and activation becomes one op in such a converter, so only its end gets a range.
Biases keep all their bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import FeedError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.quantized.forms import EIGHT_BIT
from thinflow.transforms.quantized.freeze_requantization_ranges import percentiles, read_lines, read_records
from thinflow.transforms.quantized.quantize_weights import is_parameter
from thinflow.transforms.quantized.values import constant, element_of, has_loops, source_without_waits
from thinflow.transforms.shared.constants import is_finite

Bounds = tuple[float, float]
# What LiteRT quantizes beyond the ops that TensorFlow itself has an eight-bit form of.
_MORE = frozenset({"BatchMatMulV2", "Conv2DBackpropInput", "DepthwiseConv2dNative", "Mean", "Pad", "Sub"})
_QUANTIZED = frozenset(EIGHT_BIT) | _MORE
_SUFFIX = "/eightbit/requant_range"


def logged_ranges(paths: Sequence[str]) -> dict[str, Bounds]:
    """Node -> the range that a log of real runs has for it, the outermost 5 percent left out.

    Raises:
        FeedError: a file cannot be read.
    """
    records: dict[str, list[Any]] = {}
    for path in paths:
        for name, record in read_records(read_lines(path)):
            # A range per channel is of no use for an activation, which gets one.
            if len(record[0]) == 1 and np.isfinite([*record[0], *record[1]]).all():
                records.setdefault(name.removesuffix(_SUFFIX), []).append(record)
    # The percentages that freeze_requantization_ranges leaves out by default.
    ranges = {name: percentiles(runs, 5.0, 5.0) for name, runs in records.items()}
    return {name: (low[0], high[0]) for name, (low, high) in ranges.items() if low[0] <= high[0]}


def sampled_ranges(graph: Graph, path: str) -> dict[str, Bounds]:
    """Node -> the range of its first output over the samples of a .npz file: input name -> samples [n, ...].

    Raises:
        FeedError: the file cannot be read, or does not hold the inputs.
    """
    samples, count = _read_samples(graph, path)
    values = [n.output() for n in graph if _is_float(n)]
    plan = Plan(graph, values, graph.inputs)
    ranges: dict[str, Bounds] = {}
    for number in range(count):
        try:
            results = plan.run({v: samples[v.name][number : number + 1] for v in graph.inputs})
        except ThinflowError as error:
            raise error.at(path) from error
        for value, array in zip(values, results, strict=True):
            # A sample with a NaN would make the range of all of them NaN.
            if array.size and np.isfinite(array).all():
                low, high = ranges.get(value.node.name, (np.inf, -np.inf))
                ranges[value.node.name] = min(low, float(array.min())), max(high, float(array.max()))
    return ranges


def _read_samples(graph: Graph, path: str) -> tuple[dict[str, Any], int]:
    """Samples by input name, and how many there are."""
    try:
        with np.load(path) as archive:
            samples = {name: archive[name] for name in archive}
    except (OSError, ValueError, BadZipFile) as error:
        hint = "numpy.savez writes such files"
        raise FeedError(f"the samples cannot be read: {error}", path, hint=hint) from error
    names = [v.name for v in graph.inputs]
    problem = next((f"there are no samples of '{name}'" for name in names if name not in samples), "")
    if not problem and len({len(samples[n]) if samples[n].ndim else -1 for n in names} - {-1}) != 1:
        problem = "the inputs differ in number of samples"
    if problem:
        raise FeedError(problem, path, hint="give each input by name, samples along the first axis")
    return samples, len(samples[names[0]])


def _is_float(node: Node) -> bool:
    if node.op in {"Placeholder", "PlaceholderWithDefault"}:
        return node.attrs.get("dtype") is FLOAT
    return node.op in _QUANTIZED and bool(node.inputs) and element_of(node, node.output()) is FLOAT


@dataclass
class FakeQuantizer:
    """Inserts fake quantization into one graph.

    Attributes:
        ranges: node name -> range of its first output.
        ignored: ops to leave alone.
    """

    graph: Graph
    trace: Trace
    ranges: Mapping[str, Bounds]
    ignored: tuple[str, ...]
    origin: str

    def run(self) -> None:
        """Quantize constants and results; record why the rest stays."""
        infer_shapes(self.graph)
        self.in_loops = has_loops(self.graph)
        for node in self.graph:
            if not _is_float(node) or node.op in self.ignored:
                continue
            try:
                self._constants(node)
                self._result(node)
            except Refuse as refusal:
                self.trace.leave(node, refusal.reason)

    def _constants(self, node: Node) -> None:
        for use in [use for v in dict.fromkeys(node.inputs) for use in v.uses if use.node is node]:
            source = source_without_waits(node.inputs[use.index])
            tensor = source.node.tensor
            if tensor is None or tensor.dtype is not FLOAT or is_parameter(use) or source.is_graph_input:
                continue
            values = tensor.numpy()
            if not values.size or not is_finite(values):
                raise Refuse(f"the constant '{source.name}' is empty or not finite")
            # Not BatchMatMul: its second operand may be an activation as well, and is quantized as one.
            is_weight = node.op == "MatMul" or has(node.op, Trait.CONVOLUTION | Trait.CONV_TRANSPOSE)
            fake = self._fake(source, (float(values.min()), float(values.max())), is_weight)
            self.trace.changed(source.node, f"'{fake.name}' quantizes it")
            # Every reader that a converter makes an eight-bit op of; others keep the exact constant.
            for reader in source.readers:
                if reader is not fake.node and reader.op in _QUANTIZED and reader.op not in self.ignored:
                    for index, value in enumerate(reader.inputs):
                        if value is source:
                            reader.set_input(index, fake)
            node.set_input(use.index, fake)

    def _result(self, node: Node) -> None:
        value = node.output()
        readers = value.readers
        if not readers and not value.is_graph_output:
            return
        if value.is_graph_output:
            raise Refuse("it is an output of the graph, which stays in float")
        # Training has put ranges there already.
        if all(has(reader.op, Trait.FAKE_QUANT) for reader in readers):
            return
        # The end of the chain that becomes one op: what comes before it never exists in eight bits.
        ends = [has(r.op, Trait.RECTIFIER) or (r.op == "BiasAdd" and r.inputs[0] is value) for r in readers]
        if len(readers) == 1 and ends[0] and not has(node.op, Trait.RECTIFIER) and node.inputs:
            return
        if node.name not in self.ranges:
            raise Refuse("its range is not known: give samples or min_max_log_file")
        others = [r for r in readers if has(r.op, Trait.FAKE_QUANT)]
        fake = self._fake(value, self.ranges[node.name], False)
        self.trace.changed(node, f"'{fake.name}' quantizes it")
        value.replace_uses(fake, keep=[fake.node, *others])

    def _fake(self, value: Value, bounds: Bounds, narrow: bool) -> Value:
        """Fake quantization of a value; nobody reads it yet."""
        # Zero has to be a level, for padding and for what Relu cuts off.
        low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
        # Weights are symmetric around zero and leave a code out, as LiteRT wants them.
        if narrow:
            low, high = -max(-low, high), max(-low, high)
        # All zeros, or next to it: any range will do that has a width.
        if high - low < 1e-30:
            high = low + 1.0
        readers = value.readers
        site = Site(self.graph, readers[0] if readers else value.node, self.origin)
        near = (value.node,) if self.in_loops else ()
        name = f"{value.node.name}/fake_quant"
        ends = [
            constant(site, np.array(end, np.float32), f"{name}/{which}", near)
            for which, end in (("min", low), ("max", high))
        ]
        attrs: dict[str, Attr] = {"num_bits": 8, "narrow_range": narrow}
        fake = site.add(
            "FakeQuantWithMinMaxVars", value, *ends, name=name, attrs=attrs, device=value.node.device
        )
        fake.spec = value.spec
        return fake
