"""Refusal of options and operands that the op's rule has not looked at, in place of silence about them.

A rule reads the options and operands that it understands. Whatever else is there may change what the op
computes: an option of a newer version, say. Then the op is refused by the option's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thinflow.errors import UnsupportedOp

if TYPE_CHECKING:
    from thinflow.lift.lifter import Call

_OURS = frozenset({"absent_inputs", "captures", "custom_options", "version", "stored_bytes"})
"""What our readers of files add to the options of an op; and see `_OUR_BEGINNINGS`."""
_OUR_BEGINNINGS = ("_", "quantization_", "intermediate_")
_DEFAULTS: Mapping[str, Any] = {"saturate": 1, "spatial": 1, "stash_type": 1, "round_mode": "up"}
"""Values that say what is so without the option, where that is neither 0 nor empty."""
_ANY_OP = frozenset({"consumed_inputs"})
"""Options of every op of ONNX that do not bear on results: memory that version 1 reused."""
_WINDOWS = frozenset({"kernel_shape", "pads"})
"""What follows from the weights, and what `auto_pad` and `output_shape` overrule."""
_ONNX: Mapping[str, frozenset[str]] = {
    "BatchNormalization": frozenset({"is_test", "momentum"}),
    "Conv": _WINDOWS,
    "ConvInteger": _WINDOWS,
    "ConvTranspose": _WINDOWS | {"auto_pad"},
    "Dropout": frozenset({"is_test", "ratio", "seed"}),
    "Gemm": frozenset({"broadcast"}),
    "MaxPool": frozenset({"pads", "storage_order"}),
    "AveragePool": frozenset({"pads"}),
    "com.microsoft.QLinearAveragePool": frozenset({"pads"}),
    "Pad": frozenset({"value"}),
    "QLinearConv": _WINDOWS,
    "Resize": frozenset({"cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"}),
    "TopK": frozenset({"sorted"}),
}
"""Op -> options that only say more of what its rule refuses, or that inference does not read."""
_TFLITE = frozenset(
    {
        *("asymmetric_quantize_inputs", "pot_scale_int16", "quantized_bias_type", "validate_indices"),
        *("in_data_type", "out_data_type", "values_count", "new_shape", "keep_num_dims", "proj_clip"),
    }
)
"""Options of LiteRT's ops that repeat types and shapes, or that say how its kernels compute."""
_OPERANDS: Mapping[str, frozenset[int]] = {
    "onnx.Dropout": frozenset({1}),
    "onnx.Resize": frozenset({1}),
    "onnx.Pad": frozenset({2}),
    "tfl.TRANSPOSE_CONV": frozenset({0}),
}
"""Op -> operands that need not be looked at: a rate of dropout, the region of a mode that is refused."""


def refuse_unread(call: Call) -> None:
    """Refuse an op that says more than its rule has looked at.

    Raises:
        UnsupportedOp: names the option, or the operand.
    """
    # What no rule of ours has looked at may be new, and change what the op computes.
    for option, value in call.node.attrs.items():
        if option not in call.read_options and _matters(call.node.op, option, value):
            raise UnsupportedOp(f"its option '{option}' is {_shown(value)}, which is not known here")
    free = _OPERANDS.get(call.node.op, frozenset())
    for place, operand in enumerate(call.xs):
        if operand is not None and place not in call.read_operands | free:
            raise UnsupportedOp(f"its operand {place} is not known here")


def _matters(op: str, option: str, value: Any) -> bool:
    if option in _OURS or option.startswith(_OUR_BEGINNINGS):
        return False
    vocabulary, _, name = op.partition(".")
    ignored = _TFLITE if vocabulary == "tfl" else _ANY_OP | _ONNX.get(name, frozenset())
    if option in ignored:
        return False
    # Off is not 0 here: without the option things are as with this value.
    if option in _DEFAULTS:
        return bool(_plain(value) != _DEFAULTS[option])
    return not _says_nothing(_plain(value))


def _says_nothing(value: Any) -> bool:
    """Whether a value is what an option that is switched off has."""
    # `False` equals 0, and so does 0.0.
    return isinstance(value, int | float | str | tuple) and value in (0, "", (), "NONE")


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _shown(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str | int | float):
        return repr(plain)[:40]
    return f"of {len(plain)} numbers" if isinstance(plain, tuple) else "given"
