"""Exported PyTorch programs written by hand, as PyTorch 2.13 lays them out."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import FormatError, ThinflowError

KINDS = {"uint8": 1, "float32": 7, "complex64": 10, "int64": 5, "int32": 4, "bool": 12, "float64": 8}


def meta(
    kind: str, sizes: Sequence[int | str], strides: Sequence[int] | None = None, offset: int = 0
) -> dict[str, Any]:
    """What a program says of a tensor; a text is the symbol of an open size."""
    steps: list[int] = []
    step = 1
    for size in reversed(sizes):
        steps.insert(0, step)
        step *= size if isinstance(size, int) else 1
    return {
        "dtype": KINDS[kind],
        "sizes": [{"as_int": s} if isinstance(s, int) else {"as_expr": {"expr_str": s}} for s in sizes],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": s} for s in (steps if strides is None else strides)],
        "storage_offset": {"as_int": offset},
        "layout": 7,
    }


def tensor(name: str) -> dict[str, Any]:
    """An argument that is a tensor."""
    return {"as_tensor": {"name": name}}


def node(target: str, outputs: Sequence[str], **arguments: Any) -> dict[str, Any]:
    """An op of a program; arguments are unions as PyTorch writes them."""
    return {
        "target": target if target.startswith(("torch.", "_operator")) else f"torch.ops.aten.{target}",
        "inputs": [{"name": n.rstrip("_"), "arg": a, "kind": 1} for n, a in arguments.items()],
        "outputs": [tensor(o) for o in outputs],
        "metadata": {},
        "name": outputs[0] if outputs else "none",
    }


def program(
    nodes: Sequence[Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
    outputs: Sequence[str],
    inputs: Sequence[str] = ("x",),
    weights: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON of a program; weights are parameters of the same name."""
    specs: list[dict[str, Any]] = [
        {"parameter": {"arg": {"name": f"p_{w}"}, "parameter_name": w}} for w in weights
    ]
    specs += [{"user_input": {"arg": tensor(i)}} for i in inputs]
    graph = {
        "inputs": [],
        "outputs": [],
        "nodes": list(nodes),
        "tensor_values": dict(values),
        "sym_int_values": {},
        "sym_bool_values": {},
    }
    signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor(o)}} for o in outputs]}
    return {
        "graph_module": {"graph": graph, "signature": signature, "module_call_graph": []},
        "opset_version": {"aten": 10},
        "range_constraints": {"s0": {"min_val": 1, "max_val": 64}},
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.13.0",
    }


def payload(
    path: str, kind: str, sizes: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0
) -> dict[str, Any]:
    """What an archive says of a stored tensor."""
    return {
        "path_name": path,
        "is_param": True,
        "use_pickle": False,
        "tensor_meta": meta(kind, sizes, strides, offset),
    }


def archive(
    path: Path,
    written: Mapping[str, Any] | bytes,
    weights: Mapping[str, Mapping[str, Any]] | None = None,
    stored: Mapping[str, bytes] | None = None,
    *,
    compression: int = zipfile.ZIP_STORED,
    **more: bytes,
) -> Path:
    """A .pt2 file.

    Args:
        path: the file.
        written: a program.
        weights: name -> `payload`.
        stored: file of the archive's weights -> bytes.
        more: further entries; one that is there already is replaced.
    """
    entries = {
        "archive_format": b"pt2",
        "byteorder": b"little",
        "models/model.json": written if isinstance(written, bytes) else json.dumps(written).encode(),
        "data/weights/model_weights_config.json": json.dumps({"config": weights or {}}).encode(),
        "data/constants/model_constants_config.json": b'{"config": {}}',
        **{f"data/weights/{k}": v for k, v in (stored or {}).items()},
        **{k.replace("__", "/"): v for k, v in more.items()},
    }
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in entries.items():
            file.writestr(f"model/{name}", content)
    return path


def linear(path: Path, **changes: Any) -> Path:
    """x [s0, 3] @ w^T + b, w [2, 3] and b [2] in one storage, w with its rows last."""
    w, b = np.arange(6, dtype=np.float32), np.array([10, 20], np.float32)
    weights = {
        "w": payload("weight_0", "float32", [2, 3], [1, 2]),
        "b": payload("weight_0", "float32", [2], [1], 6),
    }
    values = {
        "x": meta("float32", ["s0", 3]),
        "p_w": meta("float32", [2, 3]),
        "p_b": meta("float32", [2]),
        "y": meta("float32", ["s0", 2]),
    }
    made = node("linear.default", ["y"], input=tensor("x"), weight=tensor("p_w"), bias=tensor("p_b"))
    return archive(
        path,
        changes.pop("written", program([made], values, ["y"], weights=("w", "b"))),
        changes.pop("weights", weights),
        changes.pop("stored", {"weight_0": w.tobytes() + b.tobytes()}),
        **changes,
    )


def in_place(*nodes: dict[str, Any], outputs: tuple[str, ...] = ("y",), weights: tuple[str, ...] = ()) -> Any:
    """A program of [2, 3] numbers, fed x."""
    names = {name["as_tensor"]["name"] for n in nodes for name in n["outputs"]} | {"x", "p_w"}
    return program(nodes, dict.fromkeys(names, meta("float32", [2, 3])), list(outputs), weights=weights)


def run(path: Path, x: np.ndarray) -> np.ndarray:
    """What a program of one input and one output gives."""
    graph = thinflow.load(path)
    (y,) = thinflow.Session(graph, engine="reference").run([graph.outputs[0].name], {graph.inputs[0].name: x})
    return y


def refused(path: Path, what: str, hint: str = "", kind: type[ThinflowError] = FormatError) -> None:
    """Assert that a file is refused in such words, and told by its name."""
    with pytest.raises(kind) as caught:
        thinflow.load(path)
    assert what in caught.value.problem
    assert hint in str(caught.value)
    assert str(path) in str(caught.value)
