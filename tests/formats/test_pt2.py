"""PyTorch's exported programs: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.formats.programs import (
    archive,
    in_place,
    linear,
    meta,
    node,
    payload,
    program,
    refused,
    run,
    tensor,
)
from thinflow.errors import GraphError, ThinflowError, UnsupportedOp
from thinflow.formats import load, recognise, save

EXPORT = "torch.export.save(torch.export.export(model.eval(), (example,))"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_tensors_share_a_storage_with_strides_and_offsets(tmp_path: Path, compression: int) -> None:
    path = linear(tmp_path / "model.anything", compression=compression)
    x = np.array([[1, 2, 3]], np.float32)
    w = np.arange(6).reshape(3, 2).T
    assert run(path, x).tolist() == (x @ w.T + [10, 20]).tolist()


def test_what_the_file_says_is_kept(tmp_path: Path) -> None:
    path = linear(tmp_path / "a.pt2")
    assert recognise(path).name == "pt2"
    graph = load(path)
    assert graph.facts == {"schema": "8.20", "producer": "PyTorch 2.13.0", "sizes": "s0 from 1 to 64"}
    assert [str(v.spec) for v in graph.inputs] == ["float[?,3]"]
    assert [n.op for n in graph] == ["Const", "Const", "Placeholder", "aten.linear"]
    assert [n.name for n in graph] == ["w", "b", "x", "y"]
    assert save(graph, tmp_path / "copy.pt2") == path.stat().st_size
    assert (tmp_path / "copy.pt2").read_bytes() == path.read_bytes()
    graph.rename(graph.value("y").node, "z")
    with pytest.raises(GraphError, match="changed since it was read"):
        save(graph, tmp_path / "copy.pt2")


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    graph = load(linear(tmp_path / "a.pt2"))
    tensor_ = graph.value("b").node.tensor
    assert tensor_ is not None
    assert not tensor_.numpy().flags.owndata


@pytest.mark.parametrize(
    ("weight", "what"),
    [
        (payload("weight_0", "float32", [2, 3], [1, 2], 3), "it reaches to byte 36 of a storage of 32"),
        (payload("weight_0", "float32", [2, 3], [1 << 60, 1]), "of a storage of 32"),
        (
            payload("weight_0", "float32", [1 << 40, 3], [0, 0]),
            "it repeats its storage to 3298534883328",
        ),
        (payload("weight_0", "float32", [2, 3], [-1, 1]), "its strides are not all known and positive"),
        (payload("weight_0", "float32", [2, -3], [1, 1]), "its sizes are not all known and positive"),
        (payload("weight_0", "float32", [2, 3], [1, 2], -1), "of a storage of 32"),
        (payload("weight_0", "float32", [2, 3], [1]), "its sizes and strides do not fit together"),
        (payload("../weight_0", "float32", [2, 3]), "its entry 'model/data/weights/../weight_0' is missing"),
        ({"use_pickle": True}, "is pickled"),
        (
            {**payload("weight_0", "float32", [2, 3]), "tensor_meta": {"dtype": 99}},
            "type 99 is not known",
        ),
        ({**payload("weight_0", "float32", [2]), "tensor_meta": None}, "what is said of it is no object"),
        ({}, "is pickled"),
        ([], "the entry of the tensor 'w' is no object"),
    ],
)
def test_damaged_tensors(tmp_path: Path, weight: Any, what: str) -> None:
    weights = {"w": weight, "b": payload("weight_0", "float32", [2])}
    refused(linear(tmp_path / "a.pt2", weights=weights), what)


def test_an_offset_before_the_storage(tmp_path: Path) -> None:
    weights = {"w": payload("weight_0", "float32", [2, 3]), "b": payload("weight_0", "float32", [2], [1], -2)}
    refused(linear(tmp_path / "a.pt2", weights=weights), "of a storage of 32")


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"archive_format": b"pt1"}, "it does not say that it is one"),
        ({"byteorder": b"big"}, "its tensors are big-endian"),
        ({"models__model.json": b"{"}, "models/model.json is not JSON"),
        ({"models__model.json": b"[" * 200_000}, "models/model.json is nested too deeply"),
        ({"models__model.json": b"[]"}, "models/model.json is no object"),
        ({"models__model.json": b"{}"}, "schema_version is no object"),
        ({"models__model.json": b'{"schema_version": {"major": 9}}'}, "version 9 of PyTorch's schema"),
        ({"models__model.json": b'{"schema_version": {"major": ' + b"9" * 5000 + b"}}"}, "is not JSON"),
        ({"models__other.json": b"{}"}, "there are 2 programs in it: model, other"),
        ({"data__weights__model_weights_config.json": b"{}"}, "is no object"),
        ({"data__weights__model_weights_config.json": b"\xff"}, "is not JSON"),
    ],
)
def test_damaged_entries(tmp_path: Path, entries: dict[str, bytes], what: str) -> None:
    refused(linear(tmp_path / "a.pt2", **entries), what)


def test_cut_short(tmp_path: Path) -> None:
    path = linear(tmp_path / "a.pt2")
    whole = path.read_bytes()
    for cut in (40, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:cut])
        with pytest.raises(ThinflowError):
            thinflow.load(path)
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + b"\xff\xfe" + whole[at + 2 :])
        with contextlib.suppress(ThinflowError):
            thinflow.load(path)


def test_a_bomb(tmp_path: Path) -> None:
    """An entry that says it unpacks to terabytes is refused before anything is set aside."""
    path = linear(tmp_path / "a.pt2", compression=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    while b"weight_0" not in data[at + 46 : at + 90]:
        at = data.index(b"PK\x01\x02", at + 1)
    data[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(data)
    refused(path, "compressed in a way that is not known here")


def old(path: Path, written: dict[str, Any], version: str = "2.6.0") -> Path:
    """A program as PyTorch before 2.8 stored it."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("serialized_exported_program.json", json.dumps(written | {"torch_version": version}))
        for name in ("state_dict", "constants", "example_inputs"):
            file.writestr(f"serialized_{name}.pt", pickle.dumps({}))
        file.writestr("version", "8.2")
    return path


