"""saved_model_cli of TensorFlow beside ours: what they print, write and end with, flag by flag."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.oracle._exports import write_exports
from tests.oracle._scripts import Outcome, originals
from thinflow.cli import main

ONE = "run --dir one --tag_set serve --signature_def serving_default"
PAIR = "run --dir one --tag_set serve --signature_def two"
OPEN = "run --dir one --tag_set serve --signature_def open"
EXAMPLES = "run --dir one --tag_set serve --signature_def examples"
TWO = "run --dir two --tag_set serve --signature_def"

SAME = [
    "show --dir one",
    "show --dir=one",
    "show --dir one/ --tag_set=serve",
    "--dir one show",
    "show --dir one --noall",
    "show --dir one --nolist_ops --tag_set serve",
    "show --dir one --list_ops",
    "show --dir one --all",
    "show --all --dir=one --list_ops",
    "show --dir one --all --tag_set gpu",
    "show --dir one --tag_set gpu,serve",
    "show --dir one --tag_set train",
    "show --dir one --tag_set serve --list_ops",
    "show --dir one --tag_set serve --signature_def serving_default",
    "show --dir one --tag_set serve --signature_def=two --list_ops",
    "show --dir one --tag_set serve --signature_def open",
    "show --dir one --signature_def two",
    "show --dir one_text --all",
    "show --dir two",
    "show --dir two --all",
    "show --dir two --tag_set serve",
    "show --dir two --tag_set serve --signature_def extra",
    "show --dir two --tag_set serve --signature_def __saved_model_init_op",
    "show --dir risky --all",
    f"{ONE} --inputs x=x.npy",
    f"{ONE} --inputs=x=x64.npy",
    f"{ONE} --inputs x=single.npz",
    f"{ONE} --inputs 'x=single.npz[v]'",
    f"{ONE} --inputs 'x=several.npz[b]'",
    f"{ONE} --inputs 'x=x.npy[v]'",
    f"{ONE} --inputs 'x=x.npy;'",
    f"{ONE} --inputs x=x.npy --input_exprs 'x=[[1,2,3]]'",
    f"{ONE} --inputs x=x.npy --outdir out",
    f"{ONE} --inputs x=x.npy --outdir out --overwrite",
    f"{ONE} --inputs x=x.npy --outdir a/b/c --nooverwrite",
    f"{ONE} --inputs x=x.npy --outdir=",
    f"{PAIR} --inputs 'x=x.npy;n=n.npy'",
    f"{PAIR} --inputs x=x.npy --input_exprs n=3 --outdir pair",
    f"{PAIR} --input_exprs 'x=[[1,2,3],[4,5,6]];n=-2'",
    f"{PAIR} --input_exprs 'x=[[1,2,3]];n=2.5'",
    f"{OPEN} --input_exprs u=1",
    f"{OPEN} --input_exprs 'u=[[1.5,2]]'",
    f"{OPEN} --input_exprs 'u=(1,2)'",
    f'{EXAMPLES} --input_examples \'ex=[{{"a":[1.0,2.0],"i":[3],"s":["hi"]}},{{"a":[0.5,2.5]}}]\'',
    f'{EXAMPLES} --input_examples \'ex=[{{"a":[1.0,2.0],"s":[b"hi"]}}]\'',
    "run --dir one --tag_set serve --signature_def nested --inputs x=x.npy",
    "run --dir one --tag_set gpu,serve --signature_def only --inputs x=x.npy",
    "run --dir one_text --tag_set serve --signature_def serving_default --inputs x=x.npy",
    f"{TWO} serving_default --inputs x=x.npy --notf_debug --nouse_tfrt --noinit_tpu",
    f"{TWO} extra --inputs x=x.npy --input_exprs factor=2.5",
    "scan --dir one",
    "scan --dir risky",
    "scan --dir risky --op_denylist ReadFile",
    "scan --dir risky --op_denylist=",
    "scan --dir one --op_denylist 'MatMul, VarHandleOp'",
    "scan --dir one --tag_set serve --op_denylist MatMul",
    "scan --dir one --tag_set gpu,serve",
    "scan --dir two --op_denylist Mul",
]
REFUSED = [
    "",
    "nonsense",
    "show",
    "show --all",
    "show --dir absent",
    "show --dir .",
    "show --dir=",
    "show --dir one --tag_set 'serve;gpu'",
    "show --dir one --tag_set absent",
    "show --dir one --tag_set=",
    "show --dir one --tag_set serve --signature_def absent",
    "show --dir one --tag_set serve --signature_def=",
    "show --dir one --bogus",
    "show --dir one stray",
    f"{ONE}",
    f"{ONE} --inputs x",
    f"{ONE} --inputs y=x.npy",
    f"{ONE} --inputs x=absent.npy",
    f"{ONE} --inputs x=text.txt",
    f"{ONE} --inputs x=several.npz",
    f"{ONE} --inputs 'x=single.npz[q]'",
    f"{ONE} --input_exprs x",
    f"{ONE} --input_exprs x=",
    f"{ONE} --input_exprs 'x=[1,2,3]'",
    f"{ONE} --input_exprs 'x=[[1,2],[3]]'",
    f"{ONE} --input_exprs 'x={{1:2}}'",
    f"{ONE} --input_exprs 'x=__import__(\"os\").getcwd()'",
    f"{PAIR} --inputs x=x.npy",
    f"{PAIR} --input_exprs 'x=[[1,2,3]];n=\"a\"'",
    f"{EXAMPLES} --input_examples 'ex={{\"a\":[1.0]}}'",
    f"{EXAMPLES} --input_examples 'ex=[{{\"a\":1.0}}]'",
    f"{EXAMPLES} --input_examples 'ex=[{{\"a\":[]}}]'",
    f"{EXAMPLES} --input_examples 'ex=[{{\"a\":[1,2]}}]'",
    f"{EXAMPLES} --input_examples 'ex=[{{\"a\":[None]}}]'",
    "run --dir one --tag_set serve --inputs x=x.npy",
    "run --dir one --signature_def serving_default --inputs x=x.npy",
    "run --dir one --tag_set absent --signature_def serving_default --inputs x=x.npy",
    "run --dir one --tag_set serve --signature_def absent --inputs x=x.npy",
    f"{TWO} __saved_model_init_op --inputs x=x.npy",
    "scan",
    "scan --dir absent",
    "scan --dir one --tag_set absent",
    "convert --dir one --output_dir o --tag_set serve tensorrt",
    "aot_compile_cpu --dir one --tag_set serve --output_prefix p --cpp_class A",
    "freeze_model --dir one --tag_set serve --output_prefix fm",
]
# What the newest original refuses, and why it is done here.
MORE_HERE = {
    "show --dir one --tag_set 'serve, gpu'": "blanks after commas",
    "show --dir one --all=true": "releases before took no value, either; the other old tools do",
    "show -dir one": "one dash, as the tools in C++",
    "show --dir one --tag serve": "beginnings of names, as before release 2.12",
    "--version": "broken in 2.21",
    f"{ONE} --input_exprs 'x=np.ones((2,3))'": "what its own help shows",
    f"{ONE} --input_exprs ' x = [[1,2,3]]'": "blanks around names",
    "run --dir one --tag_set serve --signature_def nested --inputs x=x.npy --outdir n": "a slash in a name",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same files twice: for theirs and for ours."""
    theirs = tmp_path_factory.mktemp("theirs")
    write_exports(theirs)
    ours = tmp_path_factory.mktemp("ours") / "x"
    shutil.copytree(theirs, ours)
    return theirs, ours


