"""print_selective_registration_header of TensorFlow beside ours: the lists in the header, and exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tests.oracle._graphs import write_graphs
from tests.oracle._scripts import Outcome, originals
from thinflow.cli import main
from thinflow.compat.registration import releases

SAME = [
    "--graphs g.pb",
    "--graphs=g.pb",
    "--graphs=g.pb,func.pb",
    "--graphs=func.pb --default_ops=",
    "--graphs=g.pbtxt --proto_fileformat=textproto",
    "--graphs ops.json --proto_fileformat ops_list",
    "--graphs=ops.json --proto_fileformat=ops_list --default_ops=",
    "--graphs=ops.json,more.json --proto_fileformat=ops_list",
    "--graphs=g.pb --default_ops=all",
    "--graphs=g.pb --default_ops=SymbolicGradient:B,C:D",
    "--graphs=custom.pb",
    "--graphs=loop.pb",
    "--graphs=stripped.pb",
    "--gr g.pb --default NoOp:NoOp",
]
REFUSED = [
    "",
    "--graphs=",
    "--graphs=absent.pb",
    "--graphs=absent.pb --default_ops=all",
    "--graphs=g.pb --proto_fileformat=nonsense",
    "--graphs=g.pb --default_ops=A",
    "--graphs=empty.json --proto_fileformat=ops_list",
    "--graphs=odd.json --proto_fileformat=ops_list",
]
MORE_HERE = [
    "--graphs='g.pb, func.pb'",
    "--graphs=g.pbtxt",
    "--graphs=g.pb --proto_fileformat=textproto",
    "--graphs=g.pb --default_ops=A:functor::B",
    "--graphs=ops.json,class.json --proto_fileformat=ops_list",  # one op with a class and without
]
# It writes a header of the default pairs, or the number 1.
NOTHING_TO_REGISTER = [
    "--graphs=empty.pb",
    "--graphs=empty.pb --default_ops=",
    "--graphs=none.json --proto_fileformat=ops_list",
]
ALL = [*SAME, *REFUSED, *MORE_HERE, *NOTHING_TO_REGISTER]


def loop() -> bytes:
    """A GraphDef with what TensorFlow registers for no device in particular: a loop of version 1, Assert."""
    v1 = tf.compat.v1
    was_on = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            count = v1.placeholder(tf.int32, [], name="count")
            v1.while_loop(lambda n: n < count, lambda n: n + 1, [0])
            v1.Assert(count > 0, [count])
            tf.identity_n([count, count])
            return bytes(graph.as_graph_def().SerializeToString())
    finally:
        if was_on:
            v1.enable_control_flow_v2()


def stripped() -> bytes:
    """A GraphDef that leaves out default types, several of them not those of the first kernel."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        codes = v1.placeholder(tf.quint8, [1, 4, 4, 2], name="codes")
        x = tf.raw_ops.Dequantize(input=codes, min_range=0.0, max_range=1.0)
        pooled = tf.raw_ops.MaxPool(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
        tf.reduce_sum(tf.reshape(tf.nn.leaky_relu(pooled), [-1, 2]), 1)
        tf.argmax(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3)
        message = graph.as_graph_def()
    for node in message.node:
        for attr in op_def_registry.get(node.op).attr:
            if attr.HasField("default_value") and node.attr[attr.name] == attr.default_value:
                del node.attr[attr.name]
    return bytes(message.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    write_graphs(folder)
    (folder / "loop.pb").write_bytes(loop())
    (folder / "stripped.pb").write_bytes(stripped())
    lists = {
        "ops": '[["Add", "BinaryOp<CPUDevice, functor::add<float>>"], ["Foo", null], ["Bar", ""]]',
        "more": '[["Baz", "FooOp"], ["Add", "BinaryOp<CPUDevice, functor::add<float>>"]]',
        "class": '[["Foo", "FooOp"], ["Conv2D", "ConvOp"]]',
        "empty": "",
        "none": "[]",
        "odd": "[[1, 2, 3]]",
    }
    for name, text in lists.items():
        (folder / f"{name}.json").write_text(text)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Outcome]:
    if ".".join(tf.__version__.split(".")[:2]) not in releases():
        pytest.skip("the kernel classes of this release are not known")
    calls = [shlex.split(call) for call in ALL]
    return dict(zip(ALL, originals("print_selective_registration_header", calls, folder), strict=True))


def ours(call: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    release = ".".join(tf.__version__.split(".")[:2])
    return main(["print_selective_registration_header", *shlex.split(call), f"--release={release}"])


def lists(header: str) -> tuple[list[str], list[str], list[str]]:
    """The kernel classes, the ops, and what is defined without arguments of ours, each in order."""
    classes = header.partition("kNecessaryOpKernelClasses[] = {")[2].partition("};")[0]
    ops = re.findall(r'\(op, "(\w+)"\)', header)
    defined = re.findall(r"#define (SHOULD_REGISTER_OP_GRADIENT \w+|SHOULD_\w+\(\w+\) true)", header)
    return re.findall(r'"(.*)",', classes), ops, sorted(defined)


@pytest.mark.parametrize("call", SAME)
def test_the_same_lists(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code == 0, found[call].err
    assert ours(call, folder, monkeypatch) == 0
    theirs, own = lists(found[call].out), lists(capsys.readouterr().out)
    assert own == theirs
    assert own[2]
    assert own[1] or "=all" in call


@pytest.mark.parametrize("call", REFUSED)
def test_refused_by_both(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code != 0
    assert ours(call, folder, monkeypatch) in (1, 2)
    captured = capsys.readouterr()
    assert not captured.out
    assert "hint: " in captured.err or "usage: " in captured.err


@pytest.mark.parametrize("call", MORE_HERE)
def test_done_here_alone(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code != 0
    assert ours(call, folder, monkeypatch) == 0
    assert {"Foo", "Conv2D"} & set(lists(capsys.readouterr().out)[1])


@pytest.mark.parametrize("call", NOTHING_TO_REGISTER)
def test_a_header_of_nothing_is_no_header(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code == 0
    assert ours(call, folder, monkeypatch) == 1
    assert not capsys.readouterr().out