def test_old_and_pickled_files(tmp_path: Path) -> None:
    written = in_place(node("neg.default", ["y"], self=tensor("x")))
    path = old(tmp_path / "a.pt2", written)
    assert recognise(path).name == "pt2"
    # Nothing in it is pickled that the program needs.
    assert load(path).facts["producer"] == "PyTorch 2.6.0"
    assert run(path, np.ones((2, 3), np.float32)).tolist() == [[-1, -1, -1]] * 2
    linear_ = node("linear.default", ["y"], input=tensor("x"), weight=tensor("p_w"))
    path = old(tmp_path / "b.pt2", in_place(linear_, weights=("w",)))
    refused(path, "its weights are pickled, as PyTorch 2.6.0 wrote them; its first tensor is 'w'", EXPORT)
    older = {k: v for k, v in written.items() if k != "torch_version"} | {"schema_version": {"major": 5}}
    path = old(tmp_path / "c.pt2", older, "")
    refused(path, "it is in version 5 of PyTorch's schema, by an older PyTorch; version 8 is known", EXPORT)
    between = io.BytesIO()
    with zipfile.ZipFile(between, "w") as file:
        file.writestr("model/archive_format", "pt2")
        file.writestr("model/models/model.json", json.dumps(in_place(linear_, weights=("w",))))
        file.writestr("model/data/weights/model.pt", pickle.dumps({}))
    path.write_bytes(between.getvalue())
    refused(path, "its weights are pickled, as PyTorch 2.13.0 wrote them", EXPORT)


def unknown(**argument: Any) -> dict[str, Any]:
    values = {"x": meta("float32", [2, 3]), "y": meta("float32", [2, 3])}
    return program([node("relu.default", ["y"], self=tensor("x"), **argument)], values, ["y"])


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ({"slope": {"as_float": 0.5}}, "its argument 'slope' is not known here"),
        ({"slope": {"as_int": 0}}, "its argument 'slope' is not known here"),
        ({"body": {"as_custom_obj": {"name": "g"}}}, "its argument 'body' is of the kind 'as_custom_obj'"),
        ({"layout": {"as_layout": 1}}, "its argument 'layout' is of the kind 'as_layout'"),
    ],
)
def test_unknown_arguments(tmp_path: Path, argument: dict[str, Any], what: str) -> None:
    with pytest.raises(UnsupportedOp, match=what):
        thinflow.load(archive(tmp_path / "a.pt2", unknown(**argument)))


@pytest.mark.parametrize(
    ("written", "what"),
    [
        (unknown(slope={"as_float": "x"}), "its argument 'slope' is no number"),
        (unknown(slope={}), "its argument 'slope' has 0 fields"),
        (unknown(slope={"as_ints": 3}), "its argument 'slope' is no list"),
        (
            program([node("relu.default", ["y"], self=tensor("z"))], {}, ["y"]),
            "'z' is read and noth",
        ),
        (program([node("relu.default", ["x"], self=tensor("x"))], {}, ["x"]), "'x' is written twice"),
        (program([], {}, []), "it has no outputs"),
    ],
)
def test_programs_that_contradict_themselves(tmp_path: Path, written: dict[str, Any], what: str) -> None:
    refused(archive(tmp_path / "a.pt2", written), what)


