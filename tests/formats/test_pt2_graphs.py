"""Graphs that nodes of PyTorch's programs call: branches, and regions that run in some mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.formats.programs import archive, in_place, meta, node, refused, run, tensor
from thinflow.errors import UnsupportedOp
from thinflow.formats import load


def graph_of(name: str, inputs: list[str], output: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    """An argument that is a graph over [2, 3] numbers."""
    names = {*inputs, *(o["as_tensor"]["name"] for n in nodes for o in n["outputs"])}
    content = {
        "inputs": [tensor(i) for i in inputs],
        "outputs": [tensor(output)],
        "nodes": list(nodes),
        "tensor_values": dict.fromkeys(names, meta("float32", [2, 3])),
    }
    return {"as_graph": {"name": name, "graph": content}}


def calling(target: str, outputs: list[str], *arguments: dict[str, Any]) -> dict[str, Any]:
    """A node whose arguments have no names."""
    made = node(f"torch.ops.higher_order.{target}", outputs)
    made["inputs"] = [{"name": "", "arg": a, "kind": 1} for a in arguments]
    return made


def tensors(*names: str) -> dict[str, Any]:
    return {"as_tensors": [{"name": n} for n in names]}


def test_branches(tmp_path: Path) -> None:
    total = node("sum.default", ["s"], self=tensor("x"))
    above = node("gt.Scalar", ["c"], self=tensor("s"), other={"as_int": 0})
    one = graph_of("g", ["u"], "v", node("neg.default", ["v"], self=tensor("u")))
    other = graph_of("g", ["u"], "v", node("exp.default", ["v"], self=tensor("u")))
    written = in_place(total, above, calling("cond", ["y"], tensor("c"), one, other, tensors("x")))
    values = written["graph_module"]["graph"]["tensor_values"]
    values["s"], values["c"] = meta("float32", []), meta("bool", [])
    path = archive(tmp_path / "a.pt2", written)
    assert sorted(load(path).functions) == ["g", "g_1"]
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(run(path, x), -x)
    assert np.allclose(run(path, -x), np.exp(-x))


def test_graphs_that_only_wrap(tmp_path: Path) -> None:
    """PyTorch puts what runs without gradients into a graph of its own."""
    inner = graph_of("g", ["u"], "v", node("neg.default", ["v"], self=tensor("u")))
    call = calling("wrap_with_set_grad_enabled", ["y"], {"as_bool": False}, inner, tensor("x"))
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(run(archive(tmp_path / "a.pt2", in_place(call)), x), -x)
    words: list[dict[str, Any]] = [
        {"as_string": "cuda"},
        {"as_none": True},
        {"as_bool": True},
        {"as_none": True},
    ]
    call = calling("wrap_with_autocast", ["y"], *words, inner, tensor("x"))
    path = archive(tmp_path / "b.pt2", in_place(call))
    with pytest.raises(UnsupportedOp, match="compute in another type by themselves"):
        thinflow.load(path)


def test_damaged_graphs(tmp_path: Path) -> None:
    inner = graph_of("g", ["u"], "w", node("neg.default", ["v"], self=tensor("u")))
    call = calling("wrap_with_set_grad_enabled", ["y"], {"as_bool": False}, inner, tensor("x"))
    refused(archive(tmp_path / "a.pt2", in_place(call)), "'w' is read and nothing writes it")
    write = graph_of("g", ["u"], "v", node("neg_.default", ["v"], self=tensor("u")))
    call = calling("wrap_with_set_grad_enabled", ["y"], {"as_bool": False}, write, tensor("x"))
    path = archive(tmp_path / "b.pt2", in_place(call))
    refused(path, "it changes what its graph is given", kind=UnsupportedOp)
    deep = inner
    for _ in range(30):
        call = calling("wrap_with_set_grad_enabled", ["v"], {"as_bool": False}, deep, tensor("u"))
        deep = graph_of("g", ["u"], "v", call)
    call = calling("wrap_with_set_grad_enabled", ["y"], {"as_bool": False}, deep, tensor("x"))
    refused(archive(tmp_path / "c.pt2", in_place(call)), "its graphs are nested too deeply")