@pytest.fixture(scope="module")
def found(folders: tuple[Path, Path]) -> dict[str, Outcome]:
    """What the original does with every call, in order."""
    calls = [*SAME, *REFUSED, *MORE_HERE]
    return dict(
        zip(calls, originals("saved_model_cli", [shlex.split(c) for c in calls], folders[0]), strict=True)
    )


@pytest.fixture
def ours(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folders[1])
    return folders[1]


def comparable(text: str) -> list[str]:
    """The lines with sets in order, and without the control characters that take back the last comma."""
    text = text.replace(", \b\b", "")
    lines = [re.sub(r"\{('\w+'(?:, '\w+')*)\}$", _sorted_set, line) for line in text.splitlines()]
    if "Concrete Functions:" not in lines:
        return lines
    # Variants are listed in the order of names that loading makes up.
    at = lines.index("Concrete Functions:")
    return [*lines[:at], *sorted(lines[at:])]


def _sorted_set(match: re.Match[str]) -> str:
    return "{" + ", ".join(sorted(match[1].split(", "))) + "}"


@pytest.mark.parametrize("call", SAME)
def test_the_same_lines(
    call: str, found: dict[str, Outcome], ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found[call].code == 0, found[call].err
    assert main(["saved_model_cli", *shlex.split(call)]) == 0
    assert comparable(capsys.readouterr().out) == comparable(found[call].out)


def test_the_same_files(found: dict[str, Outcome], folders: tuple[Path, Path]) -> None:
    theirs = {path.relative_to(folders[0]): path for path in folders[0].rglob("*.npy")}
    written = [name for name in theirs if name.parent != Path()]
    assert len(written) == 5
    for name in written:
        own, expected = (np.load(folder / name) for folder in reversed(folders))
        assert own.dtype == expected.dtype
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("call", REFUSED)
def test_refused_by_both(
    call: str, found: dict[str, Outcome], ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found[call].code != 0
    assert main(["saved_model_cli", *shlex.split(call)]) in (1, 2)
    captured = capsys.readouterr()
    assert not captured.out
    assert "hint: " in captured.err or "usage: " in captured.err
    assert "bug" not in captured.err


@pytest.mark.parametrize("call", MORE_HERE)
def test_done_here_alone(
    call: str, found: dict[str, Outcome], ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found[call].code != 0
    assert main(["saved_model_cli", *shlex.split(call)]) == 0
    assert capsys.readouterr().out


DIFFERENT = [
    f"{ONE} --inputs x=x.pkl",
    f"{ONE} --inputs 'x=d.pkl[v]'",
    f"{ONE} --inputs x=x.npy --outdir out",
    "scan --dir risky --op_denylist=MatMul,Add",
    f"{EXAMPLES} --input_examples 'ex=[{{\"a\":[1.0,2.0]}}]' --outdir texts",
    "run --dir risky --tag_set serve --signature_def serving_default --input_exprs 'path=\"text.txt\"'",
    "scan --dir hidden",
]


def test_different_for_a_reason(
    folders: tuple[Path, Path], ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in folders:
        (folder / "out").mkdir(exist_ok=True)
        shutil.copy(folder / "x.npy", folder / "out" / "y.npy")
    calls = [shlex.split(call) for call in DIFFERENT]
    pickled, member, existing, listed, texts, reading, hidden = originals(
        "saved_model_cli", calls, folders[0]
    )

    def run(number: int, *more: str) -> tuple[int, str, str]:
        return main(["saved_model_cli", *calls[number], *more]), *capsys.readouterr()

    # A pickle runs any program: only if asked for.
    for number, outcome in ((0, pickled), (1, member)):
        assert outcome.code == 0
        code, out, err = run(number)
        assert (code, out) == (1, "")
        assert "--allow_pickle" in err
        assert run(number, "--allow_pickle")[:2] == (0, outcome.out)
    # Nothing is computed and printed that cannot be written.
    assert existing.code == 1
    assert existing.out.startswith("Result for output key y")
    assert run(2)[:2] == (1, "")
    # A list of one's own is not called the default one.
    assert "does not contain the default denylisted ops: {" in listed.out
    assert run(3)[1].endswith("does not contain the denylisted ops: {'Add', 'MatMul'}\n")
    # Texts go to files that numpy reads without unpickling them.
    assert texts.code == 0
    assert run(4)[:2] == (0, texts.out)
    with pytest.raises(ValueError, match="allow_pickle"):
        np.load(folders[0] / "texts" / "s.npy")
    assert np.load(ours / "texts" / "s.npy").tolist() == [b"d"]
    # Models do not read files of this machine.
    assert reading.code == 0
    code, _, err = run(5)
    assert code == 1
    assert "ReadFile" in err
    # What a user of the loaded object can call counts, whether or not the graph calls it.
    assert "does not contain" in hidden.out
    assert run(6)[1].endswith("contains the following denylisted ops: {'PrintV2', 'ReadFile'}\n")
