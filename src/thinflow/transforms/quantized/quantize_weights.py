"""Store large floating-point constants in 8 bits and turn them back into floats when the graph runs.

w  ->  Dequantize(q, min, max)   q = round(w * s) - round(min * s), s = 255 / (max - min); 0 stays exactly 0
w  ->  Cast(q) * scale           with axis=auto: q = round(w / scale), one scale per output channel
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Use, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, INT8, QINT8, QUINT8, dtype
from thinflow.ops._quantized import code_of, decode
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.fold.producers import output_axes, weights_of
from thinflow.transforms.shared.constants import SMALLEST_NORMAL, is_finite, other_than_floating, stored_once
from thinflow.typing import Array

_DEFAULT_SIZE = 1024
_RANGE_BYTES = 8  # two float scalars
_PIECE = 1 << 16  # elements: 256 KiB of floats, which stay in a second-level cache between the five steps
_BELOW_HALF = np.float32(0.49999997)  # x + this, truncated, is x rounded; with 0.5 the sum itself would round


@transform("quantize_weights")
@dataclass(frozen=True)
class QuantizeWeights(Rewrite):
    """Replace float constants by 8-bit ones and a Dequantize of the old name.

    Attributes:
        minimum_size: constants with fewer elements stay.
        mode: MIN_FIRST (unsigned, any range that contains 0) or SCALED (signed, symmetric).
        axis: `auto` gives weights of convolutions and matrix products a scale per output channel; `none`
            one range.
        op: only constants that nodes of these ops read. By default all but biases, norm parameters and
            shapes, as long as minimum_size is the default, too.
        dtype: besides float, constants of these types (half, bfloat16, double).
        max_error: constants that would lose more than this, relative to their largest value, stay.
        legacy: the original tool's choice and numbers, bit for bit: every float32 constant of the size,
            biases and repeated values too. Only zeros get the range 0 to 1, since their own gave NaN.
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node("Const", name="w", where=other_than_floating)

    minimum_size: int = _DEFAULT_SIZE
    mode: str = "MIN_FIRST"
    axis: str = "none"
    op: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    max_error: float | None = None
    legacy: bool = False

    def __post_init__(self) -> None:
        if self.minimum_size < 0:
            raise ParameterError(
                f"minimum_size is {self.minimum_size}", hint="give the number of elements; 1024 is usual"
            )
        if self.legacy and (self.mode, self.axis, self.op, self.dtype) != ("MIN_FIRST", "none", (), ()):
            raise ParameterError(
                "legacy goes with minimum_size and max_error only", hint="leave mode, axis, op and dtype out"
            )
        for option, value, allowed in (
            ("mode", self.mode, ("MIN_FIRST", "SCALED")),
            ("axis", self.axis, ("auto", "none")),
        ):
            if value not in allowed:
                raise ParameterError(f"{option} is '{value}'", hint=f"write {option}={' or '.join(allowed)}")
        if self.max_error is not None and self.max_error < 0:
            raise ParameterError(
                f"max_error is {self.max_error}", hint="give a part of the largest value, such as 0.01"
            )
        wrong = [name for name in self.dtype if not dtype(name).is_floating]
        if wrong:
            raise ParameterError(
                f"'{wrong[0]}' is not a floating-point type", hint="write half, bfloat16 or double"
            )

    def check(self, m: Match) -> None:
        tensor = m.w.tensor
        if tensor.dtype not in {FLOAT, *(dtype(name) for name in self.dtype)}:
            raise Refuse(f"it is {tensor.dtype}; dtype={tensor.dtype} includes it")
        self.check_use(m.w, tensor)
        axes = channel_axes(m.w) if self.axis == "auto" else None
        mode = "legacy" if self.legacy else self.mode
        plan = PerChannel(tensor, axes) if axes is not None else PerTensor(tensor, mode)
        self.check_error(tensor, plan)
        m.bind("plan", plan)

    def describe(self, m: Match) -> str:
        return str(m.plan.description)

    def build(self, m: Match, site: Site) -> Value:
        """The floats made of an 8-bit constant, which waits for what the old one waited for."""
        weights: Node = m.w
        stored, result = m.plan.build(site, weights)
        # Dequantized values are float; weights of another type need one more step.
        if m.w.tensor.dtype is not FLOAT:
            attrs = {"SrcT": FLOAT, "DstT": m.w.tensor.dtype}
            result = site.add("Cast", result, name=f"{weights.name}_restored", attrs=attrs)
        for awaited in weights.control_inputs:
            stored.node.add_control_input(awaited)
            weights.remove_control_input(awaited)
        # Annotations of the weights hold for what takes their place.
        for key, attr in weights.attrs.items():
            if key.startswith("_"):
                result.node.attrs[key] = attr
        for value in (stored, result):
            value.node.device = weights.device
        made: Value = result
        return made

    def check_use(self, node: Node, tensor: Tensor) -> None:
        """Raise Refuse if the constant must stay, judging by everything but its numbers."""
        # The original compared the number of elements, too, not bytes.
        if tensor.size < self.minimum_size:
            raise Refuse(f"it has {tensor.size} values, fewer than {self.minimum_size}")
        if node.is_protected:
            raise Refuse("it is an input or output of the graph")
        if self.legacy:
            if np.isinf(tensor.numpy()).any():
                raise Refuse("it has values that are not finite")
            return
        if tensor.is_splat:
            raise Refuse("all its values are equal and stored once")
        # One byte an element, and the range.
        if tensor.size + _RANGE_BYTES >= tensor.storage.stored_bytes:
            raise Refuse("it would not get smaller")
        if is_scale(node):
            raise Refuse("it scales quantized weights")
        readers = uses_behind(node)
        if self.op:
            if not any(use.node.op in self.op for use in readers):
                raise Refuse(f"no {' or '.join(self.op)} reads it")
        # With a size of one's own, one knows what one asks for.
        elif self.minimum_size == _DEFAULT_SIZE:
            for use in readers:
                if is_parameter(use):
                    raise Refuse(
                        f"it is a parameter of '{use.node.name}' ({use.node.op}), which needs all its bits"
                    )
        if not is_finite(tensor.numpy()):
            raise Refuse("it has values that are not finite")

    def check_error(self, tensor: Tensor, plan: PerTensor | PerChannel) -> None:
        """Raise Refuse if too much is lost."""
        if self.max_error is None:
            return
        values = tensor.numpy().astype(np.float32)
        largest = float(np.abs(values).max())
        error = float(np.abs(values - plan.restored).max()) / largest if largest else 0.0
        if error > self.max_error:
            raise Refuse(f"it would be off by {error:.2g} of its largest value, more than {self.max_error:g}")


