"""SavedModels in the lines of TensorFlow's saved_model_cli."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinflow.formats.metagraph import MetaGraph


def set_text(names: Iterable[str]) -> str:
    """`{'A', 'B'}`, sorted."""
    return "{" + ", ".join(map(repr, sorted(names))) + "}"


def all_lines(metas: Sequence[MetaGraph]) -> list[str]:
    """Everything `show --all` tells."""
    from thinflow.compat.saved_models import tags_of

    lines: list[str] = []
    for meta in metas:
        tags = ", ".join(tags_of(meta))
        lines += ["", f"MetaGraphDef with tag-set: '{tags}' contains the following SignatureDefs:"]
        for key in sorted(meta.message.signature_def):
            lines += ["", f"signature_def['{key}']:", *signature_lines(meta.message.signature_def[key], 1)]
        lines.append(ops_line(meta))
    functions = [line for meta in metas for line in _function_lines(meta)]
    # Without the first blank line, which is in front of the title already.
    return [*lines, "", "Concrete Functions:", *functions[1:]] if functions else lines


def ops_line(meta: MetaGraph) -> str:
    """The ops of a graph, its functions included."""
    from thinflow.compat.saved_models import op_counts, tags_of

    return (
        f"The MetaGraph with tag set {tags_of(meta)} contains the following ops: {set_text(op_counts(meta))}"
    )


def signature_lines(signature: Any, indent: int) -> list[str]:
    """Inputs, outputs and method of a SignatureDef message."""
    margin = "  " * indent
    lines = [f"{margin}The given SavedModel SignatureDef contains the following input(s):"]
    lines += _tensor_lines("inputs", signature.inputs, margin)
    lines.append(f"{margin}The given SavedModel SignatureDef contains the following output(s):")
    lines += _tensor_lines("outputs", signature.outputs, margin)
    return [*lines, f"{margin}Method name is: {signature.method_name}"]


def _tensor_lines(role: str, infos: Any, margin: str) -> list[str]:
    lines = []
    for name in sorted(infos):
        info = infos[name]
        lines += [
            f"{margin}  {role}['{name}'] tensor_info:",
            f"{margin}      dtype: {_dtype_name(info)}",
            f"{margin}      shape: {_shape_text(info.tensor_shape)}",
            f"{margin}      name: {info.name}",
        ]
    return lines


def _dtype_name(info: Any) -> str:
    known = info.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number
    return known[info.dtype].name if info.dtype in known else str(info.dtype)


def _shape_text(shape: Any) -> str:
    if shape.unknown_rank:
        return "unknown_rank"
    sizes = [str(d.size) for d in shape.dim]
    return f"({', '.join(sizes)})"


# --- functions ----------------------------------------------------------------------------------------------


def _function_lines(meta: MetaGraph) -> list[str]:
    """What can be called of the loaded object; a blank line before each."""
    from thinflow.compat.saved_models import callable_functions

    lines: list[str] = []
    for name, variants in callable_functions(meta):
        lines += ["", f"  Function Name: '{name}'"]
        for number, (positional, named) in enumerate(variants, 1):
            if positional:
                lines += [f"    Option #{number}", "      Callable with:"]
            for index, value in enumerate(positional, 1):
                lines += [f"        Argument #{index}", *_argument_lines(value)]
            for index, key in enumerate(sorted(named), 1):
                lines += [f"        Named Argument #{index}", f"          {key}"]
    return lines


def _argument_lines(value: Any) -> list[str]:
    margin = " " * 10
    kind = value.WhichOneof("kind")
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        return [f"{margin}{getattr(value, kind).name}: {_python(value)}"]
    if kind == "string_value":
        return [f"{margin}{value.string_value}"]
    if kind in ("list_value", "tuple_value"):
        # The original takes the last comma back with control characters, which only a terminal obeys.
        items = ", ".join(map(_python, getattr(value, kind).values))
        # Lists come back as a class of TensorFlow's own.
        return [f"{margin}DType: {'list' if kind == 'list_value' else 'tuple'}", f"{margin}Value: [{items}]"]
    return [f"{margin}DType: {_TYPES.get(kind, kind)}", f"{margin}Value: {_python(value)}"]


_TYPES = {
    "none_value": "NoneType",
    "bool_value": "bool",
    "int64_value": "int",
    "float64_value": "float",
    "dict_value": "dict",
    "named_tuple_value": "tuple",
    "tensor_shape_value": "TensorShape",
    "tensor_dtype_value": "DType",
}


def _python(value: Any) -> str:
    """A StructuredValue as Python would show it."""
    kind = value.WhichOneof("kind")
    held: Any = getattr(value, kind) if kind else None
    match kind:
        case None | "none_value":
            return "None"
        case "string_value":
            return repr(held)
        case "tensor_spec_value" | "bounded_tensor_spec_value":
            return _spec_text(held)
        case "tensor_shape_value":
            return _spec_shape(held)
        case "tensor_dtype_value":
            return _spec_type(held)
        case "list_value" | "tuple_value":
            items = ", ".join(map(_python, held.values))
            return f"[{items}]" if kind == "list_value" else f"({items}{',' * (len(held.values) == 1)})"
        case "dict_value":
            return "{" + ", ".join(f"{k!r}: {_python(held.fields[k])}" for k in sorted(held.fields)) + "}"
        case _:
            return str(held).replace("\n", " ").strip()


def _spec_text(spec: Any) -> str:
    name = repr(spec.name) if spec.name else "None"
    return f"TensorSpec(shape={_spec_shape(spec.shape)}, dtype={_spec_type(spec.dtype)}, name={name})"


def _spec_shape(shape: Any) -> str:
    if shape.unknown_rank:
        return "<unknown>"
    sizes = ["None" if d.size < 0 else str(d.size) for d in shape.dim]
    # Python's tuple of one has a comma.
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _spec_type(number: int) -> str:
    from thinflow.compat.saved_models import type_name

    return f"tf.{type_name(number)}"


def data(meta: MetaGraph) -> dict[str, Any]:
    """Everything for machines."""
    from thinflow.compat.saved_models import callable_functions, op_counts, tags_of

    def tensors(infos: Any) -> dict[str, Any]:
        return {
            name: {
                "dtype": _dtype_name(infos[name]),
                "shape": None
                if infos[name].tensor_shape.unknown_rank
                else [d.size for d in infos[name].tensor_shape.dim],
                "name": infos[name].name,
            }
            for name in sorted(infos)
        }

    signatures = meta.message.signature_def
    return {
        "tags": tags_of(meta),
        "signatures": {
            key: {
                "inputs": tensors(signatures[key].inputs),
                "outputs": tensors(signatures[key].outputs),
                "method": signatures[key].method_name,
            }
            for key in sorted(signatures)
        },
        "ops": op_counts(meta),
        "functions": [name for name, _ in callable_functions(meta)],
    }
