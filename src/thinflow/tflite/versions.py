"""Op versions: the oldest runtime that can run an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thinflow.tflite import schema, version_rules
from thinflow.tflite.options import stored

if TYPE_CHECKING:
    from thinflow.tflite.model import Operator, Tensor


def op_version(operator: Operator) -> int:
    """The lowest version of a builtin op that covers the operator's types, ranks and options."""
    inputs, options, code = operator.inputs, operator.options, operator.code
    versions = [2 if code == "BROADCAST_TO" else 1]
    for rule in version_rules.type_rules().get(code, ()):
        operand = _operand(operator, rule.operand)
        if operand is not None:
            name = schema.storage_name(operand.dtype)
            # An int16 that carries a quantization is for another kernel than one that is a plain integer.
            quantized = rule.by_type.get(f"{name}q") if operand.quantization is not None else None
            versions.append(quantized or rule.by_type.get(name, 1))
    for name, version in version_rules.OPTION_VERSIONS.get(code, {}).items():
        fields = {f.name: f for f in schema.option_fields(schema.options_of(code))}
        # An option with its default is not in the file, so that old runtimes see nothing new.
        if name in options and stored(fields[name], options[name], operator) != fields[name].default:
            versions.append(version)
    shapes = [() if t is None or t.shape is None else t.shape for t in inputs]
    ranks = [len(shape) for shape in shapes]
    versions += [v for rank, v in version_rules.RANK_VERSIONS.get(code, ()) if ranks and ranks[0] >= rank]
    if code in version_rules.BROADCAST_VERSIONS and len(set(shapes[:2])) > 1 and max(ranks) > 4:
        versions.append(version_rules.BROADCAST_VERSIONS[code])
    if code in version_rules.HYBRID_VERSIONS:
        versions.append(_hybrid_version(operator, version_rules.HYBRID_VERSIONS[code]))
    special = _SPECIAL_VERSIONS.get(code)
    if special is not None:
        versions.append(special(operator, shapes))
    return max(versions)


def _operand(operator: Operator, number: int) -> Tensor | None:
    side: list[Tensor | None] | list[Tensor] = operator.outputs if number < 0 else operator.inputs
    number = 0 if number < 0 else number
    return side[number] if number < len(side) else None


def _hybrid_version(operator: Operator, hybrid: version_rules.Hybrid) -> int:
    x, w = _operand(operator, 0), _operand(operator, hybrid.weights)
    if x is None or w is None or x.dtype.name != "float" or schema.storage_name(w.dtype) != "int8":
        return 1
    if w.quantization is not None and w.quantization.is_per_channel:
        return max(hybrid.plain, hybrid.per_channel)
    return hybrid.asymmetric if operator.options.get("asymmetric_quantize_inputs") else hybrid.plain


def _int16_sum(operator: Operator, power_of_two: int, otherwise: int) -> int:
    x = _operand(operator, 0)
    if x is None or schema.storage_name(x.dtype) != "int16":
        return 1
    return power_of_two if operator.options.get("pot_scale_int16", True) else otherwise


def _mul_rescale(operator: Operator, shapes: list[Any]) -> int:
    parts = [_operand(operator, 0), _operand(operator, 1), _operand(operator, -1)]
    scales = [
        float(t.quantization.scale[0]) for t in parts if t and t.quantization and len(t.quantization.scale)
    ]
    if len(scales) < 3 or 0 in scales or parts[0] is None or parts[0].dtype.itemsize != 1:
        return 1
    # Older kernels requantize by factors below 1 only.
    return 3 if scales[0] * scales[1] / scales[2] >= 1 else 1


def _per_channel(number: int, version: int, types: tuple[str, ...]) -> Callable[[Operator, list[Any]], int]:
    def of(operator: Operator, shapes: list[Any]) -> int:
        x = _operand(operator, number)
        wide = x is not None and x.quantization is not None and x.quantization.is_per_channel
        return (
            version if x is not None and wide and (not types or schema.storage_name(x.dtype) in types) else 1
        )

    return of


def _grouped(operator: Operator, shapes: list[Any]) -> int:
    known = len(shapes) > 1 and len(shapes[0]) == 4 and len(shapes[1]) == 4
    # Groups: the weights have fewer input channels than x.
    return 6 if known and None not in (shapes[0][3], shapes[1][3]) and shapes[0][3] != shapes[1][3] else 1


def _not_4d(operator: Operator, shapes: list[Any]) -> int:
    x = _operand(operator, 0)
    return 3 if x is not None and x.shape is not None and len(x.shape) != 4 else 1


# What the tables cannot say.
_SPECIAL_VERSIONS: dict[str, Callable[[Operator, list[Any]], int]] = {
    "ADD": lambda o, s: _int16_sum(o, 1, 3),
    "SUB": lambda o, s: _int16_sum(o, 1, 5),
    "MUL": _mul_rescale,
    "CONV_2D": _grouped,
    "FULLY_CONNECTED": lambda o, s: 6 if len(o.inputs) == 2 else 1,
    "TRANSPOSE_CONV": lambda o, s: 3 if len(o.inputs) == 4 and o.inputs[3] is not None else 1,
    "DEQUANTIZE": _per_channel(0, 5, ("int8",)),
    "QUANTIZE": _per_channel(-1, 3, ()),
    "EMBEDDING_LOOKUP": _per_channel(1, 4, ()),
    "SPACE_TO_BATCH_ND": _not_4d,
    "BATCH_TO_SPACE_ND": _not_4d,
    "SELECT": lambda o, s: 3 if any(len(shape) == 5 for shape in s) else 1,
    "WHERE": lambda o, s: (
        1 if o.inputs and o.inputs[0] is not None and o.inputs[0].dtype.name == "bool" else 2
    ),
}