def test_an_unknown_op_is_named_with_what_helps(tmp_path: Path) -> None:
    values = {"x": meta("float32", [2, 3]), "y": meta("float32", [2, 3])}
    path = archive(
        tmp_path / "a.pt2", program([node("newest.default", ["y"], self=tensor("x"))], values, ["y"])
    )
    with pytest.raises(UnsupportedOp, match=r"aten\.newest has no counterpart") as caught:
        thinflow.load(path)
    assert "run_decompositions()" in caught.value.hint
    core = program([node("newest.default", ["y"], self=tensor("x"))], values, ["y"]) | {"verifiers": ["ATEN"]}
    with pytest.raises(UnsupportedOp, match=r"aten\.newest has no counterpart") as caught:
        thinflow.load(archive(tmp_path / "b.pt2", core))
    assert "run_decompositions()" not in caught.value.hint


def test_names_follow_what_is_written_in_place(tmp_path: Path) -> None:
    """Graphs before decomposition write in place: who reads the operand afterwards reads the result."""
    neg = node("neg.default", ["a"], self=tensor("x"))
    relu = node("relu_.default", ["b"], self=tensor("a"))
    total = node("add.Tensor", ["y"], self=tensor("a"), other=tensor("x"))
    path = archive(tmp_path / "a.pt2", in_place(neg, relu, total))
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    assert np.array_equal(run(path, x), np.maximum(-x, 0) + x)


def test_views_of_what_is_written_in_place_are_refused(tmp_path: Path) -> None:
    neg = node("neg.default", ["a"], self=tensor("x"))
    view = node("alias.default", ["v"], self=tensor("a"))
    relu = node("relu_.default", ["b"], self=tensor("a"))
    total = node("add.Tensor", ["y"], self=tensor("v"), other=tensor("x"))
    path = archive(tmp_path / "a.pt2", in_place(neg, view, relu, total))
    refused(path, "it reads 'v', which 'b' changes in place", "run_decompositions()", UnsupportedOp)


def test_slices_that_are_written_in_place_are_put_back(tmp_path: Path) -> None:
    """y[:, :2] *= 2; y[:, 1:] += y[:, :2]; y[0] = -y[0], both slices taken out before the first write."""
    nodes = [
        node("clone.default", ["a"], self=tensor("x")),
        node(
            "slice.Tensor", ["l"], self=tensor("a"), dim={"as_int": 1}, start={"as_int": 0}, end={"as_int": 2}
        ),
        node(
            "slice.Tensor", ["r"], self=tensor("a"), dim={"as_int": 1}, start={"as_int": 1}, end={"as_int": 3}
        ),
        node("mul_.Tensor", ["m"], self=tensor("l"), other={"as_float": 2.0}),
        node("add_.Tensor", ["n"], self=tensor("r"), other=tensor("m")),
        node("select.int", ["s"], self=tensor("a"), dim={"as_int": 0}, index={"as_int": 0}),
        node("neg_.default", ["t"], self=tensor("s")),
        node("add.Tensor", ["y"], self=tensor("a"), other=tensor("t")),
    ]
    sizes = {"xay": [2, 3], "lrmn": [2, 2], "st": [3]}
    values = {name: meta("float32", size) for names, size in sizes.items() for name in names}
    path = archive(tmp_path / "a.pt2", program(nodes, values, ["y"]))
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    y = x.copy()
    y[:, :2] *= 2
    y[:, 1:] += y[:, :2].copy()
    y[0] = -y[0]
    assert np.array_equal(run(path, x), y + y[0])


def counting(tmp_path: Path, *nodes: dict[str, Any], outputs: tuple[str, ...] = ("y",), by: str = "") -> Path:
    """A program with a buffer b of ones; `by` is what it holds in the end, if the program says so."""
    written = in_place(*nodes, outputs=outputs)
    signature = written["graph_module"]["signature"]
    buffer = {"buffer": {"arg": {"name": "b_b"}, "buffer_name": "b", "persistent": True}}
    signature["input_specs"].insert(0, buffer)
    if by:
        signature["output_specs"].insert(0, {"buffer_mutation": {"arg": {"name": by}, "buffer_name": "b"}})
    weights = {"b": payload("weight_0", "float32", [2, 3])}
    return archive(tmp_path / "a.pt2", written, weights, {"weight_0": np.ones(6, np.float32).tobytes()})


@pytest.mark.parametrize("in_words", [True, False])
def test_buffers_that_a_run_changes(tmp_path: Path, in_words: bool) -> None:
    """The next run reads what this one left there."""
    kind, source = ("add.Tensor", "b_b") if in_words else ("add_.Tensor", "b_b")
    add = node(kind, ["a"], self=tensor(source), other=tensor("x"))
    neg = node("neg.default", ["y"], self=tensor("a" if in_words else "b_b"))
    path = counting(tmp_path, add, neg, by="a" if in_words else "")
    x = np.full((2, 3), 2, np.float32)
    session = thinflow.Session(thinflow.load(path, state="keep"), engine="reference")
    for left in (3, 5, 7):
        (y,) = session.run(["y"], {"x": x})
        assert (y == -left).all()
    graph = thinflow.load(path, state="inputs")
    assert [v.name for v in graph.inputs] == ["x", "b"]
    assert [v.name for v in graph.outputs] == ["y", "b/next"]


