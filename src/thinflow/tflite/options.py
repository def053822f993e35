"""Options of operators: tables with fields by name to and from the file, and maps of names for custom ops."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from thinflow.errors import FormatError, GraphError, closest
from thinflow.ir.types import DType
from thinflow.program.model import Operator, T
from thinflow.tflite import schema
from thinflow.wire.flatbuffer import Table, Vector, scalar


class UnknownOptions(FormatError):
    """An operator has another option table than its op is known to have."""


def encode_options(operator: Operator[T]) -> tuple[int, dict[int, Any] | None, bool]:
    """(union type, option table or None, whether it goes into the second union)."""
    name = schema.options_of(operator.code)
    fields = {f.name: f for f in schema.option_fields(name)}
    for given in operator.options:
        if given not in fields:
            raise GraphError(f"{operator!r} has no option '{given}'", hint=closest(given, fields))
    if not name:
        return 0, None, False
    table: dict[int, Any] = {}
    for option in fields.values():
        value = operator.options.get(option.name)
        if value is None:
            continue
        if option.kind == "str":
            table[option.slot] = str(value)
        elif option.kind.startswith("["):
            table[option.slot] = Vector(option.kind[1:-1], tuple(value))
        else:
            # Defaults are left out, as flatbuffers does it.
            table[option.slot] = scalar(option.stored_as, stored(option, value, operator), option.default)
    second = name in schema.OPTION_2_NUMBERS
    return (schema.OPTION_2_NUMBERS if second else schema.OPTION_NUMBERS)[name], table, second


def stored(option: schema.OptionField, value: Any, operator: Operator[Any]) -> float:
    """An option's number in the file."""
    number: float | None
    if option.kind == "dtype":
        number = schema.tensor_type(value) if isinstance(value, DType) else int(value)
    elif option.kind in schema.ENUMS:
        number = schema.enum_number(option.kind, value)
    elif option.kind == "f32":
        number = float(value)
    else:
        number = bool(value) if option.kind == "bool" else int(value)
    if number is None:
        raise GraphError(f"{operator!r}: option {option.name} cannot be {value}")
    return number


def decode_options(code: str, entry: Table) -> dict[str, Any]:
    """Every field of the op's option table, defaults included; none if the file has no table."""
    # Slots 11 and 12 hold the second union, for ops that came after the first was full.
    second = entry.scalar(11, "u8") != 0
    number = entry.scalar(11 if second else 3, "u8")
    table = entry.table(12 if second else 4)
    if number == 0 or table is None:
        return {}
    name = schema.option_name(number, second=second)
    if name is None or name != schema.options_of(code):
        raise UnknownOptions(f"{code} has options of type {name or number}, which cannot be kept")
    options: dict[str, Any] = {}
    for option in schema.option_fields(name):
        if option.kind == "str":
            value: Any = table.string(option.slot)
        elif option.kind.startswith("["):
            value = table.numbers(option.slot, option.kind[1:-1])
        else:
            value = table.scalar(option.slot, option.stored_as, option.default)
            if option.stored_as == "bool":
                value = bool(value)
            elif option.kind == "dtype":
                # A number that is newer than the schema here stays a number, and is written back as it was.
                value = schema.dtype_of(value) or value
            elif option.kind in schema.ENUMS:
                value = schema.enum_value(option.kind, value)
        if value is not None:
            options[option.name] = value
    return options


# --- custom options -----------------------------------------------------------------------------------------
#
# FlexBuffers, written as far as options of custom ops need them: one map from names to numbers.
#
#     root value (offset, type, width)  ->  map: [keys vector, width, count, values, types]  ->  keys
#
# Everything is stored with one width, 4 bytes, or 8 when an integer asks for it. Keys are sorted, since
# readers look them up by bisection. Offsets point backwards and are counted from where they stand.


Number = bool | int | float

# Numbers of FlexBuffers' types. A type byte is the type above two bits that index the widths.
_INT, _FLOAT, _MAP, _BOOL = 1, 3, 9, 26
_WIDTHS = (1, 2, 4, 8)


def encode_map(values: Mapping[str, Number]) -> bytes:
    """The bytes of a map; bool, int (64 bits) and float (32 bits) keep their kind."""
    wide = any(isinstance(v, int) and not -(2**31) <= v < 2**31 for v in values.values())
    width = 8 if wide else 4
    out = bytearray()
    starts = []
    # Sorted letters are sorted UTF-8 bytes, the order in which readers compare keys.
    names = sorted(values)
    for name in names:
        starts.append(len(out))
        out += name.encode() + b"\0"
    out += bytes(-len(out) % width)
    word = "<Q" if wide else "<I"
    out += struct.pack(word, len(names))
    keys = len(out)
    for start in starts:
        out += struct.pack(word, len(out) - start)
    # In front of a map's values: how far back its keys are, their width, and how many there are.
    out += struct.pack(word, len(out) - keys) + struct.pack(word, width) + struct.pack(word, len(names))
    elements = len(out)
    packed_width = _WIDTHS.index(width)
    for name in names:
        out += _stored(values[name], wide)
    # Types take a byte each, whatever the width of the values before them.
    out += bytes(_kind(values[name]) << 2 | packed_width for name in names)
    out += bytes(-len(out) % width)
    out += struct.pack(word, len(out) - elements)
    return bytes(out + bytes((_MAP << 2 | packed_width, width)))


def _kind(value: Number) -> int:
    return _BOOL if isinstance(value, bool) else _INT if isinstance(value, int) else _FLOAT


def _stored(value: Number, wide: bool) -> bytes:
    if isinstance(value, float):
        return struct.pack("<d" if wide else "<f", value)
    return struct.pack("<q" if wide else "<i", value)