class PerTensor:
    """One range for the whole constant; TensorFlow's Dequantize turns it back."""

    def __init__(self, tensor: Tensor, mode: str) -> None:
        values = np.asarray(tensor.numpy(), np.float32)
        self.mode = "SCALED" if mode == "SCALED" else "MIN_FIRST"
        quantize = {"MIN_FIRST": _min_first, "SCALED": _scaled, "legacy": _legacy}[mode]
        self.quantized, self.low, self.high = quantize(values)
        # MIN_FIRST is unsigned, SCALED signed.
        self.element = QINT8 if mode == "SCALED" else QUINT8
        self.description = f"stored in 8 bits, range {self.low:.6g} to {self.high:.6g}"

    @property
    def restored(self) -> Array:
        """The floats that a run computes from the quantized values."""
        if self.mode == "MIN_FIRST":
            return decode(self.quantized, np.float32(self.low), np.float32(self.high))
        # For qint8 Dequantize's step is the larger of -min / 128 and max / 127, and so this one.
        return np.asarray(self.quantized.astype(np.float32) * np.float32(self.high / 127))

    def build(self, site: Site, node: Node) -> tuple[Value, Value]:
        """The 8-bit constant and the float value made of it."""
        name = node.name
        stored = site.constant(
            stored_once(Tensor.from_array(self.quantized, self.element)), f"{name}_quantized_const"
        )
        low = site.constant(np.float32(self.low).reshape(()), f"{name}_quantized_min")
        high = site.constant(np.float32(self.high).reshape(()), f"{name}_quantized_max")
        attrs: dict[str, Attr] = {"T": self.element, "mode": self.mode.encode()}
        return stored, site.add("Dequantize", stored, low, high, name=f"{name}_dequantized", attrs=attrs)


class PerChannel:
    """One scale per output channel; plain Cast and Mul turn it back, since few runtimes have a Dequantize
    that does.
    """

    def __init__(self, tensor: Tensor, axes: tuple[int, ...]) -> None:
        values = np.asarray(tensor.numpy(), np.float32)
        others = tuple(i for i in range(values.ndim) if i not in axes)
        largest = np.abs(values).max(axis=others, keepdims=True)
        # A channel of zeros, or of numbers too small for 127 normal steps, gets the scale 1 and is zeros.
        self.scale = np.where(
            largest < 127 * SMALLEST_NORMAL, np.float32(1), largest / np.float32(127)
        ).astype(np.float32)
        self.quantized = np.clip(_rounded(values / self.scale), -127, 127).astype(np.int8)
        self.restored = self.quantized.astype(np.float32) * self.scale
        if tensor.size + 4 * self.scale.size >= tensor.storage.stored_bytes:
            raise Refuse("it would not get smaller")
        self.description = f"stored in 8 bits, {self.scale.size} channels with a scale each"

    def build(self, site: Site, node: Node) -> tuple[Value, Value]:
        """The 8-bit constant and the float value made of it."""
        name = node.name
        stored = site.constant(stored_once(Tensor.from_array(self.quantized, INT8)), f"{name}_q")
        cast = site.add(
            "Cast", stored, name=f"{name}_cast", attrs={"SrcT": INT8, "DstT": FLOAT}, device=node.device
        )
        scale = site.constant(Tensor.from_array(self.scale, FLOAT), f"{name}_scale")
        # Cast gives the quantized values as floats; the scale broadcasts along the channels.
        return stored, site.add("Mul", cast, scale, name=f"{name}_scaled", attrs={"T": FLOAT})


