"""Eight-bit graphs: float ops become Quantized ones, and the steps of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.attrs import attr_text
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, QINT32, QUINT8, TensorSpec
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, constant_tensor, node, output_of
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.quantized.fake_quants import ConvertFakeQuants, HoistFakeQuants
from thinflow.transforms.quantized.forms import EIGHT_BIT
from thinflow.transforms.quantized.ops import (
    Bounds,
    ClampFirst,
    OpQuantizer,
    SignBiases,
    WidenRanges,
    measuring,
)
from thinflow.transforms.quantized.qdq import FakeQuantizer, logged_ranges, sampled_ranges
from thinflow.transforms.quantized.values import (
    MIN_FIRST,
    Quantized,
    constant,
    quantized_source,
    source_without_waits,
)
from thinflow.transforms.redundant_nodes import MergeDuplicateNodes


def check_range(name: str, low: float | None, high: float | None) -> None:
    """Raise ParameterError unless both ends of a range are given and in order, or none is."""
    if (low is None) != (high is None):
        raise ParameterError(
            f"You must pass both {name}_min and {name}_max into quantize_nodes",
            hint=f"give both, such as {name}_min=-1, {name}_max=1, or leave both out",
        )
    if low is not None and high is not None and not -np.inf < low < high < np.inf:
        raise ParameterError(
            f"{name}_min is {low:g} and {name}_max {high:g}", hint="the minimum must be below the maximum"
        )


@transform("quantize_placeholders")
@dataclass(frozen=True)
class QuantizePlaceholders(Rewrite):
    """Feed a graph with eight-bit values instead of floats.

    x: float  ->  x: quint8, read through Dequantize(x, input_min, input_max)

    Attributes:
        input_min: the number that 0 stands for.
        input_max: the number that 255 stands for.
    """

    exact = False
    in_file_order = True
    outputs = 0
    until_fixpoint = False
    pattern: ClassVar = node("Placeholder|PlaceholderV2", name="x")

    input_min: float
    input_max: float

    def __post_init__(self) -> None:
        check_range("input", self.input_min, self.input_max)

    def check(self, m: Match) -> None:
        element = m.x.attrs.get("dtype")
        if element is not FLOAT:
            raise Refuse(f"it is {attr_text(element) if element is not None else 'of no type'}, not float")
        if m.x.output().is_graph_output:
            raise Refuse("it is an output of the graph, too")

    def describe(self, m: Match) -> str:
        return f"takes eight-bit values of {self.input_min:g} to {self.input_max:g}"

    def build(self, m: Match, site: Site) -> None:
        node = m.x
        following = node.output().readers
        # In file order behind the placeholder, in front of the first that reads it.
        site = Site(site.graph, following[0] if following else node, self.name)
        base = f"{node.name}_eightbit"
        low, high = (
            constant(site, np.array(end, np.float32), f"{base}/{which}")
            for which, end in (("min", self.input_min), ("max", self.input_max))
        )
        node.attrs["dtype"] = QUINT8
        value = node.output()
        # Nobody reads it: there is nothing to decode.
        if not value.uses:
            site.graph.remove(low.node, high.node)
            return
        decoded = site.add("Dequantize", value, low, high, name=f"{base}/dequantize", attrs=MIN_FIRST)
        decoded.node.device = node.device
        decoded.spec = TensorSpec(FLOAT, value.shape)
        value.replace_uses(decoded, keep=[decoded.node])
        value.spec = TensorSpec(QUINT8, value.shape)


def _changes_values(node: Node) -> str | None:
    """The reason why what is between the two does not hand quantized values on as they are."""
    if node.op == "Requantize":
        return None if node.get("out_type") is QUINT8 else "it does not make quint8"
    plain = node.get("T") is QINT32 and node.get("mode") == "MIN_FIRST"
    return None if plain and quantized_source(node.inputs[0]) is not None else "it quantizes in another way"


@transform("merge_adjacent_requantizes")
@dataclass(frozen=True)
class MergeAdjacentRequantizes(Rewrite):
    """Bring a 32-bit result to its trained range at once, instead of to a measured range first.

    Requantize(QuantizeV2(Dequantize(Requantize(x, range(x))), lo, hi), lo, hi)  ->  Requantize(x, lo, hi)

    Attributes:
        fallback_min: with fallback_max, a constant range to skip like a measured one.
        fallback_max: see fallback_min.
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    outputs = 0
    pattern: ClassVar = node(
        "Requantize",
        node(
            "QuantizeV2",
            node(
                # Nodes in between may have other readers: they stay, and go if nobody reads them.
                "Dequantize",
                node("Requantize", name="first", boundary=True, through=(), where=_changes_values),
                *(output_of("first", 1), output_of("first", 2)),
                boundary=True,
            ),
            *(any_value(), any_value()),
            name="quantize",
            boundary=True,
            through=(),
            where=_changes_values,
        ),
        *(output_of("quantize", 1), output_of("quantize", 2)),
        *(any_value("low"), any_value("high")),
        name="requantize",
    )

    fallback_min: float | None = None
    fallback_max: float | None = None

    def check(self, m: Match) -> None:
        low, high = _scalar(m.low), _scalar(m.high)
        if measuring(m.first) is None and not self._is_fallback(m.first):
            raise Refuse(f"'{m.first.name}' has a range of its own")
        if low is None or high is None:
            raise Refuse("its range is not constant")
        # Two roundings to one grid are one; to different grids they are not.
        if [_scalar(v) for v in m.quantize.inputs[1:]] != [low, high]:
            raise Refuse(f"'{m.quantize.name}' has another range")
        if m.quantize.control_inputs or m.quantize.is_protected:
            raise Refuse(f"'{m.quantize.name}' is needed for itself")

    def describe(self, m: Match) -> str:
        return f"reads '{m.first.inputs[0].name}' directly"

    def build(self, m: Match, site: Site) -> None:
        m.requantize.set_inputs([*m.first.inputs[:3], m.low, m.high])

    def _is_fallback(self, node: Node) -> bool:
        ends = [_scalar(v) for v in node.inputs[3:]]
        return None not in ends and ends == [self.fallback_min, self.fallback_max]


