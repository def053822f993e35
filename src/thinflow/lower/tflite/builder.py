"""The builder that lowering rules write with: emits operators, knows the node's names, types and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from thinflow.analysis.quant_params import QuantParams, infer_quant_params
from thinflow.ir.graph import Graph, Value, graph_of
from thinflow.ir.types import INT32, INT64, DType, TensorSpec
from thinflow.lower.building import Building
from thinflow.lower.operands import ints, require, shape_of
from thinflow.lower.terms import Term
from thinflow.lower.tflite import kernels
from thinflow.program.model import Dims
from thinflow.tflite.counterparts import Kind, same_in_tflite
from thinflow.tflite.model import Operator, Tensor
from thinflow.tflite.options import Number, encode_map, encode_options

# Not those of StableHLO, which files may hold and LiteRT does not run.
_CODES = {
    op: code for kind in Kind if kind is not Kind.STABLEHLO for op, code in same_in_tflite(kind).items()
}
TableContent: TypeAlias = tuple[DType, DType, tuple[Any, ...], tuple[Any, ...]]
"""Types of keys and values, the keys, and the value of each."""


@dataclass
class QuantizedContext:
    """One lowering's knowledge of quantized values.

    Attributes:
        inferred: graph -> the quantization parameters of its values, inferred when first asked for.
        signed: uint8 tensor -> the same in int8.
        unsigned: the other way around.
        sums: int8 tensor -> the accumulators it was requantized from, and the target.
        floats: quantized values in float, and a form of real values -> these.
    """

    inferred: dict[Graph, Mapping[Value, QuantParams]] = field(default_factory=dict)
    signed: dict[Tensor, Tensor] = field(default_factory=dict)
    unsigned: dict[Tensor, Tensor] = field(default_factory=dict)
    sums: dict[Tensor, tuple[Any, Any]] = field(default_factory=dict)
    floats: dict[tuple[Tensor, str], Tensor] = field(default_factory=dict)

    def params(self, value: Value) -> QuantParams | None:
        """The quantization parameters of a value; None if they are not known before the model runs."""
        graph = graph_of(value.node)
        if graph is None:
            return None
        if graph not in self.inferred:
            self.inferred[graph] = infer_quant_params(graph)
        return self.inferred[graph].get(value)

    def keep(self, operators: Iterable[Operator]) -> None:
        """Forget tensors whose operators are gone."""
        # Graphs without quantized values undo trials, too, and need not pay for a look at all operators.
        if not (self.signed or self.unsigned or self.sums or self.floats):
            return
        written = {t for operator in operators for t in operator.outputs}
        self.signed = {x: y for x, y in self.signed.items() if y in written}
        self.unsigned = {x: y for x, y in self.unsigned.items() if y in written}
        self.sums = {x: y for x, y in self.sums.items() if x in written}
        self.floats = {x: y for x, y in self.floats.items() if y in written}


class Builder(Building[Tensor, Operator]):
    """Collects the operators of one subgraph, node by node.

    Attributes:
        quantized: what is known of quantized values.
        tables: content of a lookup table -> its number; the same in all subgraphs of a program.
    """

    TENSOR: ClassVar = Tensor
    OPERATOR: ClassVar = Operator

    def __init__(self, specs: Mapping[Value, TensorSpec] | None = None) -> None:
        super().__init__(specs)
        self.quantized = QuantizedContext()
        self.tables: dict[TableContent, int] = {}

    def inside(self) -> Builder:
        """A builder for another subgraph of the same program."""
        inner = Builder()
        # Tensors of one subgraph are none of another's: only what is known of the graph and of tables is
        # shared.
        inner.quantized.inferred, inner.tables = self.quantized.inferred, self.tables
        return inner

    # --- operators ----------------------------------------------------------------------------------------

    def custom(
        self, name: str, *inputs: Tensor | None, count: int = 1, options: Mapping[str, Number]
    ) -> tuple[Tensor, ...]:
        """A custom op that computes outputs 0 to `count` - 1 of the current node."""
        outputs = [self.value(self.node.output(port)) for port in range(count)]
        self.operators.append(
            Operator(
                "CUSTOM",
                list(inputs),
                outputs,
                custom_code=name,
                custom_options=encode_map(options),
                origin=self.node.name,
            )
        )
        return tuple(outputs)

    def append(
        self, code: str, inputs: Sequence[Tensor | None], outputs: list[Tensor], options: dict[str, Any]
    ) -> list[Tensor]:
        """An operator with tensors made before; `outputs`."""
        # Here and not when the file is written: the error names the node, and a rule may still try another
        # way.
        kernels.check(code, inputs, outputs)
        operator = Operator(code, list(inputs), outputs, options, origin=self.node.name)
        encode_options(operator)  # refuses attributes of the wrong kind here, where the node is known
        self.operators.append(operator)
        _keep_grid(inputs, outputs)
        return outputs

    # --- small steps --------------------------------------------------------------------------------------

    def code_of(self, op: str) -> str:
        return _CODES[op]

    def transpose(self, x: Tensor, order: tuple[int, ...], shape: Dims) -> Tensor:
        return self.step("TRANSPOSE", x, self.ints(order, "order"), shape=shape)

    def reshape(self, x: Tensor, sizes: Sequence[int], shape: Dims, suffix: str) -> Tensor:
        inputs, options = self.reshape_operands(sizes, x)
        return self.step("RESHAPE", *inputs, shape=shape, suffix=suffix, **options)

    def reshape_operands(self, sizes: Sequence[int], x: Tensor) -> tuple[list[Tensor], dict[str, Any]]:
        """Inputs and options of a RESHAPE. LiteRT takes an empty constant for none; [0] means a scalar."""
        if not sizes:
            return [x], {"new_shape": (0,)}
        return [x, self.ints(sizes, "shape")], {}

    def convert(self, x: Tensor, element: DType) -> Tensor:
        return self.step(
            "CAST", x, shape=x.shape, element=element, in_data_type=x.dtype, out_data_type=element
        )

    def index(self, x: Tensor) -> Tensor:
        """An integer tensor as int32, which every kernel takes for sizes, axes and places."""
        return self.cast(x, INT32) if x.dtype is not INT64 or not x.is_constant else self._narrowed(x)

    def _narrowed(self, x: Tensor) -> Tensor:
        # "To the end" is often written as the largest int64.
        limits = np.iinfo(np.int32)
        return self.const(np.clip(np.asarray(x.array()), limits.min, limits.max).astype(np.int32), "int32")


Float: TypeAlias = Term[Builder, Tensor]
"""A float tensor in a formula."""


def _keep_grid(inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> None:
    """Let values that an op only moves keep their parameters: accelerated kernels refuse to guess."""
    coded = next((t for t in inputs if t is not None and t.quantization is not None), None)
    for tensor in outputs:
        if coded is not None and tensor.dtype.is_quantized and tensor.quantization is None:
            tensor.quantization = coded.quantization


def require_nhwc(data_format: str, verb: str = "works on") -> None:
    """Refuse any layout but channels last."""
    require(
        data_format in ("NHWC", "NDHWC"),
        f"data_format is {data_format}; TFLite {verb} NHWC only",
        hint="run the transform 'to_nhwc' first",
    )


__all__ = ["Builder", "Dims", "Float", "ints", "require", "require_nhwc", "shape_of"]
