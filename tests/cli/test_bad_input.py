"""Bad files and bad flags, for every command: one clear error, a next step, nothing left behind."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import thinflow
from tests.night import AT_NIGHT
from thinflow.cli import main
from thinflow.wire import protos

GOOD = (Path(thinflow.__file__).parent / "data" / "digits.pb").read_bytes()
FLOAT = 'attr{key:"dtype" value{type:DT_FLOAT}}'
X = 'node{name:"x" op:"Placeholder" ' + FLOAT + ' attr{key:"shape" value{shape{%s}}}}'
X4 = X % "dim{size:1} dim{size:4}"
T = 'attr{key:"T" value{type:DT_FLOAT}}'
CONV = (
    X
    % "dim{size:1} dim{size:8} dim{size:8} dim{size:1}"
    + 'node{name:"w" op:"Const" attr{key:"dtype" value{type:DT_FLOAT}} '
    'attr{key:"value" value{tensor{dtype:DT_FLOAT '
    "tensor_shape{dim{size:3} dim{size:3} dim{size:1} dim{size:2}} float_val:0.5}}}}"
    'node{name:"y" op:"Conv2D" input:"x" input:"w" ' + T + "%s}"
)
STRIDES = 'attr{key:"strides" value{list{i:1 i:1 i:1 i:1}}}'
SAME = 'attr{key:"padding" value{s:"SAME"}}'


def relu(name: str, *inputs: str) -> str:
    references = " ".join(f'input:"{i}"' for i in inputs)
    return f'node{{name:"{name}" op:"Relu" {references} {T}}}'


def graph(text: str) -> bytes:
    return bytes(protos.serialize(protos.from_text("GraphDef", text)))


def constant(name: str, shape: str, value: str) -> str:
    return (
        f'node{{name:"{name}" op:"Const" attr{{key:"dtype" value{{type:DT_FLOAT}}}} '
        f'attr{{key:"value" value{{tensor{{dtype:DT_FLOAT tensor_shape{{{shape}}} {value}}}}}}}}}'
    )


# Name -> (content, words of the message). None of these is a graph that can be opened.
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "truncated": (GOOD[: len(GOOD) // 2], "longer than the rest of the file"),
    "one-byte": (GOOD[:1], "the file ends inside a field"),
    "random": (random.Random(1).randbytes(3000), "byte "),
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(50), "a JPEG picture"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(50), "a PNG picture"),
    "zip": (b"PK\x03\x04" + bytes(50), "a damaged zip archive"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "the HDF5 data cannot be read"),
    "web-page": (b"<!DOCTYPE html><html>404</html>", "a web page"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"),
    "pickle": (b"\x80\x04\x95" + bytes(50), "a Python pickle"),
    "onnx": (b"\x08\x07\x12\x07pytorch", "an ONNX model"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(50), "a LiteRT (.tflite) model"),
    "saved-model": (b"\x08\x01\x12\x09\x0a\x04\x2a\x02\x32\x2e\x12\x7fab", "this SavedModel cannot be read"),
    "checkpoint-list": (b'model_checkpoint_path: "model.ckpt-7"\n', "a checkpoint: weights without a graph"),
    "text-cut": (b'node { name: "x" op: "Relu" input \n', "cannot read this as the text of a GraphDef"),
    "text-field": (b'node { name: "x" bogus: 3 }\n', "has no field named"),
    "gzip-cut": (gzip.compress(GOOD)[:2000], "the gzip data is damaged"),
    "gzip-fake": (b"\x1f\x8bnope", "the gzip data is damaged"),
    "gzip-zeros": (gzip.compress(bytes(10**6)), "a file of zeros"),
    "nameless": (graph(X4 + 'node{op:"Relu" input:"x"}'), "a node has no name or no op"),
}
# Graphs that open but cannot be computed.
BROKEN: dict[str, tuple[bytes, str]] = {
    "missing-input": (graph(relu("y", "nope")), "nope"),
    "cycle": (graph(X4 + relu("a", "b") + relu("b", "a") + relu("y", "a")), "cycle"),
    "self-cycle": (graph(X4 + relu("a", "a") + relu("y", "a")), "cycle"),
    "identity-cycle": (
        graph(X4 + (relu("a", "b") + relu("b", "a") + relu("y", "a")).replace("Relu", "Identity")),
        "cycle",
    ),
    "control-cycle": (graph(X4 + relu("y", "x", "^y")), "cycle"),
    "duplicate": (graph(X4 + relu("y", "x") + relu("y", "x")), "another node has the same name"),
    "port-huge": (graph(X4 + relu("y", "x:1000000")), "x:1000000"),
}
# Graphs that are sound in structure, but nothing here can run them.
UNRUNNABLE: dict[str, tuple[bytes, str]] = {
    "unknown-op": (graph(X4 + relu("y", "x").replace("Relu", "MyFancyOp")), "MyFancyOp"),
    "resource-input": (graph(X4.replace("DT_FLOAT", "DT_RESOURCE") + relu("y", "x")), "resource"),
    "padding-garbage": (graph(CONV % (STRIDES + 'attr{key:"padding" value{s:"GARBAGE"}}')), "GARBAGE"),
    "strides-float": (graph(CONV % (SAME + 'attr{key:"strides" value{f:1.5}}')), "'y' (Conv2D)"),
    "strides-missing": (graph(CONV % SAME), "strides"),
    "strides-zero": (graph(CONV % (SAME + STRIDES.replace("i:1", "i:0"))), "'y' (Conv2D)"),
    "no-inputs": (graph(relu("y")), "'y' (Relu)"),
    "no-value": (
        graph(X4 + 'node{name:"y" op:"Const" attr{key:"dtype" value{type:DT_FLOAT}}}' + relu("z", "y")),
        "'y'",
    ),
    "cut-content": (
        graph(X4 + constant("c", "dim{size:4} dim{size:4}", 'tensor_content:"abc"') + relu("y", "c")),
        "takes 64 bytes, the file holds 3",
    ),
    "huge-input": (graph(X % "dim{size:1099511627776}" + relu("y", "x")), "too large to make up"),
    "huger-input": (
        graph(X % ("dim{size:9223372036854775807} " * 2) + relu("y", "x")),
        "too large to make up",
    ),
    "rank-300": (graph(X % ("dim{size:1} " * 300) + relu("y", "x")), "too large to make up"),
    "no-function": (
        graph(
            X4 + 'node{name:"y" op:"PartitionedCall" input:"x" attr{key:"f" value{func{name:"lost"}}} '
            'attr{key:"Tin" value{list{type:DT_FLOAT}}} attr{key:"Tout" value{list{type:DT_FLOAT}}}}'
        ),
        "",
    ),
    "no-outputs": (graph('node{name:"n" op:"NoOp"}'), "no outputs"),
    "only-constants": (graph(constant("c", "dim{size:2}", "float_val:1 float_val:2")), "no outputs"),
}
COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {
    "inspect": lambda m, d: ["inspect", m],
    "summarize_graph": lambda m, d: ["summarize_graph", f"--in_graph={m}", "--print_structure"],
    "transform": lambda m, d: [
        "transform",
        m,
        str(d / "o.pb"),
        "-t",
        "fold_constants sort_by_execution_order",
    ],
    "transform_graph": lambda m, d: [
        "transform_graph",
        f"--in_graph={m}",
        f"--out_graph={d / 'o.pb'}",
        "--transforms=fold_constants",
    ],
    "convert": lambda m, d: ["convert", m, str(d / "o.tflite")],
    "run": lambda m, d: ["run", m, "--save", str(d / "o.npz")],
    "reference": lambda m, d: ["run", m, "--engine", "reference", "--save", str(d / "o.npz")],
    "verify": lambda m, d: ["verify", m, m],
    "quantize": lambda m, d: ["quantize", m, str(d / "o.tflite"), "--samples", "2"],
    "benchmark": lambda m, d: ["benchmark", m, "--runs", "2", "--no-memory"],
    "optimize": lambda m, d: ["optimize", m, str(d / "out"), "--no-benchmark", "--samples", "2"],
}
RUNNING = ["run", "reference", "verify", "optimize", "convert", "quantize"]


def fails(
    argv: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str], *, silent: bool = True
) -> None:
    """The command ends with exit code 1, one error, one hint, and an empty folder."""
    assert main(argv) == 1
    captured = capsys.readouterr()
    error = captured.err.splitlines()
    assert error, captured.out
    assert error[0].startswith("error: "), captured.err
    assert error[1].startswith("hint: "), captured.err
    assert len(error) == 2
    assert words in error[0]
    assert "bug" not in error[0]
    if silent:
        assert captured.out == ""
    assert list(folder.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable(
    name: str, command: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = UNREADABLE[name]
    if command in ("run", "reference", "verify", "benchmark") and name in ("onnx", "tflite"):
        # These take such files, and what runs them says what is wrong.
        words = "that cannot be read" if command == "reference" else "refuses the model"
    if (name, command) == ("checkpoint-list", "inspect"):
        words = "there is no checkpoint of this name"  # it shows what is in a checkpoint
    model = tmp_path / "model.pb"
    model.write_bytes(content)
    fails(COMMANDS[command](str(model), folder), words, folder, capsys)


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in {"inspect", "summarize_graph", "transform_graph"}]
)
@pytest.mark.parametrize("name", BROKEN)
def test_broken(
    name: str, command: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (name, command) == ("duplicate", "benchmark"):
        pytest.skip("benchmark takes the first of them")
    content, words = BROKEN[name]
    model = tmp_path / "model.pb"
    model.write_bytes(content)
    fails(COMMANDS[command](str(model), folder), words, folder, capsys)


@pytest.mark.parametrize("name", BROKEN)
def test_inspect_still_tells_about_broken_graphs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = BROKEN[name]
    model = tmp_path / "model.pb"
    model.write_bytes(content)
    assert main(["inspect", str(model)]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("model.pb is a BROKEN GraphDef of ")
    assert words in first
    assert last == f"next: thinflow inspect {model} --all"


@pytest.mark.parametrize("command", RUNNING)
@pytest.mark.parametrize("name", UNRUNNABLE)
def test_unrunnable(
    name: str, command: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = UNRUNNABLE[name]
    model = tmp_path / "model.pb"
    model.write_bytes(content)
    if (name, command) == ("unknown-op", "optimize"):  # it may run elsewhere, and is carried through
        assert main(COMMANDS[command](str(model), folder)) == 0
        assert "the graph was not run from end to end" in capsys.readouterr().out
        return
    fails(
        COMMANDS[command](str(model), folder),
        words if command in {"run", "reference"} else "",
        folder,
        capsys,
    )


@pytest.mark.parametrize("name", UNRUNNABLE)
def test_inspect_opens_what_cannot_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(UNRUNNABLE[name][0])
    assert main(["inspect", str(model)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("model.pb is a ")
    assert captured.err == ""


@pytest.mark.parametrize("seed", range(30 if AT_NIGHT else 6))
def test_flipped_bits(seed: int, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(seed)
    content = bytearray(GOOD)
    for _ in range(3):
        content[dice.randrange(3000 if seed % 2 else len(content))] ^= 1 << dice.randrange(8)
    model = tmp_path / "model.pb"
    model.write_bytes(content)
    for argv in (["inspect", str(model)], ["run", str(model), "--engine", "reference"]):
        code = main(argv)
        captured = capsys.readouterr()
        assert code in (0, 1)
        assert "bug" not in captured.err
        assert "Traceback" not in captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder(command: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.pb"
    model.mkdir()
    fails(COMMANDS[command](str(model), folder), "folder" if command != "benchmark" else "", folder, capsys)


def test_a_damaged_saved_model_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "export"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"\x08\x01\x12\x00")
    (model / "variables" / "variables.index").write_bytes(b"")
    assert main(["inspect", str(model)]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith("saved_model.pb: this SavedModel cannot be read: this MetaGraph holds no graph")
    assert "export it again" in hint


def test_a_checkpoint_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.ckpt-7.index").write_bytes(b"")
    assert main(["inspect", str(tmp_path)]) == 1
    assert "model.ckpt-7.index: the file is empty" in capsys.readouterr().err


def test_a_missing_file_lists_its_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.pb").write_bytes(GOOD)
    assert main(["inspect", str(tmp_path / "modle.pb")]) == 1
    assert capsys.readouterr().err.endswith(
        "there is no such file\nhint: in that folder there is: model.pb\n"
    )


def test_a_link_to_nowhere_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.pb").symlink_to("gone.pb")
    (tmp_path / "folder.pb").mkdir()
    (tmp_path / "other.keras").write_bytes(GOOD)
    assert main(["inspect", str(tmp_path / "model.pb")]) == 1
    told = capsys.readouterr().err
    assert "model.pb: this is a link to gone.pb, and there is no such file\n" in told
    assert told.endswith("hint: in that folder there is: other.keras\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "model.pb"
    os.mkfifo(pipe)
    assert main(["inspect", str(pipe)]) == 1
    assert capsys.readouterr().err.endswith(
        "this is not a regular file\nhint: save the model to a file first\n"
    )


def test_text_under_a_binary_name_and_gzip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (
        ("text.pb", f"{X4}\n{relu('y', 'x')}".replace("node{", "node {").encode()),
        ("model.pb.gz", gzip.compress(GOOD)),
        ("odd.bin", GOOD),
    ):
        (tmp_path / name).write_bytes(content)
        assert main(["inspect", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.startswith(f"{name} is a frozen GraphDef")


def test_a_long_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["x", *(f"r{i}" for i in range(3000))]
    model = tmp_path / "chain.pb"
    model.write_bytes(graph(X4 + "".join(relu(b, a) for a, b in pairwise(names))))
    for argv in (
        ["inspect", str(model)],
        ["run", str(model)],
        ["run", str(model), "--engine", "reference"],
        [
            "transform",
            str(model),
            str(tmp_path / "o.pb"),
            "-t",
            "fold_constants merge_duplicate_nodes sort_by_execution_order",
        ],
    ):
        assert main(argv) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words", "hint"),
    [
        (["run", "{m}", "--inputs", "imag"], "there is no input 'imag'", "'image'"),
        (["run", "{m}", "--outputs", "probabilitys"], "there is no output 'probabilitys'", "'probabilities'"),
        (["run", "{m}", "--outputs", "probabilities,probabilities"], "given twice", "once"),
        (["run", "{m}", "--outputs", "probabilities:9"], "has 1 output", "write 'probabilities'"),
        (["run", "{m}", "--outputs", ","], "no outputs to compute", "--outputs NAMES"),
        (["run", "{m}", "--shape", "1,8,8,1"], "the name is missing", "NAME=1,224,224,3"),
        (["run", "{m}", "--shape", "image=1x8"], "'1x8' is not a size", "1,224,224,3"),
        (["run", "{m}", "--shape", "image=1,-3"], "'-3' is not a size", ""),
        (["run", "{m}", "--shape", "imag=1"], "'imag' is not an input", "image"),
        (["inspect", "{m}", "--shape", "imag=1"], "'imag' is not an input", "did you mean 'image'?"),
        (["run", "{m}", "--engine", "litrt"], "no engine 'litrt'", "litert"),
        (["run", "{m}", "--threads", "0"], "0 threads", "1 or more"),
        (["run", "{m}", "--seed", "-1"], "the seed is -1", "whole number"),
        (["run", "{m}", "--feed", "x.npy"], "the name is missing", "NAME=FILE"),
        (["run", "{m}", "--feed", "image={d}/none.npy"], "there is no such file", "check the path"),
        (["run", "{m}", "--feed", "imag={m}"], "no node named 'imag'", "'image'"),
        (["run", "{m}", "--feed", "image={m}"], "cannot be read from a .pb file", ""),
        (["verify", "{m}", "{m}", "--tolerance", "-1"], "the tolerance is -1", "0 or more"),
        (["verify", "{m}", "{d}/none.pb"], "no such file", ""),
        (["transform", "{m}", "{d}/o.pb", "-t", "fold_constant"], "not recognized", "fold_constants"),
        (["transform", "{m}", "{d}/o.pb", "-t", "fold_constants(x=1)"], "no parameter 'x'", "it takes"),
        (["transform", "{m}", "-t", "fold_constants"], "no output file was given", "--dry-run"),
        (["transform", "{m}", "{d}/o.h5", "-t", "fold_constants"], ".h5 files is not supported", ".pb"),
        (["convert", "{m}", "{d}/o.h5"], ".h5 files is not supported", ".tflite"),
        (["convert", "{m}", "{d}/none/o.pb"], "its folder does not exist", "mkdir -p"),
        (["convert", "{m}", "{d}"], "this is a folder", "name a file"),
        (["convert", "{m}", "{m}/o.pb"], "cannot be written", "another path"),
        (
            ["quantize", "{m}", "{d}/o.h5"],
            "a quantized model is a .tflite, .onnx, .xml, .c or .pb file",
            ".tflite",
        ),
        (["quantize", "{m}", "{d}/o.tflite", "--samples", "0"], "0 samples", "at least 1"),
        (["quantize", "{m}", "{d}/o.tflite", "--std", "0"], "std is 0", ""),
        (["quantize", "{m}", "{d}/o.tflite", "--calibration", "{d}"], "the folder has no samples", ".npz"),
        (["quantize", "{m}", "{d}/o.tflite", "--calibration", "{d}/none"], "no such file or folder", ""),
        (
            ["quantize", "{m}", "{d}/o.tflite", "--calibration", "{m}"],
            "cannot be read from a .pb file",
            ".npz",
        ),
        (["optimize", "{m}", "{m}", "--no-benchmark"], "there is a file of this name", "name a folder"),
        (["optimize", "{m}", "{m}/out", "--no-benchmark"], "there is a file of this name", "name a folder"),
        (["optimize", "{m}", "{d}/o", "--threads", "many"], "not a list of numbers", "--threads 1,2"),
        (
            ["optimize", "{m}", "{d}/o", "--labels", "{d}/none"],
            "the labels cannot be read",
            "one label a line",
        ),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_wrong_flags(
    argv: list[str], words: str, hint: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    assert main([a.format(m=model, d=folder) for a in argv]) == 1
    captured = capsys.readouterr()
    error, told = captured.err.splitlines()
    assert error.startswith("error: ")
    assert words in error
    assert told.startswith("hint: ")
    assert hint in told
    assert captured.out == ""
    assert list(folder.iterdir()) == []
    assert model.read_bytes() == GOOD


def test_the_place_of_a_mistake_is_marked(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    assert main(["transform", str(model), str(folder / "o.pb"), "-t", "fold_constants("]) == 1
    error, text, caret, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: transform string, character 14: ")
    assert error.endswith("never closed")
    assert text.index("(") == caret.index("^")
    assert hint == "hint: add the missing )"
    assert list(folder.iterdir()) == []


def test_samples_that_do_not_fit(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    for arrays, words in (
        ({"bogus": np.zeros((3, 8, 8, 1), np.float32)}, "no input 'bogus'"),
        ({"image": np.zeros((3, 5, 8, 1), np.float32)}, "wants shape [1,8,8,1]"),
        ({}, "there are no samples"),
    ):
        np.savez(tmp_path / "samples.npz", **arrays)
        argv = [
            "quantize",
            str(model),
            str(folder / "o.tflite"),
            "--calibration",
            str(tmp_path / "samples.npz"),
        ]
        fails(argv, words, folder, capsys)


@pytest.mark.parametrize("command", ["transform", "convert", "quantize", "run"])
def test_a_full_disk(
    command: str,
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    monkeypatch.setattr(os, "fsync", full)
    fails(COMMANDS[command](str(model), folder), "the disk is full", folder, capsys)


def test_a_read_only_folder(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    monkeypatch.setattr(os, "access", lambda *_: False)
    fails(COMMANDS["optimize"](str(model), folder), "no permission to write here", folder, capsys)


def test_output_over_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.pb"
    model.write_bytes(GOOD)
    assert main(["transform", str(model), str(model), "-t", "fold_constants"]) == 0
    assert main(["inspect", str(model)]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["model.pb"]


def test_a_link_is_written_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, link = tmp_path / "model.pb", tmp_path / "link.pb"
    model.write_bytes(b"old")
    link.symlink_to(model)
    (tmp_path / "source.pb").write_bytes(GOOD)
    assert main(["convert", str(tmp_path / "source.pb"), str(link)]) == 0
    assert link.is_symlink()
    assert model.read_bytes() == GOOD


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a device file that is safe to write")
def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    from thinflow.formats.files import write_file

    ours, theirs = os.openpty()
    device = os.ttyname(theirs)
    assert write_file(device, [b"ab", b"c"]) == 3
    got = b""
    while len(got) < 3:  # a terminal hands over what it has
        got += os.read(ours, 10)
    assert got == b"abc"
    assert Path(device).is_char_device()
    os.close(ours)
    os.close(theirs)
