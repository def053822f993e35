"""Float ops that have an eight-bit form in TensorFlow, and the reasons to leave a node of them in float.

Every check raises Refuse where the eight-bit form would compute something else. The rules are those of the
kernels, found by running them: several do not complain about what they cannot do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import INT32, QINT32, QUINT8, Shape
from thinflow.ops._defaults import defaults_of
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.quantized.values import source_without_waits

# Sums of products of quantized values have 32 bits, which a Requantize brings back to eight.
_TO_32_BITS: dict[str, Attr] = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}
_POOL = ("ksize", "strides", "padding")

Check = Callable[[Node], None]


@dataclass(frozen=True)
class EightBit:
    """The eight-bit form of an op.

    Attributes:
        op: its name.
        types: attributes that tell types.
        check: raises Refuse where the eight-bit form would compute something else.
        copied: attributes that both forms have.
        plain: input that stays what it is, such as a shape; None if all are quantized.
        arity: number of inputs, None for any number.
    """

    op: str
    types: dict[str, Attr]
    check: Check
    copied: tuple[str, ...] = ()
    plain: int | None = None
    arity: int | None = 2

    @property
    def widens(self) -> bool:
        """True if the result has 32 bits and must be brought back to eight."""
        return QINT32 in self.types.values()


EIGHT_BIT: dict[str, EightBit] = {}
"""Float op -> its eight-bit form. Pools, joins and moves stay in eight bits and hand the range of their input
on."""


def _form(
    op: str,
    eight_bit: str,
    types: dict[str, Attr],
    *,
    copied: tuple[str, ...] = (),
    plain: int | None = None,
    arity: int | None = 2,
) -> Callable[[Check], Check]:
    """Decorator of a check: the eight-bit form of an op that has to pass it; see `EightBit`."""

    def register(check: Check) -> Check:
        EIGHT_BIT[op] = EightBit(eight_bit, types, check, copied, plain, arity)
        return check

    return register


def _check_layout(node: Node) -> None:
    """Channels must come last."""
    layout = node.get("data_format", "NHWC")
    if layout != "NHWC":
        raise Refuse(f"its data_format is {layout}; eight-bit ops know NHWC only")


def _numbers(node: Node, attr: str) -> tuple[int, ...]:
    """A list attribute with one number for each of the four axes."""
    numbers = node.get(attr)
    if not isinstance(numbers, tuple) or len(numbers) != 4:
        raise Refuse(f"its attribute {attr} has no number for each axis")
    return tuple(int(n) for n in numbers)


def _check_padding(node: Node) -> None:
    if node.get("padding") not in {"SAME", "VALID"}:
        raise Refuse(f"its padding is {node.get('padding')}; eight-bit ops know SAME and VALID only")


@_form(
    "Conv2D",
    "QuantizedConv2D",
    {"Tinput": QUINT8, "Tfilter": QUINT8, "out_type": QINT32},
    copied=("strides", "padding"),
)
def _check_conv(node: Node) -> None:
    """No dilations, groups or unequal strides; and windows where the float convolution has them."""
    _check_layout(node)
    _check_padding(node)
    strides = _numbers(node, "strides")
    if strides[1] != strides[2] or strides[0] != 1 or strides[3] != 1:
        raise Refuse(f"its strides are {list(strides)}; eight-bit convolutions need equal ones")
    dilations = node.get("dilations", (1, 1, 1, 1))
    if any(rate != 1 for rate in dilations):
        raise Refuse(f"its dilations are {list(dilations)}; eight-bit convolutions have none")
    _check_groups(*node.inputs)
    for axis in (1, 2):
        _check_origin(node, axis, strides[axis])


def _check_groups(x: Value, w: Value) -> None:
    channels = None if x.shape is None or len(x.shape) != 4 else x.shape[3]
    taken = None if w.shape is None or len(w.shape) != 4 else w.shape[2]
    if channels is not None and taken is not None and channels != taken:
        raise Refuse(
            f"its filter takes {taken} of {channels} channels; eight-bit convolutions have no groups"
        )


def _check_origin(node: Node, axis: int, stride: int) -> None:
    """The eight-bit kernel moves windows towards the middle where strides leave pixels over.

    With t = (out - 1) stride + k - n the first window starts at -t/2 (SAME) or -(t + 1)/2 (VALID), truncated,
    even where t is negative.
    """
    x, w = (v.shape for v in node.inputs)
    size = None if x is None or len(x) != 4 else x[axis]
    taps = None if w is None or len(w) != 4 else w[axis - 1]
    same = node.get("padding") == "SAME"
    # The least that t can be for any size: SAME has (out - 1) stride >= n - stride, so t >= k - stride; VALID
    # has (out - 1) stride >= n - k + 1 - stride, so t >= 1 - stride.
    least = (1 if taps is None else taps) - stride if same else 1 - stride
    # Truncated towards zero, -t/2 is 0 for t = -1 as well, and -(t + 1)/2 for t = -2.
    allowed = -1 if same else -2
    if least >= allowed:
        return
    if size is None or taps is None:
        raise Refuse(f"with stride {stride} an eight-bit convolution may sample other pixels")
    out = -(-size // stride) if same else max(-(-(size - taps + 1) // stride), 0)
    if (out - 1) * stride + taps - size < allowed:
        raise Refuse(f"with stride {stride} over {size} an eight-bit convolution would sample other pixels")


@_form("AvgPool", "QuantizedAvgPool", {"T": QUINT8}, copied=_POOL, arity=1)
@_form("MaxPool", "QuantizedMaxPool", {"T": QUINT8}, copied=_POOL, arity=1)
def _check_pool(node: Node) -> None:
    """Images with channels last, no pooling over the batch, and none over channels and pixels at once."""
    _check_layout(node)
    _check_padding(node)
    for attr in ("ksize", "strides"):
        steps = _numbers(node, attr)
        if steps[0] != 1 or steps[3] != 1:
            raise Refuse(f"its {attr} is {list(steps)}; eight-bit pooling is over height and width")
    _check_rank(node.inputs[0], 4)


@_form("BiasAdd", "QuantizedBiasAdd", {"T1": QUINT8, "T2": QUINT8, "out_type": QINT32})
def _check_bias(node: Node) -> None:
    """The bias goes along the last of two or more axes."""
    _check_layout(node)
    shape = node.inputs[0].shape
    if shape is not None and len(shape) < 2:
        raise Refuse(f"its input has rank {len(shape)}; an eight-bit BiasAdd needs 2 or more")


@_form("MatMul", "QuantizedMatMul", _TO_32_BITS, copied=("transpose_a", "transpose_b"))
def _check_matmul(node: Node) -> None:
    """Plain matrices, with something to sum over."""
    for value in node.inputs:
        _check_rank(value, 2)
    shape = node.inputs[0].shape
    if shape is not None and shape[0 if node.get("transpose_a", False) else 1] == 0:
        raise Refuse("it sums over nothing")


def _check_rank(value: Value, rank: int) -> None:
    if value.shape is not None and len(value.shape) != rank:
        raise Refuse(f"'{value.name}' has rank {len(value.shape)}, not {rank}")


@_form("Add", "QuantizedAdd", _TO_32_BITS)
@_form("AddV2", "QuantizedAdd", _TO_32_BITS)
@_form("Mul", "QuantizedMul", _TO_32_BITS)
def _check_broadcast(node: Node) -> None:
    """Equal shapes, a single number, or an operand that matches the last axes of the other."""
    # x + x and x * x need no broadcasting, whatever the shape.
    x, y = node.inputs
    if source_without_waits(x) is source_without_waits(y) or _is_one(x.shape) or _is_one(y.shape):
        return
    if x.shape is None or y.shape is None:
        unknown = x if x.shape is None else y
        raise Refuse(f"the shape of '{unknown.name}' is not known; the eight-bit op broadcasts in few ways")
    if not _is_trailing(x.shape, y.shape):
        shapes = " with ".join(_text(s) for s in (x.shape, y.shape))
        raise Refuse(f"the eight-bit op cannot broadcast {shapes}, or it cannot be told")


def _is_one(shape: Shape) -> bool:
    return shape is not None and all(size == 1 for size in shape)


def _text(shape: Sequence[int | None]) -> str:
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"


def _is_trailing(x: Sequence[int | None], y: Sequence[int | None]) -> bool:
    """True if, whatever the unknown sizes are, one operand is the last axes of the other and ones."""
    rank = max(len(x), len(y))
    pairs = list(zip((1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y), strict=True))
    # Known and equal at the end: the common last axes.
    while pairs and pairs[-1][0] == pairs[-1][1] is not None:
        pairs.pop()
    while pairs and pairs[0] == (1, 1):
        del pairs[0]
    # A single pair is equal, or has a 1 on one side: fine, even if both sizes are unknown.
    return len(pairs) <= 1 or any(all(pair[side] == 1 for pair in pairs) for side in (0, 1))


@_form("ResizeBilinear", "QuantizedResizeBilinear", {"T": QUINT8}, copied=("align_corners",), plain=1)
def _check_resize(node: Node) -> None:
    """Corners as the first versions of TensorFlow put them."""
    if node.get("half_pixel_centers", False):
        raise Refuse("its half_pixel_centers are not those of the eight-bit kernel")


@_form("Reshape", "QuantizedReshape", {"T": QUINT8}, copied=("Tshape",), plain=1)
def _check_reshape(node: Node) -> None:
    """Not the flattening that belongs to the measuring of a range."""
    readers = node.output().readers
    if readers and all(
        reader.op in {"Min", "Max"} and all(r.op == "QuantizeV2" for r in reader.output().readers)
        for reader in readers
    ):
        raise Refuse("it belongs to the measuring of a range")


def concat_axis(node: Node) -> int:
    """The axis of a Concat or ConcatV2, counted from the front.

    Raises:
        Refuse: it is not known, or cannot be counted.
    """
    at = 0 if node.op == "Concat" else -1
    tensor = constant_tensor(node.inputs[at])
    if tensor is None or tensor.size != 1 or not tensor.dtype.is_integer:
        raise Refuse(f"its axis '{node.inputs[at].name}' is not constant")
    axis = int(tensor.numpy().reshape(()))
    parts = node.inputs[1:] if node.op == "Concat" else node.inputs[:-1]
    rank = next((len(v.shape) for v in parts if v.shape is not None), None)
    if rank == 0 or (rank is not None and not -rank <= axis < rank):
        raise Refuse(f"there is no axis {axis}")
    if axis < 0 and rank is None:
        raise Refuse(f"axis {axis} cannot be counted from the front: the rank is not known")
    return axis if axis >= 0 or rank is None else axis + rank


@_form("Concat", "QuantizedConcat", {"T": QUINT8}, copied=("N",), arity=None)
@_form("ConcatV2", "QuantizedConcat", {"T": QUINT8}, copied=("N",), arity=None)
def _check_concat(node: Node) -> None:
    """Two parts or more, along a known axis."""
    if len(node.inputs) < 3:
        raise Refuse("it joins fewer than two parts")
    concat_axis(node)


@_form("Relu", "QuantizedRelu", {"Tinput": QUINT8}, arity=1)
@_form("Relu6", "QuantizedRelu6", {"Tinput": QUINT8}, arity=1)
def _check_relu(node: Node) -> None:
    """The kernels clamp whatever there is."""


NO_KERNEL = dict.fromkeys(
    (
        *("AddN", "BatchMatMul", "BatchMatMulV2", "BiasAddV1", "Conv2DBackpropInput", "Conv3D"),
        *("DepthwiseConv2dNative", "Div", "Elu", "Exp", "FusedBatchNorm", "FusedBatchNormV2"),
        *("FusedBatchNormV3", "LRN", "LeakyRelu", "Maximum", "Mean", "Minimum", "MirrorPad", "Pad", "PadV2"),
        *("RealDiv", "ResizeNearestNeighbor", "Rsqrt", "Selu", "Sigmoid", "Softmax", "Sub", "Tanh"),
        *("BatchNormWithGlobalNormalization", "Squeeze", "ExpandDims", "Transpose"),
    ),
    "no processor has an eight-bit kernel for it",
)
NO_KERNEL["DepthwiseConv2dNative"] = (
    "its eight-bit kernel exists in few builds, and reads quantized values in another way"
)
"""Ops one may expect here, and why they stay in float."""


def data_inputs(node: Node) -> tuple[Value, ...]:
    """The inputs that are to be quantized, in order."""
    if node.op == "Concat":
        return node.inputs[1:]
    if node.op == "ConcatV2":
        return node.inputs[:-1]
    plain = EIGHT_BIT[node.op].plain
    return tuple(v for i, v in enumerate(node.inputs) if i != plain)


def attrs_of(node: Node) -> dict[str, Attr]:
    """The attributes of a node's eight-bit form; those it leaves out have their defaults."""
    form = EIGHT_BIT[node.op]
    usual = defaults_of(node.op) or {}
    values = {name: node.attrs.get(name, usual.get(name)) for name in form.copied}
    attrs = {name: value for name, value in values.items() if value is not None}
    if has(node.op, Trait.CONCAT):
        attrs["N"] = len(data_inputs(node))
    if attrs.get("Tshape") == INT32:
        del attrs["Tshape"]
    return {**form.types, **attrs}
