"""Compute with eight-bit codes: float ops become Quantized ones, which TensorFlow's CPU kernels run.

conv(x, w)  ->  Dequantize(Requantize(QuantizedConv2D(q(x), q(w)), range))

Codes run from op to op without a float in between. Ranges come from fake quantization where there is some,
from `fallback_min` and `fallback_max` if they are given, else each run measures its own; constants are coded
once and for all. Nodes that no eight-bit kernel computes rightly stay in float, and the ledger says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.convert_fake_quants import ConvertFakeQuants
from thinflow.transforms.hoist_fake_quants import HoistFakeQuants
from thinflow.transforms.merge_adjacent_requantizes import MergeAdjacentRequantizes
from thinflow.transforms.merge_duplicate_nodes import MergeDuplicateNodes
from thinflow.transforms.quantize_placeholders import QuantizePlaceholders, check_range
from thinflow.transforms.quantized.fake_quant import FakeQuantizer, logged_ranges, sampled_ranges
from thinflow.transforms.quantized.ops import Bounds, OpQuantizer
from thinflow.transforms.quantized.ranges import ClampFirst, SignBiases, WidenRanges
from thinflow.transforms.quantized.table import EIGHT_BIT
from thinflow.transforms.remove_redundant_quantizations import RemoveRedundantQuantizations


@transform("quantize_nodes")
@dataclass(frozen=True)
class QuantizeNodes(Transform):
    """Give ops their eight-bit form: Conv2D, MatMul, Add, Mul, BiasAdd, Relu, Relu6, MaxPool, AvgPool,
    Concat, Reshape and ResizeBilinear.

    Attributes:
        input_min: with input_max, placeholders become quint8 and their codes stand for this range.
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
