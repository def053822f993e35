"""`freeze_graph` beside TensorFlow's script: the same exit code, the same nodes, the same numbers.

Where the script fails on what can be frozen, or freezes what is not meant, a test says what we do instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.tools import freeze_graph

from thinflow.cli import main

v1 = tf.compat.v1
X = np.float32([[1, 2, 3, 4], [-1, 0, 2, 1]])
Flags = dict[str, Any]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders `reference`, `old`, `resource`, `partitioned`, each with every file that a trainer leaves."""
    was = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    folder = tmp_path_factory.mktemp("models")
    _train(folder / "reference")
    _train(folder / "old", version=1)
    _train(folder / "resource", resource=True)
    _train(folder / "partitioned", partitioned=True)
    yield folder
    if was:
        v1.enable_control_flow_v2()


def _train(folder: Path, *, resource: bool = False, partitioned: bool = False, version: int = 2) -> None:
    folder.mkdir()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        splitter = v1.fixed_size_partitioner(2) if partitioned else None
        with v1.variable_scope("net", use_resource=resource, partitioner=splitter), tf.device("/cpu:0"):
            w = v1.get_variable("w", [4, 3], initializer=v1.initializers.random_normal(seed=1))
            b = v1.get_variable("b", [3], initializer=v1.initializers.random_normal(seed=2))
        plain = tf.matmul(x, w)
        y = tf.nn.softmax(plain + b, name="y")
        again = v1.get_variable("again", initializer=np.float32([3, 1, 2]), use_resource=resource)
        tf.identity(y * again * 2, name="z")
        step = v1.get_variable("step", initializer=np.int64(0), trainable=False, use_resource=resource)
        v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(y), step)
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(write_version=version)
        saver.save(session, str(folder / "m"))
        short = v1.train.Saver([v for v in v1.global_variables() if v.op.name != "again"], name="short")
        short.save(session, str(folder / "short"), write_meta_graph=False)
        _write(folder / "graph", graph.as_graph_def())
        _write(folder / "saver", saver.as_saver_def())
        _write(folder / "meta", saver.export_meta_graph())
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.Builder(str(folder / "export"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.add_meta_graph(["serve", "gpu"], {"serving_default": signature})
        builder.save()
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        _write(folder / "frozen", frozen)


def _write(stem: Path, message: Any) -> None:
    stem.with_suffix(".pb").write_bytes(message.SerializeToString())
    stem.with_suffix(".pbtxt").write_text(str(message))


def original(flags: Flags, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of TensorFlow's script."""
    monkeypatch.setattr(sys, "argv", ["freeze_graph", *_arguments(flags)])
    with tf.Graph().as_default():
        try:
            freeze_graph.run_main()
        except SystemExit as end:
            return int(end.code or 0) if not isinstance(end.code, str) else 1
        except Exception:  # of many kinds: Python would end with 1
            return 1
    return 0


def _arguments(flags: Flags) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]


def both(flags: Flags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, Any, Any]:
    """Exit codes and graphs, theirs first; None for a graph that was not written."""
    codes = (
        original({**flags, "output_graph": tmp_path / "theirs.pb"}, monkeypatch),
        main(["freeze_graph", *_arguments({**flags, "output_graph": tmp_path / "ours.pb"})]),
    )
    graphs = []
    for name in ("theirs.pb", "ours.pb"):
        path = tmp_path / name
        graphs.append(v1.GraphDef.FromString(path.read_bytes()) if path.exists() else None)
    return *codes, *graphs


def values_of(message: Any, names: list[str]) -> list[Any]:
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(message, name="")
        return list(session.run([f"{name}:0" for name in names], {"x:0": X}))


_VALUES = {"input_checkpoint": "m", "output_node_names": "y"}
BINARY = {"input_graph": "graph.pb", "input_binary": "true", **_VALUES}
TEXT = {**BINARY, "input_graph": "graph.pbtxt", "input_binary": "false"}
SHORT = {**BINARY, "input_checkpoint": "short", "output_node_names": "z"}
META = {"input_meta_graph": "meta.pb", "input_binary": "true", **_VALUES}
EXPORT = {"input_saved_model_dir": "export", "output_node_names": "y"}
_FILES = {"input_graph", "input_checkpoint", "input_meta_graph", "input_saved_model_dir", "input_saver"}


def placed(folder: Path, flags: Flags) -> Flags:
    return {name: folder / value if name in _FILES and value else value for name, value in flags.items()}


SAME = {
    "binary": ("reference", BINARY),
    "text": ("reference", TEXT),
    "two outputs": ("reference", {**BINARY, "output_node_names": "y, z"}),
    "version 1": ("old", {**BINARY, "checkpoint_version": 1}),
    "version 1 told to be 2": ("old", BINARY),
    "version 2 told to be 1": ("reference", {**TEXT, "checkpoint_version": 1}),
    "a saver": ("reference", {**BINARY, "input_saver": "saver.pb"}),
    "a saver as text": ("reference", {**TEXT, "input_saver": "saver.pbtxt"}),
    "a saver of resources": ("resource", {**BINARY, "input_saver": "saver.pb", "output_node_names": "z"}),
    "a saver of parts": ("partitioned", {**BINARY, "input_saver": "saver.pb"}),
    "a meta graph": ("reference", META),
    "a meta graph as text": (
        "reference",
        {**META, "input_meta_graph": "meta.pbtxt", "input_binary": "false"},
    ),
    "a meta graph of resources": ("resource", META),
    "a meta graph of parts": ("partitioned", META),
    "an export": ("reference", EXPORT),
    "an export of resources": ("resource", {**EXPORT, "output_node_names": "y,z"}),
    "an export of parts": ("partitioned", EXPORT),
    "an export by its tags": ("resource", {**EXPORT, "saved_model_tags": "gpu,serve"}),
    "one variable": ("reference", {**BINARY, "variable_names_whitelist": "net/w"}),
    "not one variable": ("reference", {**BINARY, "variable_names_denylist": "net/b"}),
    "not one resource": ("resource", {**META, "variable_names_denylist": "net/b", "output_node_names": "z"}),
    "devices kept": ("reference", {**BINARY, "clear_devices": "false"}),
    "devices dropped": ("reference", {**BINARY, "clear_devices": "True"}),
    "flags without effect": ("reference", {**BINARY, "restore_op_name": "a", "filename_tensor_name": "b:0"}),
    "an initialiser": ("reference", {**SHORT, "initializer_nodes": "again/Assign"}),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_graph(case: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, flags = SAME[case]
    code, our_code, theirs, ours = both(placed(models / name, flags), tmp_path, monkeypatch)
    assert (code, our_code) == (0, 0)
    assert {n.name: n.op for n in ours.node} == {n.name: n.op for n in theirs.node}
    assert {n.name: n.device for n in ours.node} == {n.name: n.device for n in theirs.node}
    left = [n for n in ours.node if n.op in ("VariableV2", "VarHandleOp")]
    if not left:
        outputs = flags["output_node_names"].replace(" ", "").split(",")
        for a, b in zip(values_of(ours, outputs), values_of(theirs, outputs), strict=True):
            np.testing.assert_array_equal(a, b)
    for node in theirs.node:
        if node.op == "Const":
            own = next(n for n in ours.node if n.name == node.name)
            expected = tf.make_ndarray(node.attr["value"].tensor)
            np.testing.assert_array_equal(tf.make_ndarray(own.attr["value"].tensor), expected)


REFUSED = {
    "no checkpoint": ("reference", {**BINARY, "input_checkpoint": "absent"}),
    "no outputs": ("reference", {**BINARY, "output_node_names": ""}),
    "an unknown output": ("reference", {**BINARY, "output_node_names": "absent"}),
    "no such graph": ("reference", {**BINARY, "input_graph": "absent.pb"}),
    "no such meta graph": ("reference", {**META, "input_meta_graph": "absent.meta"}),
    "no such saver": ("reference", {**BINARY, "input_saver": "absent"}),
    "no such export": ("reference", {**EXPORT, "input_saved_model_dir": "absent"}),
    "other tags": ("reference", {**EXPORT, "saved_model_tags": "train"}),
    "too many tags": ("reference", {**EXPORT, "saved_model_tags": "serve,gpu,x"}),
    "version 3": ("reference", {**BINARY, "checkpoint_version": 3}),
    "a variable without a value": ("reference", SHORT),
    "an unknown initialiser": ("reference", {**BINARY, "initializer_nodes": "absent"}),
    "an unknown flag": ("reference", {**BINARY, "nonsense": "1"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_both(case: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, flags = REFUSED[case]
    code, our_code, theirs, ours = both(placed(models / name, flags), tmp_path, monkeypatch)
    assert code != 0
    assert our_code != 0
    assert theirs is None
    assert ours is None


ONLY_HERE = {
    "a graph frozen before": ("reference", {**BINARY, "input_graph": "frozen.pb"}),
    "resources by name": ("resource", BINARY),
    "parts by name": ("partitioned", BINARY),
    "text said to be binary": ("reference", {**BINARY, "input_graph": "graph.pbtxt"}),
    "binary said to be text": ("reference", {**TEXT, "input_graph": "graph.pb"}),
    "tags with blanks": ("resource", {**EXPORT, "saved_model_tags": "gpu, serve"}),
    "an output with its port": ("reference", {**BINARY, "output_node_names": "y:0"}),
}


@pytest.mark.parametrize("case", ONLY_HERE)
def test_frozen_here_alone(case: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, flags = ONLY_HERE[case]
    code, our_code, _, ours = both(placed(models / name, flags), tmp_path, monkeypatch)
    assert code != 0
    assert our_code == 0
    expected = v1.GraphDef.FromString((models / name / "frozen.pb").read_bytes())
    np.testing.assert_array_equal(values_of(ours, ["y"])[0], values_of(expected, ["y"])[0])


def test_spellings_of_yes(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, only `true` is yes: `1` silently keeps the devices."""
    flags = placed(models / "reference", {**BINARY, "clear_devices": "1"})
    _, our_code, theirs, ours = both(flags, tmp_path, monkeypatch)
    assert our_code == 0
    assert any(n.device for n in theirs.node)
    assert not any(n.device for n in ours.node)


def test_initialisers_do_not_overwrite(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, an initialiser of everything undoes what was restored."""
    flags = placed(models / "reference", {**BINARY, "initializer_nodes": "init"})
    _, our_code, theirs, ours = both(flags, tmp_path, monkeypatch)
    assert our_code == 0
    expected = v1.GraphDef.FromString((models / "reference" / "frozen.pb").read_bytes())
    np.testing.assert_array_equal(values_of(ours, ["y"])[0], values_of(expected, ["y"])[0])
    assert theirs is not None
