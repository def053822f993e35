"""Checkpoints of TensorFlow, listed by its script and by ours: the same lines, but for what it gets wrong."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from thinflow.cli import main
from thinflow.errors.plain_text import shown

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one/m` and `two/m`: checkpoints of either version; `objects`: one of TensorFlow 2."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, version in (("one", 1), ("two", 2)):
        (folder / name).mkdir()
        with tf.Graph().as_default(), v1.Session() as session:
            random = np.random.default_rng(0)
            v1.get_variable("big", initializer=random.normal(size=(60, 50)).astype(np.float32))
            for kind in (np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16):
                v1.get_variable(f"a/{kind.__name__}", initializer=np.arange(3).astype(kind))
            v1.get_variable("scalar", initializer=np.float32(2.5))
            if version == 2:
                v1.get_variable("b/bfloat16", initializer=tf.constant([1.5, 2], tf.bfloat16))
                v1.get_variable("b/complex", initializer=np.array([1 + 2j, 3], np.complex64))
            with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(3)):
                v1.get_variable("w", shape=[5, 4], initializer=v1.initializers.ones())
            session.run(v1.global_variables_initializer())
            v1.train.Saver(write_version=version).save(session, str(folder / name / "m"))
    tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).write(str(folder / "objects"))
    return folder


def original(arguments: list[str], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What TensorFlow's script prints."""
    monkeypatch.setattr(sys, "argv", ["inspect_checkpoint", *arguments])
    before = np.get_printoptions()
    sys.modules.pop("tensorflow.python.tools.inspect_checkpoint", None)
    try:
        with pytest.raises(SystemExit):
            runpy.run_module("tensorflow.python.tools.inspect_checkpoint", run_name="__main__")
    finally:
        np.set_printoptions(**{k: v for k, v in before.items() if k != "override_repr"})
    return str(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["one/m", "two/m"])
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--all_tensors"],
        ["--all_tensor_names=true"],
        ["--tensor_name=net/w"],
        ["--tensor_name", "big", "--printoptions", "threshold=10", "precision=2", "linewidth=50"],
        ["--tensor", "big", "--print", "threshold=10", "precision=2"],
        ["--tensor_name=scalar", "--count_exclude_pattern", "w$"],
        ["--all_tensor_names", "--count_exclude_pattern=loat"],
        ["--tensor_name=absent"],
    ],
    ids=" ".join,
)
def test_the_same_lines(
    name: str, flags: list[str], folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [f"--file_name={folder / name}", *flags]
    # Keys of parts have bytes that command a terminal, which are spelled here.
    theirs = shown(original(arguments, capsys, monkeypatch)).splitlines()
    assert main(["inspect_checkpoint", *arguments]) == (1 if "--tensor_name=absent" in flags else 0)
    ours = capsys.readouterr().out.splitlines()
    if theirs[-1].endswith("not supported"):  # it gives up on parts, and on half floats; they are read here
        assert ours[: len(theirs) - 1] == theirs[:-1]
        assert ours[-1].startswith("# Total number of params: ")
    elif name == "one/m" and not flags:  # listed in the order of a hash table there
        assert sorted(ours) == sorted(theirs)
    else:
        assert ours == theirs


def test_text_is_no_parameter(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object graph counts as one there."""
    arguments = [f"--file_name={folder / 'objects'}", "--all_tensors"]
    *theirs, count = original(arguments, capsys, monkeypatch).splitlines()
    assert main(["inspect_checkpoint", *arguments]) == 0
    *ours, own_count = capsys.readouterr().out.splitlines()
    assert ours == theirs
    assert (count, own_count) == ("# Total number of params: 3", "# Total number of params: 2")


def test_no_file(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = original([], capsys, monkeypatch)
    assert main(["inspect_checkpoint"]) == 1
    assert capsys.readouterr().out == theirs