def _scalar(value: Value) -> float | None:
    tensor = constant_tensor(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().reshape(()))


def _codes_anew(quantize: Node) -> str | None:
    """The reason why a QuantizeV2 over Min and Max makes other values than those its input was made of."""
    x, low, high = quantize.inputs
    is_plain = quantize.get("T") is QUINT8 and quantize.get("mode") == "MIN_FIRST"
    if quantized_source(x) is not None and is_plain and _measures(low, x) and _measures(high, x):
        return None
    return "it makes other quantized values"


def _measures(value: Value, x: Value) -> bool:
    """True if a Min or Max is that of all that x holds."""
    node = value.node
    if value.is_graph_input or not node.inputs:
        return False
    read = source_without_waits(node.inputs[0])
    # Measuring is done on the flattened value where the rank was not known.
    if read.node.op == "Reshape" and not read.is_graph_input:
        read = source_without_waits(read.node.inputs[0])
    # Reduced over all axes, as the result's rank shows.
    return read is source_without_waits(x) and value.shape in (None, ())


@transform("remove_redundant_quantizations")
@dataclass(frozen=True)
class RemoveRedundantQuantizations(Rewrite):
    """Leave out the way from quantized values to floats and back.

    QuantizeV2(y, Min(y), Max(y)) with y = Dequantize(q, lo, hi)  ->  q, lo, hi
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    outputs = 3
    pattern: ClassVar = node(
        "QuantizeV2",
        any_value("x"),
        node("Min", boundary=True, through=()),
        node("Max", boundary=True, through=()),
        name="quantize",
        where=_codes_anew,
    )

    def check(self, m: Match) -> None:
        if m.quantize.is_protected:
            raise Refuse("it is asked for by name")
        if m.quantize.control_inputs or m.quantize.control_outputs:
            raise Refuse("it waits for other nodes, or they for it")
        m.bind("coded", quantized_source(m.x))

    def describe(self, m: Match) -> str:
        return f"'{m.coded[0].name}' has these quantized values"

    def build(self, m: Match, site: Site) -> Quantized:
        coded: Quantized = m.coded
        return coded


@transform("quantize_nodes")
@dataclass(frozen=True)
class QuantizeNodes(Transform):
    """Compute with eight-bit values: float ops become Quantized ones, which TensorFlow's CPU kernels run.

    conv(x, w)  ->  Dequantize(Requantize(QuantizedConv2D(q(x), q(w)), range))

    They run from op to op without a float in between. Ranges come from fake quantization where there is
    some, from `fallback_min` and `fallback_max` if they are given, else each run measures its own; constants
    are coded once and for all. Nodes that no eight-bit kernel computes rightly stay in float, and the ledger
    says why.

    Attributes:
        input_min: with input_max, placeholders become quint8 and stand for this range.
        input_max: see input_min.
        fallback_min: with fallback_max, the range of every 32-bit result that has no trained one.
        fallback_max: see fallback_min.
        ignore_op: an op to leave in float; may be repeated.
        target: `legacy`, or `qdq` for fake quantization with constant ranges, which converters read, instead
            of eight-bit ops.
        samples: for qdq, a .npz file of samples by input name, whose values give the ranges.
        min_max_log_file: for qdq, a log as freeze_requantization_ranges takes it; may be repeated.
    """

    exact = False

    input_min: float | None = None
    input_max: float | None = None
    fallback_min: float | None = None
    fallback_max: float | None = None
    ignore_op: tuple[str, ...] = ()
    target: str = "legacy"
    samples: str = ""
    min_max_log_file: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_range("input", self.input_min, self.input_max)
        check_range("fallback", self.fallback_min, self.fallback_max)
        if self._fallback is not None and not self._fallback[0] <= 0 <= self._fallback[1]:
            raise ParameterError(
                f"the range {self.fallback_min:g} to {self.fallback_max:g} leaves out 0",
                hint="eight-bit ranges contain 0: give fallback_min <= 0 <= fallback_max",
            )

        if self.target not in {"legacy", "qdq"}:
            raise ParameterError(f"target is '{self.target}'", hint="write target=legacy or qdq")
        if self.target == "legacy" and (self.samples or self.min_max_log_file):
            raise ParameterError(
                "samples and min_max_log_file go with target=qdq",
                hint="freeze_requantization_ranges puts logged ranges into eight-bit graphs",
            )
        if self.target == "qdq" and self._fallback is not None:
            raise ParameterError(
                "target=qdq takes no fallback range", hint="give samples or min_max_log_file"
            )

    @property
    def _fallback(self) -> Bounds | None:
        both = self.fallback_min is not None and self.fallback_max is not None
        return (self.fallback_min or 0.0, self.fallback_max or 0.0) if both else None

    def apply(self, graph: Graph, trace: Trace) -> None:
        if self.target == "qdq":
            self._fake(graph, trace)
        else:
            self._quantize(graph, trace)

    def _fake(self, graph: Graph, trace: Trace) -> None:
        ranges = logged_ranges(self.min_max_log_file)
        if self.samples:
            ranges |= sampled_ranges(graph, self.samples)
        if self.input_min is not None and self.input_max is not None:
            ranges |= {v.node.name: (self.input_min, self.input_max) for v in graph.inputs}
        FakeQuantizer(graph, trace, ranges, self.ignore_op, self.name).run()

    def _quantize(self, graph: Graph, trace: Trace) -> None:
        if self.input_min is not None and self.input_max is not None:
            QuantizePlaceholders(self.input_min, self.input_max).apply(graph, trace)
        # Hoisting first: each range has to stand at the op whose result it was trained for.
        HoistFakeQuants().apply(graph, trace)
        ConvertFakeQuants().apply(graph, trace)
        OpQuantizer(graph, trace, self.ignore_op, self._fallback, self.name).run()
        # Behind the quantizing, which gives every result a measured range to begin with.
        MergeAdjacentRequantizes(self.fallback_min, self.fallback_max).apply(graph, trace)
        RemoveRedundantQuantizations().apply(graph, trace)
        # Where nothing became eight-bit, merging duplicates is not what was asked for.
        if not trace.changes:
            return
        for finishing in (ClampFirst(), SignBiases(), WidenRanges()):
            finishing.apply(graph, Trace())  # of no interest by themselves: they tune what was told above
        self._merge(graph, trace)
        self._complain(trace)

    def _merge(self, graph: Graph, trace: Trace) -> None:
        """Keep one of what several ops need."""
        merging = Trace()
        MergeDuplicateNodes().apply(graph, merging)
        trace.changes += merging.changes

    def _complain(self, trace: Trace) -> None:
        unknown = [op for op in self.ignore_op if op not in EIGHT_BIT]
        for op in unknown:
            trace.warnings.append(f"ignore_op={op}: quantize_nodes does not touch {op} anyway")