def _rounded(values: Array) -> Array:
    """To the nearest whole number, halves away from zero, in the type of the values."""
    whole = np.trunc(values)
    return np.asarray(whole + np.copysign(np.abs(values - whole) >= 0.5, values), values.dtype)


def _require_range(width: np.float32) -> None:
    # 255 steps of less than the smallest normal number: kernels that flush subnormal numbers would take the
    # step itself for zero.
    if not np.isfinite(width) or width < 256 * SMALLEST_NORMAL:
        raise Refuse(f"a range of width {width:.3g} cannot be divided into 255 steps")


def _min_first(values: Array) -> tuple[Array, float, float]:
    """Unsigned levels from min(0, lowest) to max(0, highest)."""
    # With 0 inside the range and `shift` a whole number, 0 is a quantized value: the zeros of pruned weights
    # come back exactly.
    low, high = min(np.float32(0), values.min()), max(np.float32(0), values.max())
    if low == high:  # all zeros; any range will do, an empty one would give NaN
        return np.zeros(values.shape, np.uint8), 0.0, 1.0
    with np.errstate(over="ignore"):
        width = np.float32(high - low)
    _require_range(width)
    scale = np.float32(np.float32(255) / width)
    shift = np.float32(_rounded(np.asarray(low * scale)))
    return _codes(values, scale, shift), float(low), float(high)


def _codes(values: Array, scale: np.float32, shift: np.float32) -> Array:
    """round(values * scale) - shift as bytes, halves away from zero; in pieces that stay in the cache."""
    flat = np.ascontiguousarray(values).reshape(-1)
    quantized = np.empty(flat.size, np.uint8)
    for start in range(0, flat.size, _PIECE):
        x = flat[start : start + _PIECE] * scale
        x += np.copysign(_BELOW_HALF, x)
        np.trunc(x, out=x)
        x -= shift
        quantized[start : start + _PIECE] = np.clip(x, 0, 255, out=x)
    result: Array = quantized.reshape(values.shape)
    return result


def _legacy(values: Array) -> tuple[Array, float, float]:
    """As `_min_first`, with the numbers of the original: computed in double, NaN as the lowest, and a range
    that reaches at least to the smallest normal number.
    """
    if not values.any():
        return _min_first(values)
    low = np.float32(min(0, np.nanmin(values, initial=0)))
    high = np.float32(max(SMALLEST_NORMAL, np.nanmax(values, initial=SMALLEST_NORMAL)))
    quantized = code_of(values, low, high, np.uint8).astype(np.uint8)
    return quantized, float(low), float(high)


def _scaled(values: Array) -> tuple[Array, float, float]:
    """Signed levels from -largest to largest; -128 is not used."""
    largest = np.abs(values).max()
    if largest == 0:
        return np.zeros(values.shape, np.int8), -1.0, 1.0
    _require_range(largest)
    step = np.float32(largest / np.float32(127))
    quantized = np.clip(_rounded(values / step), -127, 127).astype(np.int8)
    return quantized, -float(largest), float(largest)


# ---- Readers of a constant, and what they say about its layout


def uses_behind(node: Node) -> list[Use]:
    """Everything that reads a constant, also through Identity. O(edges in between)."""
    found: list[Use] = []
    stack = [node]
    while stack:
        for use in stack.pop().output().uses:
            if has(use.node.op, Trait.IDENTITY):
                stack.append(use.node)
            else:
                found.append(use)
    return found


def is_parameter(use: Use) -> bool:
    """True if a float input is a norm's parameter, a bias or a margin: few numbers that count much."""
    if use.node.op == "InstanceNorm" or has(use.node.op, Trait.BATCH_NORM):
        # Input 0 of a norm is its data.
        return use.index > 0
    return use.index == (2 if has(use.node.op, Trait.PAD) else 1) and has(
        use.node.op, Trait.PAD | Trait.BIAS_ADD
    )


def is_scale(node: Node) -> bool:
    """True if the constant is the factor that turns cast integers back into weights."""
    uses = node.output().uses
    return bool(uses) and all(
        use.node.op == "Mul" and any(v.node.op == "Cast" and is_integer(v.node) for v in use.node.inputs)
        for use in uses
    )


def is_integer(cast: Node) -> bool:
    """True if a Cast reads whole numbers."""
    source = cast.attrs.get("SrcT")
    return getattr(source, "kind", "") in ("i", "u", "q")


def channel_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a constant that count output channels, if all who read it agree; else None."""
    tensor = node.tensor
    assert tensor is not None
    rank = len(tensor.shape)
    # One constant cannot have scales along two axes: readers have to agree.
    answers = {_axes_for(use, rank) for use in uses_behind(node)}
    return answers.pop() if len(answers) == 1 else None


def _axes_for(use: Use, rank: int) -> tuple[int, ...] | None:
    kind = weights_of(use.node.op)
    if kind is None or not kind.axes or use.index != kind.input or rank != kind.rank:
        return None
    return output_axes(use.node, kind)
