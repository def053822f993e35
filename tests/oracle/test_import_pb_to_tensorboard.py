"""import_pb_to_tensorboard of TensorFlow beside ours: text, exit code, and the file it should write."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from tests.oracle._exports import write_exports
from tests.oracle._graphs import write_graphs
from tests.oracle._scripts import Outcome, originals
from thinflow.cli import main

SAME = [
    "--model_dir one --log_dir logs",
    "--model_dir=one --log_dir=logs --tag_set=gpu,serve",
    "--model_dir=one/ --log_dir=a/b/logs --tag_set=serve",
    "--model_dir=one --log_dir=logs --tag_set=train",
    "--model_dir=one_text --log_dir=logs",
    "--model_dir=two --log_dir=logs",
    "--model_dir=risky --log_dir=logs",
    "--model one --log logs --tag serve",
]
REFUSED = [
    "",
    "--model_dir=one",
    "--log_dir=logs",
    "--model_dir=absent --log_dir=logs",
    "--model_dir=one --log_dir=logs --tag_set=absent",
    "--model_dir=one --log_dir=logs --tag_set=",
    "--model_dir=one --log_dir=logs --tag_set=serve,train",
    "--model_dir=one --log_dir=logs --bogus 1",
    "--model_dir=one --log_dir",
]
MORE_HERE = [
    "--model_dir=g.pb --log_dir=logs",
    "--model_dir=func.pb --log_dir=logs",
    "--model_dir=custom.pb --log_dir=logs",
]
ALL = [*SAME, *REFUSED, *MORE_HERE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_exports(folder)
    write_graphs(folder)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Outcome]:
    return dict(
        zip(ALL, originals("import_pb_to_tensorboard", [shlex.split(c) for c in ALL], folder), strict=True)
    )


def ours(call: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    for name in ("logs", "a"):
        shutil.rmtree(name, ignore_errors=True)
    return main(["import_pb_to_tensorboard", *shlex.split(call)])


@pytest.mark.parametrize("call", SAME)
def test_the_same_line_and_a_file_besides(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code == 0, found[call].err
    assert ours(call, folder, monkeypatch) == 0
    first, last = capsys.readouterr().out.splitlines(keepends=True)
    assert last == found[call].out
    path = folder / first.strip().removeprefix("wrote ")
    _, event = list(tf.compat.v1.train.summary_iterator(str(path)))
    message = tf.compat.v1.GraphDef.FromString(event.graph_def)
    source = next(word for word in shlex.split(call.replace("=", " ")) if (folder / word).is_dir())
    tags = next((w for w in ("gpu,serve", "train") if w in call), "serve")
    stored = _stored(folder / source, set(tags.split(",")))
    assert [n.name for n in message.node] == [n.name for n in stored.node]
    assert {n.op for n in message.node} == {n.op for n in stored.node}


def _stored(folder: Path, tags: set[str]) -> tf.compat.v1.GraphDef:
    from tensorflow.python.tools.saved_model_utils import get_meta_graph_def

    return get_meta_graph_def(str(folder), ",".join(tags)).graph_def


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
    assert captured.err
    assert not (folder / "logs").exists()


@pytest.mark.parametrize("call", MORE_HERE)
def test_any_model_will_do(
    call: str, folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found[call].code != 0
    assert ours(call, folder, monkeypatch) == 0
    assert len(list((folder / "logs").iterdir())) == 1
