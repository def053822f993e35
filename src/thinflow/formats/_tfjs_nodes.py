"""Nodes of TensorFlow.js graphs, in JSON: what its converter fused, as TensorFlow writes it.

_FusedConv2D, FusedDepthwiseConv2dNative, _FusedMatMul  ->  the layer, BiasAdd, an activation
BiasAdd of what is no vector  ->  AddV2, which it was
Prelu(x, alpha)  ->  Relu(x) - alpha * Relu(-x), as Keras spells it
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from thinflow.errors import FormatError

Node = dict[str, Any]

_FUSED = re.compile(r"_?Fused(Conv2D|DepthwiseConv2dNative|MatMul)")
"""A layer that more is fused into; TensorFlow.js has its own name for one of them."""
_ACTIVATION = re.compile("Relu6?|Elu|Sigmoid|Tanh|LeakyRelu|Prelu")
_PORTS = (":0", ":output:0")
"""The only output of a constant, as graphs and functions name it."""
_KEPT = frozenset(
    {
        *("T", "strides", "padding", "explicit_paddings", "data_format", "dilations"),
        *("transpose_a", "transpose_b"),
    }
)
"""Attributes of the layer itself; the others are of what is fused."""


class Unfuser:
    """Nodes with new ones among them, whose names nobody else has.

    Args:
        nodes: the nodes of one graph or function.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._names = {str(n.get("name")) for n in nodes}
        self._vectors = {f"{n['name']}{port}" for n in nodes if _is_vector(n) for port in ("", *_PORTS)}
        self._nodes = nodes
        self._made: list[Node] = []

    def nodes(self) -> list[Node]:
        """The nodes, in the same order; a node that was taken apart ends in one of its name.

        Raises:
            FormatError: something is fused that is not known here; names the node.
        """
        for node in self._nodes:
            try:
                if fused := _FUSED.fullmatch(str(node.get("op"))):
                    self._layer(node, fused[1])
                elif node.get("op") == "Prelu":
                    self._prelu(node, *_split(node, 2))
                elif node.get("op") == "BiasAdd":
                    self._bias(node)
                else:
                    self._made.append(node)
            except FormatError as error:
                raise error.at(f"node '{node.get('name')}'") from error
            except (AttributeError, KeyError, TypeError) as error:
                raise FormatError("its attributes are damaged", f"node '{node.get('name')}'") from error
        return self._made

    def _layer(self, node: Node, op: str) -> None:
        attrs = node.get("attr") or {}
        fused = [name for name in _texts(attrs.get("fused_ops")) if name != "NoOp"]
        operands = _split(node, 2 + _whole(attrs.get("num_args")))
        waits = operands[-1]
        own = {k: v for k, v in attrs.items() if k in _KEPT}
        rest = list(operands[2:-1])
        value = self._step(node, op, [*operands[:2], *waits], own, is_last=not fused)
        for place, name in enumerate(fused):
            is_last = place == len(fused) - 1
            if name == "BiasAdd":
                value = self._added(node, value, _next(rest), own | _typed(attrs), is_last=is_last)
            elif name == "Prelu" and is_last:
                self._prelu(node, value, _next(rest), [])
            elif _ACTIVATION.fullmatch(name) and is_last:
                slope = {"alpha": attrs["leakyrelu_alpha"]} if "leakyrelu_alpha" in attrs else {}
                more = slope if name == "LeakyRelu" else {}
                self._step(node, name, [value], _typed(attrs) | more, is_last=True)
            else:
                raise FormatError(f"'{name:.40}' is fused into it, which is not known here")
        if rest:
            raise FormatError(f"it has {len(rest)} operands more than what is fused into it takes")

    def _bias(self, node: Node) -> None:
        x, bias, waits = _split(node, 2)
        if waits:
            self._made.append(node)
        else:
            self._added(node, x, bias, node.get("attr") or {}, is_last=True)

    def _added(self, node: Node, x: str, bias: str, attrs: Node, *, is_last: bool) -> str:
        """A bias. The converter makes one of every sum with a product, and TensorFlow.js just adds."""
        form = {"data_format": attrs["data_format"]} if "data_format" in attrs else {}
        is_first = _text(form.get("data_format")).startswith("NC")
        op = "BiasAdd" if bias in self._vectors or is_first else "AddV2"
        more = form if op == "BiasAdd" else {}
        return self._step(node, op, [x, bias], _typed(attrs) | more, is_last=is_last)

    def _prelu(self, node: Node, x: str, alpha: str, waits: Sequence[str]) -> None:
        # TensorFlow.js's operator states no type, and has none but float.
        kind = {"T": {"type": "DT_FLOAT"}}
        above = self._step(node, "Relu", [x, *waits], kind)
        below = self._step(node, "Relu", [self._step(node, "Neg", [x], kind)], kind)
        slope = self._step(node, "Neg", [alpha], kind)
        part = self._step(node, "Mul", [slope, below], kind)
        self._step(node, "AddV2", [above, part], kind, is_last=True)

    def _step(self, node: Node, op: str, inputs: list[str], attrs: Node, *, is_last: bool = False) -> str:
        """A node of its own for one step; its name."""
        name = str(node.get("name"))
        name = name if is_last else free_name(f"{name}/{op}", self._names)
        made = {"name": name, "op": op, "input": inputs, "attr": attrs}
        self._made.append(made | ({"device": node["device"]} if "device" in node else {}))
        return name


def free_name(wished: str, names: set[str]) -> str:
    """A name that nobody has, which is taken then."""
    name, count = wished, 0
    while name in names:
        count += 1
        name = f"{wished}_{count}"
    names.add(name)
    return name


def _typed(attrs: Node) -> Node:
    return {"T": attrs["T"]} if "T" in attrs else {}


def _is_vector(node: Node) -> bool:
    """True for a constant of one axis."""
    place: Any = node if node.get("op") == "Const" else None
    for key in ("attr", "value", "tensor", "tensorShape", "dim"):
        place = place.get(key) if isinstance(place, dict) else None
    return isinstance(place, list) and len(place) == 1 and "name" in node


def _text(attr: Any) -> str:
    found = attr.get("s") if isinstance(attr, dict) else None
    return _texts({"list": {"s": [found]}})[0] if isinstance(found, str) else ""


def _split(node: Node, count: int) -> tuple[Any, ...]:
    """So many data inputs of a node, and the list of its control inputs."""
    inputs = node.get("input") or []
    if not isinstance(inputs, list) or not all(isinstance(n, str) for n in inputs):
        raise FormatError("its inputs are no list of names")
    data = [n for n in inputs if not n.startswith("^")]
    if len(data) != count:
        raise FormatError(f"it has {len(data)} operands, where {count} are needed")
    return (*data, [n for n in inputs if n.startswith("^")])


def _next(operands: list[str]) -> str:
    if not operands:
        raise FormatError("it has fewer operands than what is fused into it takes")
    return operands.pop(0)


def _texts(attr: Any) -> list[str]:
    """A list of texts, which JSON has in base64."""
    items = attr.get("list", {}).get("s", []) if isinstance(attr, dict) else []
    try:
        return [base64.b64decode(item, validate=True).decode() for item in items]
    except (binascii.Error, ValueError, TypeError) as error:
        raise FormatError("a list of its attributes is no base64") from error


def _whole(attr: Any) -> int:
    try:
        return int(attr.get("i", 0)) if isinstance(attr, dict) else 0
    except (TypeError, ValueError) as error:
        raise FormatError("a number of its attributes is none") from error
