"""strip_unused of TensorFlow beside ours, flag by flag: text, exit code and file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.oracle._graphs import read_graph, values_of, write_graphs
from tests.oracle._scripts import Outcome, originals
from thinflow.cli import main

BINARY = "--input_graph=g.pb --input_binary=true --output_graph=o.pb"
RELU = "--input_node_names=relu --output_node_names=out"

SAME = [
    f"{BINARY} --input_node_names=x --output_node_names=out",
    f"{BINARY} {RELU}",
    f"--input_graph g.pb --input_binary True --output_graph o.pb {RELU}",
    f"--input_graph g.pb --input_binary --output_graph o.pb {RELU}",
    f"--input_graph g.pbtxt --output_graph o.pb {RELU}",
    f"--input_graph g.pbtxt --input_binary=false --output_graph o.pb --output_binary=false {RELU}",
    f"{BINARY} --output_binary {RELU}",
    f"{BINARY} --input_node_names=u --output_node_names=u1",
    f"{BINARY} --input_node_names=u --output_node_names=u1 --placeholder_type_enum=4",
    f"{BINARY} --input_node_names=x,phase_train --output_node_names=out",
    f"{BINARY} --input_node_names=relu --output_node_names=out,z",
    f"{BINARY} {RELU} --placeholder_type_enum 19",
    "--input_graph=func.pb --input_binary=true --output_graph=o.pb"
    " --input_node_names=t --output_node_names=fo",
    "--input_g g.pb --input_b=true --output_g o.pb --input_n relu --output_n out --pl 1",
]
REFUSED = [
    f"{BINARY} --input_node_names=absent --output_node_names=out",
    f"{BINARY} --input_node_names=relu --output_node_names=absent",
    f"{BINARY} --output_node_names=out",
    f"{BINARY} {RELU} --bogus=1",
    f"{BINARY} {RELU} --placeholder_type_enum=x",
    f"--input g.pb --output_graph=o.pb {RELU}",
    f"--input_graph=g.pb --input_binary=true --output_graph=nowhere/o.pb {RELU}",
    "--input_graph=twice.pb --input_binary=true --output_graph=o.pb"
    " --input_node_names=x --output_node_names=out",
]
# The original fails, though what is wanted is clear.
MORE_HERE = [
    f"--input_graph=g.pb --input_binary=1 --output_graph=o.pb {RELU}",
    f"--input_graph=g.pb --output_graph=o.pb {RELU}",
    f"--input_graph=g.pbtxt --input_binary=true --output_graph=o.pb {RELU}",
    f"{BINARY} --input_node_names=relu:0 --output_node_names=out",
    f"{BINARY} --input_node_names=relu --output_node_names=out:0",
    f"{BINARY} --input_node_names=relu --output_node_names='out, z'",
    f"-input_graph=g.pb --input_binary=true --output_graph=o.pb {RELU}",
]
# It prints a complaint, or nothing, and ends with 0.
CODE_IS_ZERO = [
    f"--input_graph=absent.pb --input_binary=true --output_graph=o.pb {RELU}",
    f"{BINARY} --input_node_names=relu",
    f"{BINARY} {RELU} stray",
    f"--input_graph=broken.pb --input_binary=true --output_graph=o.pb {RELU}",
]
ALL = [*SAME, *REFUSED, *MORE_HERE, *CODE_IS_ZERO]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    write_graphs(folder)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Outcome]:
    """What the original does; call number n writes `n.pb`."""
    calls = [
        shlex.split(call.replace(" o.pb", f" {n}.pb").replace("=o.pb", f"={n}.pb"))
        for n, call in enumerate(ALL)
    ]
    return dict(zip(ALL, originals("strip_unused", calls, folder), strict=True))


def ours(call: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    Path("o.pb").unlink(missing_ok=True)
    return main(["strip_unused", *shlex.split(call)])


def described(message: Any, *, kinds: bool) -> dict[str, tuple[Any, ...]]:
    """Nodes by name, with the types of placeholders if asked: there they are not taken from the graph."""
    return {
        n.name: (n.op, list(n.input), n.attr["dtype"].type if kinds or n.op != "Placeholder" else None)
        for n in message.node
    }


@pytest.mark.parametrize("call", SAME)
def test_the_same(
    call: str,
    folder: Path,
    found: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found[call].code == 0
    assert ours(call, folder, monkeypatch) == 0
    assert capsys.readouterr().out == found[call].out
    theirs, own = read_graph(folder / f"{ALL.index(call)}.pb"), read_graph(folder / "o.pb")
    told = "type_enum" in call
    assert described(own, kinds=told) == described(theirs, kinds=told)
    assert [n.name for n in own.node] == [n.name for n in theirs.node]
    as_text = "output_binary=false" in call
    assert all(
        (p.read_bytes()[:6] == b"node {") == as_text
        for p in (folder / "o.pb", folder / f"{ALL.index(call)}.pb")
    )
    assert own.versions.producer > 0 == theirs.versions.producer  # dropped there


def test_types_are_those_of_the_graph(
    folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SAME[7]
    assert ours(call, folder, monkeypatch) == 0
    theirs, own = (read_graph(folder / name) for name in (f"{ALL.index(call)}.pb", "o.pb"))
    assert next(n for n in theirs.node if n.name == "u").attr["dtype"].type == tf.float32.as_datatype_enum
    with pytest.raises(ValueError, match="uint8"):
        values_of(theirs, ["u1"], {"u": np.arange(4)})
    assert values_of(own, ["u1"], {"u": np.arange(4)})[0].tolist() == [1, 2, 3, 4]


def test_functions_stay(folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    call = SAME[12]
    assert ours(call, folder, monkeypatch) == 0
    assert not read_graph(folder / f"{ALL.index(call)}.pb").library.function
    (y,) = values_of(read_graph(folder / "o.pb"), ["fo"], {"t": [-1, 2]})
    assert y.tolist() == [0, 4]


def test_an_input_nobody_needs_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = "--input_node_names=x,u --output_node_names=out"
    (theirs,) = originals("strip_unused", [shlex.split(f"{BINARY} {flags}")], folder)
    dropped = {n.name for n in read_graph(folder / "o.pb").node}
    assert theirs.code == 0
    assert ours(f"{BINARY} {flags}", folder, monkeypatch) == 0
    assert {n.name for n in read_graph(folder / "o.pb").node} - dropped == {"u"}


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
    assert not (folder / "o.pb").exists()


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
    like = next(same for same in SAME if same.endswith("=out,z" if "z'" in call else RELU))
    assert capsys.readouterr().out == found[like].out


@pytest.mark.parametrize("call", CODE_IS_ZERO)
def test_failures_are_told(
    call: str, folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found[call].code == 0
    assert ours(call, folder, monkeypatch) in (1, 2)
    assert not (folder / "o.pb").exists()
