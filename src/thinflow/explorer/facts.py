"""What the panel tells of a node: attributes, types and shapes, quantization parameters, documentation."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.analysis.foreign import is_foreign, is_known
from thinflow.analysis.foreign_quant_params import params_of
from thinflow.ir.attrs import Attr, FunctionAttr, attr_text
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import TensorSpec
from thinflow.ir.vocabulary import ATEN, LITERT, ONNX
from thinflow.ops import registry

LONGEST_TEXT = 200
_SHOWN_CHANNELS = 4
# Said elsewhere: the constant itself, types and shapes of outputs, quantization.
_SKIPPED = ("_output_shapes", "_output_types", "quantization_", "_size_names")

_TENSORFLOW_PAGE = "https://www.tensorflow.org/api_docs/python/tf/raw_ops/"
_ONNX_PAGE = "https://onnx.ai/onnx/operators/onnx"
_RUNTIME_PAGE = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#"
_LITERT_PAGE = "https://www.tensorflow.org/mlir/tfl_ops#:~:text=tfl."
_ATEN_PAGE = "https://docs.pytorch.org/docs/stable/torch.compiler_ir.html"
_MACHINE_LEARNING = "ai.onnx.ml."
_MICROSOFT = "com.microsoft."


def attribute_texts(node: Node) -> Iterator[tuple[str, str]]:
    """Names and values of a node's attributes, as short texts; constants by type and shape alone."""
    for name, value in node.attrs_view.items():
        if not name.startswith(_SKIPPED) and not (node.op == "Const" and name in ("value", "dtype")):
            yield name, shortened(_text(value))
    if node.device:
        yield "device", shortened(node.device)
    if node.origin:
        yield "made by", shortened(node.origin)


def _text(value: Attr) -> str:
    if isinstance(value, Tensor):
        return str(value) if value.size <= _SHOWN_CHANNELS else repr(value)
    # A body may get a hundred attributes of its own; its name says which it is.
    return str(value) if isinstance(value, FunctionAttr) else attr_text(value)


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, with its end left out if it is long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def spec_texts(spec: TensorSpec) -> tuple[str, str]:
    """Type and shape: `("float", "1,?,3")`; `*` for an unknown rank, "" for an unknown type."""
    sizes = () if spec.shape is None else spec.shape
    shape = "*" if spec.shape is None else ",".join("?" if size is None else str(size) for size in sizes)
    known = spec.dtype is not None and spec.dtype.number
    return (str(spec.dtype) if known else "", shape)


def quantization_text(value: Value) -> str:
    """`scale 0.0235, zero_point -128`; "" for a value that is not quantized."""
    params = params_of(value)
    if params is None:
        return ""
    points = sorted(set(params.zero_point)) or [0]
    zero = str(points[0]) if len(points) == 1 else f"{points[0]} to {points[-1]}"
    if not params.is_per_channel:
        return f"scale {params.scale[0]:.6g}, zero_point {zero}"
    low, high = min(params.scale), max(params.scale)
    return (
        f"per-channel: {len(params.scale)} scales from {low:.4g} to {high:.4g} along axis {params.axis}, "
        f"zero_point {zero}"
    )


def documentation(op: str) -> str:
    """The address of the page that explains an op; "" for one without a page."""
    name = op.partition(".")[2]
    if not is_foreign(op):
        return f"{_TENSORFLOW_PAGE}{op}" if registry.find(op) is not None else ""
    if op.startswith(ONNX.prefix):
        if name.startswith(_MICROSOFT):
            return f"{_RUNTIME_PAGE}{name}"
        if name.startswith(_MACHINE_LEARNING):
            return f"{_ONNX_PAGE}_aionnxml_{name.removeprefix(_MACHINE_LEARNING)}.html"
        return f"{_ONNX_PAGE}__{name}.html" if is_known(op) else ""
    if not is_known(op):
        return ""
    if op.startswith(LITERT.prefix):
        return f"{_LITERT_PAGE}{name.lower()}"
    return _ATEN_PAGE if op.startswith(ATEN.prefix) else ""
