"""What a Placeholder declares: types and shapes from what a user writes, and from the graph around it."""

from __future__ import annotations

from thinflow.analysis.shapes import placeholder_spec
from thinflow.errors import ParameterError
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, DType, Shape, TensorSpec, dtype
from thinflow.transforms._control import PLACEHOLDERS


def read_type(text: str) -> DType:
    """A type by its name.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return dtype(text.strip())
    except ParameterError as error:
        hint = error.hint or "write float, int32, uint8..."
        raise ParameterError(f"Couldn't understand type argument '{text}'", hint=hint) from None


def read_shape(text: str) -> Shape:
    """A shape from "1,224,224,3"; sizes of -1 or ? are unknown.

    Raises:
        ParameterError: it is not one.
    """
    body = text.strip().removeprefix("[").removesuffix("]").strip()
    if body == "unknown":
        return None
    if not body and "[" in text:
        return ()
    sizes: list[int | None] = []
    for item in body.split(","):
        size = item.strip()
        if size in {"-1", "?"}:
            sizes.append(None)
        elif size.isascii() and size.isdecimal() and int(size) < 1 << 63:
            sizes.append(int(size))
        else:
            hint = 'write sizes like "1,224,224,3"; ? for any size, "[]" for a scalar'
            raise ParameterError(f"Could not parse as shape: '{text}'", hint=hint)
    return tuple(sizes)


def found_spec(value: Value) -> TensorSpec:
    """Type and shape of a value that is to be fed, from its producer, shape inference and its readers.

    A type nobody tells is float, which most inputs are.
    """
    declared = placeholder_spec(value.node) if value.node.op in PLACEHOLDERS else value.spec
    shape = value.spec.shape if declared.shape is None else declared.shape
    return TensorSpec(declared.dtype or value.spec.dtype or _type_around(value) or FLOAT, shape)


def _type_around(value: Value) -> DType | None:
    reading = [(use.node, name) for use in value.uses for name in ("T", "SrcT")]
    producing = [(value.node, name) for name in ("dtype", "DstT", "out_type", "T")]
    for node, name in reading + producing:
        found = node.attrs.get(name)
        if isinstance(found, DType):
            return found
    return None
