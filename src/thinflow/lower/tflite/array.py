"""Shapes, the order of axes, joining and splitting."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import BFLOAT16, FLOAT, INT32, INT64, DType, dtype
from thinflow.lower.operands import WIDENING
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.tflite.model import Tensor


def _fixed_sizes(b: Builder, x: Tensor) -> tuple[int, ...] | None:
    """The shape of the node's result with -1 for at most one unknown size; None if more are unknown."""
    shape = b.result_spec().shape
    # RESHAPE takes one -1, and divides by the other sizes to find it: not by 0.
    if shape is None or shape.count(None) > 1 or (None in shape and 0 in shape):
        return None
    return tuple(-1 if n is None else n for n in shape)


@lower("Reshape", to="tflite")
def reshape(b: Builder, node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """With fixed sizes where they are known, even if computed by the model: LiteRT runs those faster."""
    sizes = _fixed_sizes(b, x)
    if sizes is None:
        wanted = b.elements(shape)
        # The shape is computed, but perhaps from constants and single sizes that are known each by itself.
        open_sizes = () if wanted is None else [n for n in wanted if n is None or n < 0]
        if wanted is not None and len(open_sizes) <= 1 and not (open_sizes and 0 in wanted):
            sizes = tuple(-1 if n is None else n for n in wanted)
    if sizes is None:
        return b.emit("RESHAPE", x, b.index(shape))
    inputs, options = b.reshape_operands(sizes, x)
    return b.emit("RESHAPE", *inputs, **options)


@lower("ExpandDims", to="tflite")
def expand_dims(b: Builder, node: Node, x: Tensor, dim: Tensor) -> Tensor:
    """A RESHAPE where possible, since neighbouring ones merge."""
    sizes = _fixed_sizes(b, x)
    if sizes is None:
        return b.emit("EXPAND_DIMS", x, b.index(dim))
    # Its result has at least one axis, so the sizes are never the empty constant that LiteRT ignores.
    return b.emit("RESHAPE", x, b.ints(sizes, "shape"))


@lower("Squeeze", to="tflite")
def squeeze(b: Builder, node: Node, x: Tensor, *, squeeze_dims: tuple[int, ...] = ()) -> Tensor:
    """As ExpandDims."""
    sizes = _fixed_sizes(b, x)
    if sizes is None:
        return b.emit("SQUEEZE", x, squeeze_dims=squeeze_dims)
    inputs, options = b.reshape_operands(sizes, x)
    return b.emit("RESHAPE", *inputs, **options)


@lower("Transpose", to="tflite")
def transpose(b: Builder, node: Node, x: Tensor, perm: Tensor) -> Tensor:
    return b.emit("TRANSPOSE", x, b.index(perm))


def sizes_of(b: Builder, x: Tensor) -> Tensor:
    """The shape of x as it is when the model runs, int32 [rank]."""
    rank = None if x.shape is None else (len(x.shape),)
    return b.step("SHAPE", x, shape=rank, element=INT32, out_type=INT32)


@lower("Shape", to="tflite")
def shape(b: Builder, node: Node, x: Tensor, *, out_type: DType = INT32) -> Tensor:
    return b.emit("SHAPE", x, out_type=out_type)


@lower("ShapeN", to="tflite")
def shape_n(b: Builder, node: Node, *xs: Tensor, out_type: DType = INT32) -> tuple[Tensor, ...]:
    return tuple(b.emit("SHAPE", x, port=port, out_type=out_type) for port, x in enumerate(xs))


@lower("Size", to="tflite")
def size(b: Builder, node: Node, x: Tensor, *, out_type: DType = INT32) -> Tensor:
    """The product of the sizes."""
    shape = b.step("SHAPE", x, shape=None, element=out_type, out_type=out_type)
    # For a scalar SHAPE gives [0], whose product is 1, as it should be.
    return b.emit("REDUCE_PROD", shape, b.ints([0], "axis"), keep_dims=False)


@lower("Rank", to="tflite")
def rank(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("RANK", x)


_WRAPPED = {**dict.fromkeys(("int8", "uint8", "int16", "uint16"), INT32), "uint32": INT64}
"""Integers that fractions become by way of wider ones: they wrap around, where LiteRT stops at the limits."""


@lower("Cast", to="tflite")
def cast(b: Builder, node: Node, x: Tensor) -> Tensor:
    target = b.result_spec().dtype or dtype(node.get("DstT"))
    castable = {
        "float",
        "half",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "bool",
        "double",
        "complex64",
    }
    for element in (x.dtype, target):
        hint = WIDENING if element is BFLOAT16 else ""
        require(element.name in castable, f"LiteRT casts from {x.dtype} to {target} nowhere", hint)
    # Two steps: the first cuts the fraction off, the second keeps the low bits.
    if x.dtype.is_floating and target.name in _WRAPPED:
        x = b.cast(x, _WRAPPED[target.name])
    return b.emit("CAST", x, in_data_type=x.dtype, out_data_type=target)


@lower("Bitcast", to="tflite")
def bitcast(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("BITCAST", x)


@lower("IdentityN", to="tflite")
def identity_n(b: Builder, node: Node, *xs: Tensor) -> tuple[Tensor, ...]:
    return xs


@lower("Tile", to="tflite")
def tile(b: Builder, node: Node, x: Tensor, multiples: Tensor) -> Tensor:
    return b.emit("TILE", x, b.index(multiples))


@lower("BroadcastTo", to="tflite")
def broadcast_to(b: Builder, node: Node, x: Tensor, shape: Tensor) -> Tensor:
    return b.emit("BROADCAST_TO", x, b.index(shape))


@lower("BroadcastArgs", to="tflite")
def broadcast_args(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    return b.emit("BROADCAST_ARGS", x, y)


@lower("Fill", to="tflite")
def fill(b: Builder, node: Node, dims: Tensor, value: Tensor) -> Tensor:
    return b.emit("FILL", dims, value)


@lower("ZerosLike", to="tflite")
def zeros_like(b: Builder, node: Node, x: Tensor) -> Tensor:
    # The types that the kernel of ZEROS_LIKE has; FILL takes all.
    if x.dtype.name in ("float", "int32", "int64"):
        return b.emit("ZEROS_LIKE", x)
    return b.emit("FILL", sizes_of(b, x), b.scalar(0, x))


@lower("OnesLike", to="tflite")
def ones_like(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("FILL", sizes_of(b, x), b.scalar(1, x, "one"))


@lower("Range", to="tflite")
def range_(b: Builder, node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return b.emit("RANGE", start, limit, delta)


@lower("OneHot", to="tflite")
def one_hot(
    b: Builder, node: Node, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor, *, axis: int = -1
) -> Tensor:
    return b.emit("ONE_HOT", indices, b.index(depth), on, off, axis=axis)


@lower("RandomUniform", "RandomStandardNormal", to="tflite")
def random(b: Builder, node: Node, shape: Tensor, *, seed: int = 0, seed2: int = 0) -> Tensor:
    """Other numbers of the same distribution, as TensorFlow itself promises no more."""
    code = "RANDOM_UNIFORM" if node.op == "RandomUniform" else "RANDOM_STANDARD_NORMAL"
    require(
        b.result_spec().dtype is None or str(b.result_spec().dtype) == "float",
        "LiteRT draws float numbers only",
    )
    return b.emit(code, b.index(shape), seed=seed, seed2=seed2)


@lower("Multinomial", to="tflite")
def multinomial(
    b: Builder, node: Node, logits: Tensor, count: Tensor, *, seed: int = 0, seed2: int = 0
) -> Tensor:
    """Other draws of the same distribution, as of RandomUniform."""
    require(logits.dtype is FLOAT, f"LiteRT draws by float logits, not {logits.dtype}")
    return b.emit("MULTINOMIAL", logits, b.index(count), seed=seed, seed2=seed2)


@lower("MatrixDiag", to="tflite")
def matrix_diag(b: Builder, node: Node, diagonal: Tensor) -> Tensor:
    return b.emit("MATRIX_DIAG", diagonal)


@lower("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", to="tflite")
def matrix_set_diag(b: Builder, node: Node, x: Tensor, diagonal: Tensor, *k: Tensor) -> Tensor:
    # k is one offset, or those of the lowest and the highest diagonal, which are the same one here.
    require(all(b.elements(i) in ((0,), (0, 0)) for i in k), "TFLite sets the main diagonal only")
    return b.emit("MATRIX_SET_DIAG", x, diagonal)


@lower("Bucketize", to="tflite")
def bucketize(b: Builder, node: Node, x: Tensor, *, boundaries: tuple[float, ...]) -> Tensor:
    return b.emit("BUCKETIZE", x, boundaries=boundaries)


# ---- Joining and splitting.


def _concat(b: Builder, xs: tuple[Tensor, ...], axis: Tensor) -> Tensor:
    place = b.axes(axis, len(shape_of(xs[0])))[0]
    # A constant without elements is no constant to LiteRT, and adds nothing.
    parts = [x for x in xs if not (x.is_constant and x.shape and x.shape[place] == 0)]
    require(len(parts) > 0, "there is nothing to join")
    return b.emit("CONCATENATION", *parts, axis=place)


@lower("Concat", to="tflite")
def concat(b: Builder, node: Node, axis: Tensor, *xs: Tensor) -> Tensor:
    return _concat(b, xs, axis)


@lower("ConcatV2", to="tflite")
def concat_v2(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return _concat(b, xs[:-1], xs[-1])


@lower("Pack", to="tflite")
def pack(b: Builder, node: Node, *xs: Tensor, axis: int = 0) -> Tensor:
    return b.emit("PACK", *xs, values_count=len(xs), axis=axis)


@lower("Unpack", to="tflite")
def unpack(b: Builder, node: Node, x: Tensor, *, num: int, axis: int = 0) -> tuple[Tensor, ...]:
    return b.emit_ports("UNPACK", x, count=num, num=num, axis=axis)


@lower("Split", to="tflite")
def split(b: Builder, node: Node, axis: Tensor, x: Tensor, *, num_split: int) -> tuple[Tensor, ...] | Tensor:
    # One part is all of it.
    if num_split == 1:
        return x
    return b.emit_ports("SPLIT", b.index(axis), x, count=num_split, num_splits=num_split)


@lower("SplitV", to="tflite")
def split_v(
    b: Builder, node: Node, x: Tensor, sizes: Tensor, axis: Tensor, *, num_split: int
) -> tuple[Tensor, ...] | Tensor:
    ints(axis, "axis")
    if num_split == 1:
        return x
    return b.emit_ports("SPLIT_V", x, b.index(sizes), b.index(axis), count=num_split, num_splits=num_split)
