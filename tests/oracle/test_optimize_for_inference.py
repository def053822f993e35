"""optimize_for_inference of TensorFlow beside ours, flag by flag: exit code, nodes and numbers."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.oracle._graphs import PICTURES, read_graph, values_of, write_graphs
from tests.oracle._scripts import Outcome, originals
from thinflow.cli import main

GRAPH = "--input=g.pb --output=o.pb"
OUT = "--input_names=x --output_names=out"
PADDED = "--input_names=x --output_names=pc,rc"

# Call -> what is fed besides the pictures, and the outputs; nothing for files that are not run.
SAME = {
    f"{GRAPH} {OUT}": {"phase_train": False},
    f"--input g.pb --output o.pb {OUT}": {"phase_train": True},
    f"{GRAPH} --input_names=x --output_names=out,z": {"phase_train": False},
    f"{GRAPH} --input_names=x,phase_train --output_names=out --placeholder_type_enum=1,10": {
        "phase_train": True
    },
    f"{GRAPH} {OUT} --placeholder_to_const_names=phase_train=False": {},
    f"{GRAPH} {OUT} --placeholder_to_const_names phase_train=true": {},
    f"--input=g.pbtxt --output=o.pb --frozen_graph=false {OUT}": {"phase_train": False},
    f"{GRAPH} {OUT} --frozen_graph": {"phase_train": False},
    f"{GRAPH} {PADDED}": {},
    f"{GRAPH} {PADDED} --toco_compatible=true": {},
    f"{GRAPH} --input_names=ident --output_names=out": {"phase_train": False},
    f"{GRAPH} {OUT} --toco=1 --froz=true --placeholder_to=phase_train=False": {},
}
REFUSED = [
    f"{GRAPH} --input_names=absent --output_names=out",
    f"{GRAPH} --input_names=x --output_names=absent",
    f"--input=absent.pb --output=o.pb {OUT}",
    f"--input=broken.pb --output=o.pb {OUT}",
    f"--input=twice.pb --output=o.pb {OUT}",
    "--in=g.pb --output=o.pb --input_names=x --output_names=out",
    f"{GRAPH} {OUT} --bogus",
    f"{GRAPH} {OUT} --placeholder_type_enum=x",
]
MORE_HERE = [
    f"--input=g.pbtxt --output=o.pb {OUT}",
    f"{GRAPH} {OUT} --frozen_graph=False",
    f"{GRAPH} {PADDED} --toco_compatible",
    f"{GRAPH} --input_names=relu:0 --output_names=out",
    f"{GRAPH} --input_names=x --output_names='out, z'",
    f"-input g.pb -output o.pb {OUT}",
]
# Settings it cannot read are taken for False with a warning, or dropped; types too many for the inputs, too.
CODE_IS_ZERO = [
    f"{GRAPH} {OUT} --placeholder_to_const_names=phase_train=maybe",
    f"{GRAPH} {OUT} --placeholder_to_const_names=phase_train",
    f"{GRAPH} {OUT} --placeholder_type_enum=1,10",
]
NOT_TOCO = f"{GRAPH} {PADDED} --toco_compatible=False"
ALL = [*SAME, *REFUSED, *MORE_HERE, *CODE_IS_ZERO, NOT_TOCO]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    write_graphs(folder)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Outcome]:
    """What the original does; call number n writes `n.pb`."""
    calls = [shlex.split(call.replace("o.pb", f"{n}.pb")) for n, call in enumerate(ALL)]
    return dict(zip(ALL, originals("optimize_for_inference", calls, folder), strict=True))


def ours(call: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    Path("o.pb").unlink(missing_ok=True)
    return main(["optimize_for_inference", *shlex.split(call)])


@pytest.mark.parametrize("call", SAME)
def test_the_same(
    call: str, folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found[call].code == 0, found[call].err
    assert ours(call, folder, monkeypatch) == 0
    theirs, own = (read_graph(folder / name) for name in (f"{ALL.index(call)}.pb", "o.pb"))

    def work(message: object) -> dict[str, str]:
        return {n.name: n.op for n in message.node if n.op != "Const"}  # type: ignore[attr-defined]

    assert work(own) == work(theirs)
    assert own.versions.producer > 0 == theirs.versions.producer  # dropped there
    names = [n.name for n in own.node if n.name in {"out", "z", "pc", "rc"}]
    fed = {"ident": PICTURES[..., :1].repeat(4, 3)} if "ident" in call else {"x": PICTURES}
    for a, b in zip(*(values_of(m, names, {**fed, **SAME[call]}) for m in (own, theirs)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_text_that_says_no_is_no(
    folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, any text turns the flag on, `False` included."""
    assert ours(NOT_TOCO, folder, monkeypatch) == 0
    theirs, own = (read_graph(folder / name) for name in (f"{ALL.index(NOT_TOCO)}.pb", "o.pb"))
    assert {n.op for n in theirs.node} >= {"MirrorPad", "ResizeBilinear", "Conv2D"}
    assert {n.op for n in own.node} >= {"FusedPadConv2D", "FusedResizeAndPadConv2D"}


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
    call: str, folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found[call].code != 0
    assert ours(call, folder, monkeypatch) == 0
    assert read_graph(folder / "o.pb").node


@pytest.mark.parametrize("call", CODE_IS_ZERO)
def test_settings_are_read_or_refused(
    call: str, folder: Path, found: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found[call].code == 0
    assert ours(call, folder, monkeypatch) == 1
    assert not (folder / "o.pb").exists()
