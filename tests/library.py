"""Writes graphs with function libraries as GraphDef text, a line per node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.ir.types import DType, dtype


def node(name: str, op: str, *inputs: str, **attrs: Any) -> str:
    """The fields of a NodeDef; see `_value` for what attributes may be."""
    parts = [f'name: "{name}" op: "{op}"', *(f'input: "{i}"' for i in inputs)]
    parts += [f'attr {{ key: "{k}" value {{ {_value(v)} }} }}' for k, v in attrs.items()]
    return " ".join(parts)


def constant(name: str, value: Any, *inputs: str) -> str:
    """A Const of int32 or float, with control inputs."""
    array = np.asarray(value)
    element = dtype(np.int32 if array.dtype.kind == "i" else np.float32)
    dims = " ".join(f"dim {{ size: {d} }}" for d in array.shape)
    values = " ".join(f"{'int' if element.is_integer else 'float'}_val: {v}" for v in array.ravel().tolist())
    tensor = f"tensor {{ dtype: {element.number} tensor_shape {{ {dims} }} {values} }}"
    return node(name, "Const", *inputs, dtype=element, value=tensor)


def _value(value: Any) -> str:
    """An int, a DType or `@function`, tuples of the last two, `$placeholder`; other text as it is."""
    if isinstance(value, DType):
        return f"type: {value.number}"
    if isinstance(value, int):
        return f"i: {value}"
    if isinstance(value, tuple):
        items = (f"func {{ name: '{v[1:]}' }}" if isinstance(v, str) else _value(v) for v in value)
        return f"list {{ {' '.join(items)} }}"
    if value.startswith("@"):
        return f"func {{ name: '{value[1:]}' }}"
    return f"placeholder: '{value[1:]}'" if value.startswith("$") else value


def stored_name(graph: Graph, name: str) -> str:
    """What a function of that name is called in a file it was written to: edited ones get another name."""
    (found,) = (n for n in graph.functions if n.partition("__edited_")[0] == name)
    return found


def function(
    name: str,
    arguments: dict[str, DType | str],
    nodes: Iterable[str],
    results: dict[str, str],
    more: str = "",
) -> str:
    """A FunctionDef: argument -> type (or the name of a type attribute), result -> what the body calls it."""

    def declared(kind: str, entry: str, element: DType | str | None) -> str:
        written = (
            f"type_attr: '{element}'"
            if isinstance(element, str)
            else f"type: {element.number if element else 1}"
        )
        return f"{kind} {{ name: '{entry}' {written} }}"

    signature = " ".join(
        [f"name: '{name}'"]
        + [declared("input_arg", a, element) for a, element in arguments.items()]
        + [declared("output_arg", r, None) for r in results]
    )
    returns = " ".join(f"ret {{ key: '{r}' value: '{value}' }}" for r, value in results.items())
    body = " ".join(f"node_def {{ {n} }}" for n in nodes)
    return f"function {{ signature {{ {signature} }} {body} {returns} {more} }}"


def graph_of(nodes: Iterable[str], functions: Iterable[str] = ()) -> Graph:
    """The graph of some nodes that may call some functions."""
    return graphdef.from_text(_file(nodes, functions))


def _file(nodes: Iterable[str], functions: Iterable[str]) -> str:
    return "\n".join([*(f"node {{ {n} }}" for n in nodes), f"library {{ {' '.join(functions)} }}"])
