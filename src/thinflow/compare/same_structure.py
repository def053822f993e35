"""Differences of two graphs in structure and constants, node by node, paired by name.

The rules and the words are those of TensorFlow's own comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.summary import tensor_text
from thinflow.compare.differences import difference
from thinflow.ir.attrs import Attr, FunctionAttr, PlaceholderAttr, ShapeAttr, attr_key
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, shape_text
from thinflow.ops._defaults import defaults_of


@dataclass(frozen=True)
class Rules:
    """Rules for what counts as a difference.

    Attributes:
        functions: also compare the library.
        versions: also compare `GraphDef.versions`.
        internal_attrs: also compare attributes that start with `_`.
        ignore_defaults: whether an absent attribute equals its default.
        rtol, atol: float tensors are equal where |a - b| <= atol + rtol |b|; both 0: bit by bit.
    """

    functions: bool = False
    versions: bool = False
    internal_attrs: bool = False
    ignore_defaults: bool = False
    rtol: float = 0.0
    atol: float = 0.0


def graph_differences(a: Graph, b: Graph, rules: Rules | None = None) -> list[str]:
    """Sentences, in the file order of `b`; empty if the graphs are equal.

    Node order, versions, functions and attributes that start with `_` do not count unless the rules say so.
    Reads constants.
    """
    rules = rules or Rules()
    found = _version_differences(a, b) if rules.versions else []
    for node in b:
        twin = a.find(node.name)
        if twin is None:
            found.append(f"Did not find expected node '{node_summary(node)}'")
        else:
            found += _node_differences(twin, node, rules)
    found += [f"Found unexpected node '{node_summary(n)}'" for n in a if n.name not in b]
    return found + (_library_differences(a, b, rules) if rules.functions else [])


def _node_differences(a: Node, b: Node, rules: Rules) -> list[str]:
    name = f"Node named '{b.name}'"
    if a.op != b.op:
        return [f"{name} has op '{a.op}' that is not expected '{b.op}'"]
    found: list[str] = []
    if a.device != b.device:
        found.append(f"{name} has device '{a.device}' that is not expected '{b.device}'")
    return found + _input_differences(name, a, b) + _attr_differences(name, a, b, rules)


def _input_differences(name: str, a: Node, b: Node) -> list[str]:
    one, other = input_texts(a), input_texts(b)
    if len(one) != len(other):
        return [f"{name} has inputs '{', '.join(one)}' that don't match expected '{', '.join(other)}'"]
    # Data inputs count in order, control inputs as a set.
    # The larger number, so that data in one where the other only waits counts as another input.
    data = max(len(a.inputs), len(b.inputs))
    found = [
        f"{name} has input {index} '{x}' that doesn't match expected '{y}'"
        for index, (x, y) in enumerate(zip(one[:data], other[:data], strict=True))
        if x != y
    ]
    controls = set(one[data:]), set(other[data:])
    found += [f"{name} missing expected control input '{n}'" for n in sorted(controls[1] - controls[0])]
    return found + [f"{name} has unexpected control input '{n}'" for n in sorted(controls[0] - controls[1])]


def _attr_differences(name: str, a: Node, b: Node, rules: Rules) -> list[str]:
    found = []
    one, other = (_attrs(n, rules) for n in (a, b))
    for key in sorted({*one, *other}):
        if key not in one:
            found.append(f"{name} missing expected attr '{key}' with value: {attr_value_text(other[key])}")
        elif key not in other:
            found.append(f"{name} has unexpected attr '{key}' with value: {attr_value_text(one[key])}")
        elif (gap := _gap(one[key], other[key], rules)) is not None:
            has, wanted = attr_value_text(one[key]), attr_value_text(other[key])
            found.append(
                f"{name} has attr '{key}' with value: {has} that does not match expected: {wanted}{gap}"
            )
    return found


def _attrs(node: Node, rules: Rules) -> dict[str, Attr]:
    """The attributes that count, with defaults filled in if absent ones equal them."""
    own = {k: v for k, v in node.attrs.items() if rules.internal_attrs or not k.startswith("_")}
    filled = defaults_of(node.op) if rules.ignore_defaults else None
    # What a node states wins over the default.
    return {**(filled or {}), **own}


def _gap(a: Attr, b: Attr, rules: Rules) -> str | None:
    """None if two values are equal; else what more there is to say, for tensors compared with tolerances."""
    if attr_key(a) == attr_key(b):
        return None
    tolerant = (rules.rtol or rules.atol) and isinstance(a, Tensor) and isinstance(b, Tensor)
    if not tolerant or not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return ""
    if a.dtype is not b.dtype or a.shape != b.shape or not a.dtype.is_floating:
        return ""
    import numpy as np

    x, y = a.numpy(), b.numpy()
    wide = x.astype(np.float64), y.astype(np.float64)
    if np.allclose(*wide, rtol=rules.rtol, atol=rules.atol, equal_nan=True):
        return None
    found = difference(x, y)
    place = list(found.index)
    return f" (largest difference {found.largest:.6g}, {found.relative:.3g} of the largest value, at {place})"


def _version_differences(a: Graph, b: Graph) -> list[str]:
    if a.versions == b.versions:
        return []
    return [f"The graph has versions {a.versions} that do not match expected {b.versions}"]


def _library_differences(a: Graph, b: Graph, rules: Rules) -> list[str]:
    found = [f"Did not find expected function '{n}'" for n in sorted(set(b.functions) - set(a.functions))]
    found += [f"Found unexpected function '{n}'" for n in sorted(set(a.functions) - set(b.functions))]
    for name in sorted(set(a.functions) & set(b.functions)):
        one, other = a.functions[name].graph, b.functions[name].graph
        found += [f"Function '{name}': {text}" for text in graph_differences(one, other, rules)]
    return found


# --- nodes and attributes in the words of TensorFlow's own messages -----------------------------------------


LONGEST = 80
"""Characters of a string that are shown; of a longer one the first and last ten."""
MOST_ITEMS = 50
_ENDS = 10
# As absl's CEscape, by which TensorFlow's messages quote
# strings: the short escapes of C, octal for other bytes.
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def attr_value_text(value: Attr) -> str:
    """`DT_FLOAT`, `"SAME"`, `[1,?]`, `foo[T=DT_INT32]`, `Tensor<type: float shape: [2] values: 1 2>`."""
    if isinstance(value, tuple):
        shown = [attr_value_text(v) for v in value]
        if len(shown) > MOST_ITEMS:
            shown = [*shown[:5], "...", *shown[-5:]]
        return "[" + ", ".join(shown) + "]"
    if isinstance(value, bytes):
        return f'"{_escaped(_shortened(value))}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, DType):
        return f"DT_{value.name.upper()}"
    if isinstance(value, ShapeAttr):
        return "<unknown>" if value.dims is None else shape_text(value.dims)
    if isinstance(value, Tensor):
        return tensor_text(value)
    if isinstance(value, FunctionAttr):
        pairs = sorted(f"{k}={attr_value_text(v)}" for k, v in value.attrs.items())
        return f"{value.name}[{', '.join(pairs)}]"
    return f"${value.name}" if isinstance(value, PlaceholderAttr) else str(value)


def _shortened(text: bytes) -> bytes:
    return text if len(text) < LONGEST else text[:_ENDS] + b"..." + text[-_ENDS:]


def _escaped(text: bytes) -> str:
    return "".join(
        _ESCAPES.get(chr(c)) or (chr(c) if 32 <= c < 127 else f"\\{c:03o}") for c in text
    )  # octal, as C does


def node_summary(node: Node) -> str:
    """`{{node y}} = Add[T=DT_FLOAT, _device="/cpu:0"](x, x:1, ^z)`."""
    attrs = [f"{k}={attr_value_text(v)}" for k, v in sorted(node.attrs.items())]
    if node.device:
        attrs.append(f'_device="{node.device}"')
    return f"{{{{node {node.name}}}}} = {node.op}[{', '.join(attrs)}]({', '.join(input_texts(node))})"


def input_texts(node: Node) -> list[str]:
    """Data inputs, then control inputs, as a file spells them."""
    return [v.name for v in node.inputs] + [f"^{n.name}" for n in node.control_inputs]
