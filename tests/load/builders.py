"""Small models with variables, written as TensorFlow writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.checkpoints import write_checkpoint
from tests.library import graph_of, node
from thinflow.engines.session import Session
from thinflow.formats import graphdef
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, DType
from thinflow.load.checkpoint_keys import variables
from thinflow.load.variable_handles import replace_variables
from thinflow.wire import protos

W = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
V = np.array([10, 20, 30], np.float32)
VALUES = {"w": W, "v": V}


def shape(*sizes: int) -> str:
    """A shape as attribute text; -1 is unknown."""
    return f"shape {{ {' '.join(f'dim {{ size: {s} }}' for s in sizes)} }}"


def variable(name: str, *sizes: int, dtype: DType = FLOAT) -> str:
    return node(name, "VarHandleOp", dtype=dtype, shape=shape(*sizes))


def reference(name: str, *sizes: int) -> str:
    """A variable of old."""
    return node(name, "VariableV2", dtype=FLOAT, shape=shape(*sizes))


def placeholder(name: str, *sizes: int, dtype: DType = FLOAT) -> str:
    return node(name, "Placeholder", dtype=dtype, shape=shape(*sizes))


def read(name: str, handle: str, dtype: DType = FLOAT) -> str:
    return node(name, "ReadVariableOp", handle, dtype=dtype)


def text_constant(name: str, *values: str) -> str:
    """A vector of strings."""
    strings = " ".join(f"string_val: '{v}'" for v in values)
    tensor = f"tensor {{ dtype: 7 tensor_shape {{ dim {{ size: {len(values)} }} }} {strings} }}"
    return node(name, "Const", dtype="type: 7", value=tensor)


def saver(*assignments: tuple[str, str, str], scope: str = "save", op: str = "AssignVariableOp") -> list[str]:
    """The restore operations that fill (node, key, part) each."""
    names = [key for _, key, _ in assignments]
    nodes = [
        text_constant(f"{scope}/Const", "model"),
        text_constant(f"{scope}/names", *names),
        text_constant(f"{scope}/parts", *(part for _, _, part in assignments)),
        node(
            f"{scope}/RestoreV2",
            "RestoreV2",
            *(f"{scope}/{end}" for end in ("Const", "names", "parts")),
            dtypes=tuple([FLOAT] * len(names)),
        ),
    ]
    for port, (target, _, _) in enumerate(assignments):
        nodes.append(node(f"{scope}/Assign_{port}", op, target, f"{scope}/RestoreV2:{port}", dtype=FLOAT))
    waits = [f"^{scope}/Assign_{port}" for port in range(len(assignments))]
    return [*nodes, node(f"{scope}/restore_all", "NoOp", *waits)]


def meta_text(
    nodes: Iterable[str],
    functions: Iterable[str] = (),
    *,
    tags: Iterable[str] = ("serve",),
    signatures: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] | None = None,
    more: str = "",
) -> str:
    """A MetaGraphDef as text.

    Args:
        nodes, functions: of the graph.
        tags: of the graph.
        signatures: key -> (inputs, outputs), each name -> value.
        more: further fields.
    """
    graph = "\n".join([*(f"node {{ {n} }}" for n in nodes), f"library {{ {' '.join(functions)} }}"])
    marks = " ".join(f"tags: '{t}'" for t in tags)
    entries = []
    for key, (inputs, outputs) in (signatures or {}).items():
        sides = [_side("inputs", inputs), _side("outputs", outputs)]
        entries.append(
            f"signature_def {{ key: '{key}' value {{ {' '.join(sides)} method_name: 'predict' }} }}"
        )
    return f"meta_info_def {{ {marks} }} graph_def {{ {graph} }} {' '.join(entries)} {more}"


def _side(field: str, names: Mapping[str, str]) -> str:
    info = "dtype: DT_FLOAT tensor_shape { dim { size: -1 } dim { size: 2 } }"
    return " ".join(
        f"{field} {{ key: '{name}' value {{ name: '{value}' {info} }} }}" for name, value in names.items()
    )


def write_model(
    folder: Path, *metas: str, values: Mapping[str, Any] | None = None, text: bool = False
) -> Path:
    """A SavedModel of graphs given as text, with variables."""
    folder.mkdir(exist_ok=True)
    content = "saved_model_schema_version: 1\n" + "\n".join(f"meta_graphs {{ {m} }}" for m in metas)
    if text:
        (folder / "saved_model.pbtxt").write_text(content)
    else:
        message = protos.from_text("SavedModel", content.encode())
        (folder / "saved_model.pb").write_bytes(protos.serialize(message))
    if values is not None:
        (folder / "variables").mkdir(exist_ok=True)
        write_values(folder / "variables" / "variables", values)
    return folder


def write_values(prefix: Path, values: Mapping[str, Any]) -> Path:
    write_checkpoint(prefix, {name: Tensor.from_array(np.asarray(value)) for name, value in values.items()})
    return prefix


def product(out: str = "y", weights: str = "w") -> list[str]:
    """y = x @ w, with a variable w."""
    return [
        placeholder("x", -1, 2),
        variable(weights, 2, 3),
        read("read", weights),
        node(out, "MatMul", "x", "read", T=FLOAT),
    ]


SIGNATURE = {"serving_default": ({"image": "x:0"}, {"scores": "y:0"})}


def frozen(nodes: Iterable[str], functions: Iterable[str] = ()) -> Graph:
    """The graph with every variable holding W, written and read back, so that nothing is lost on the way."""
    graph = graph_of(nodes, functions)
    replace_variables(graph, {v: Tensor.from_array(W) for v in variables(graph)})
    again = graphdef.from_bytes(graphdef.to_bytes(graph))
    assert not [p for p in find_problems(again) if p.kind != "unused"]
    return again


def answer(graph: Graph, **feeds: np.ndarray) -> np.ndarray:
    graph.inputs = [graph.value(name) for name in feeds]
    graph.outputs = [graph.value("y")]
    return Session(graph, engine="reference").run(["y"], feeds)[0]