def test_a_buffer_that_is_only_read_is_a_constant(tmp_path: Path) -> None:
    graph = load(counting(tmp_path, node("add.Tensor", ["y"], self=tensor("b_b"), other=tensor("x"))))
    assert [n.op for n in graph] == ["Const", "Placeholder", "aten.add.Tensor"]


def test_state_that_is_not_followed_is_refused(tmp_path: Path) -> None:
    weights = {"w": payload("weight_0", "float32", [2, 3])}
    write = node("add_.Tensor", ["y"], self=tensor("p_w"), other=tensor("x"))
    path = archive(tmp_path / "b.pt2", in_place(write, weights=("w",)), weights, {"weight_0": bytes(24)})
    refused(path, "it changes a parameter, or a part of a buffer", "run_decompositions", kind=UnsupportedOp)
    view = node("alias.default", ["v"], self=tensor("b_b"))
    write = node("add_.Tensor", ["y"], self=tensor("v"), other=tensor("x"))
    refused(counting(tmp_path, view, write), "it changes a parameter, or a part", kind=UnsupportedOp)
    write = node("add_.Tensor", ["y"], self=tensor("b_b"), other=tensor("x"))
    refused(counting(tmp_path, write, by="z"), "'z' is read and nothing writes it")


def test_numbers_among_the_outputs(tmp_path: Path) -> None:
    written = in_place(node("neg.default", ["y"], self=tensor("x")))
    specs = written["graph_module"]["signature"]["output_specs"]
    specs += [{"user_output": {"arg": {"as_int": 3}}}, {"user_output": {"arg": {"as_float": 0.5}}}]
    graph = thinflow.load(archive(tmp_path / "a.pt2", written))
    _, three, half = thinflow.Session(graph, engine="reference").run(None, {"x": np.ones((2, 3), np.float32)})
    assert (int(three), float(half)) == (3, 0.5)
    specs.append({"user_output": {"arg": {"as_string": "a"}}})
    refused(archive(tmp_path / "a.pt2", written), "no tensor and no number", kind=UnsupportedOp)


def test_an_output_that_is_given_again_has_a_place_of_its_own(tmp_path: Path) -> None:
    """Programs return tuples, whose callers go by places: a hidden state that is the last one, too."""
    added = node("add.Tensor", ["y"], self=tensor("x"), other=tensor("x"))
    path = archive(tmp_path / "net.pt2", in_place(added, outputs=("y", "x", "y")))
    x = np.ones((2, 3), np.float32)
    results = thinflow.Session(path, engine="reference").run(None, {"x": x})
    assert [y[0, 0] for y in results] == [2, 1, 2]
    thinflow.convert(path, tmp_path / "net.tflite")
    results = thinflow.Session(tmp_path / "net.tflite", engine="litert").run(None, {"x": x})
    assert [y[0, 0] for y in results] == [2, 1, 2]


def test_shapes_that_do_not_follow_are_refused(tmp_path: Path) -> None:
    values = {"x": meta("float32", [2, 3]), "y": meta("float32", [3, 2])}
    path = archive(
        tmp_path / "a.pt2", program([node("relu.default", ["y"], self=tensor("x"))], values, ["y"])
    )
    with pytest.raises(UnsupportedOp, match="its result would have the shape"):
        thinflow.load(path)


def test_json_is_read_as_text_only(tmp_path: Path) -> None:
    """Beside a program an archive holds pickled sample inputs, which are not looked at."""
    path = linear(tmp_path / "a.pt2", data__sample_inputs__model__pt=b"\x80\x04\x95" + bytes(30))
    assert run(path, np.ones((1, 3), np.float32)).shape == (1, 2)


def test_a_graph_of_the_files_own_ops_is_run_in_tensorflows(tmp_path: Path) -> None:
    graph = thinflow.load(linear(tmp_path / "a.pt2"), lift=False)
    assert graph.vocabulary == "pt2"
    (y,) = thinflow.Session(graph).run(["y"], {"x": np.ones((2, 3), np.float32)})
    assert y.tolist() == [[16, 29]] * 2
    report = thinflow.benchmark(tmp_path / "a.pt2", engines=["reference"], seconds=0.01)
    assert report.rows


def test_nothing_is_written_as_pt2(tmp_path: Path) -> None:
    graph = thinflow.load(linear(tmp_path / "a.pt2"))
    with pytest.raises(ThinflowError) as caught:
        thinflow.save(graph, tmp_path / "b.pt2")
    assert ".pt2" not in caught.value.hint
