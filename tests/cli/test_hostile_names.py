"""A model whose names command terminals, forge lines, end quotes and leave folders, in every command."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import COMMANDS, main
from thinflow.compat import registration
from thinflow.pages.assets import FOLDER
from thinflow.wire import protos

NETWORK = """
x = Placeholder() {dtype=float, shape=shape[1,8,8,3]}
w = Const() {dtype=float, value=float[3,3,3,4]{normal 1}}
conv = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
f = Const() {dtype=float, value=float[4]{1.5,2,0.5,1}}
mul = Mul(conv, f) {T=float}
relu = Relu(mul) {T=float}
copy = Identity(relu) {T=float}
shape = Const() {dtype=int32, value=int32[2]{1,256}}
flat = Reshape(copy, shape) {T=float}
w2 = Const() {dtype=float, value=float[256,5]{normal 2}}
logits = MatMul(flat, w2) {T=float}
y = Softmax(logits) {T=float}
inputs: x
outputs: y
"""
HOSTILE = {
    "x": "x\x1b[2J\x1b]0;owned\x07",
    "conv": "conv\nnext: thinflow FORGED",
    "mul": "mul\u202elum\u2066",
    "relu": "re`$(touch OWNED)`'\"lu",
    "copy": "e|<script>alert(1)</script>|[x](javascript:1)",
    "flat": "=cmd|' /C calc'!A0",
    "logits": "../../ESCAPED/logits",
    "w": "w\x9b31m\r\nerror: FORGED",
    "w2": "w\0null",
    "f": "f\u2028\x85g",
    "y": "y\x1b[31m\nFORGED line\u202e,\\'\"; touch OWNED",
}
STRICT = "[budget]\nnodes = 1\nforbidden_ops = ['Conv2D', 'Relu']\nlint = ['warning']\n"
FORGED = ("next: thinflow FORGED", "error: FORGED", "FORGED")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model under hostile names and what other commands made of it."""
    folder = tmp_path_factory.mktemp("hostile")
    thinflow.save(parse_graph(NETWORK), folder / "good.pb")
    message = protos.parse("GraphDef", (folder / "good.pb").read_bytes())
    for node in message.node:
        node.name = HOSTILE.get(node.name, node.name)
        inputs = [HOSTILE.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(inputs)
    (folder / "evil.pb").write_bytes(bytes(protos.serialize(message)))
    for name in ("evil.tflite", "evil.pbtxt"):
        thinflow.convert(folder / "evil.pb", folder / name)
    thinflow.save(thinflow.transform(folder / "evil.pb", "fold_batch_norms"), folder / "folded.pb")
    np.savez(folder / "none.npz", np.zeros(1, np.float32))
    (folder / "strict.toml").write_text(STRICT)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a folder of its own, two levels deep, to see what leaves it."""
    inner = tmp_path / "a" / "b"
    shutil.copytree(made, inner)
    monkeypatch.chdir(inner)
    return inner


COMMAND_LINES = """
inspect evil.pb
inspect evil.pb --all
inspect evil.pbtxt --all --json
inspect evil.tflite --all
optimize evil.pb out --no-benchmark
fit evil.tflite --all
lint evil.pb --all
lint evil.pb --all --synthetic --format github
lint evil.tflite --json
lint evil.pb --fix new.pb
survey evil.pb evil.tflite --all
survey evil.pb --json --no-lint
check evil.pb evil.tflite --budget strict.toml --all
check evil.pb --budget strict.toml --format junit
check evil.pb --budget strict.toml --format github
deploy evil.pb app --target python
deploy evil.pb app --target web --json
deploy evil.pb app --target arduino
convert evil.pb new.tflite
convert evil.pb new.pbtxt
convert evil.pb new.tflite --outputs nope
transform evil.pb new.pb -t float
transform evil.pb new.pb -t quantize_weights --report report.json
transform evil.pb --dry-run -t fold_batch_norms
transform evil.pb new.pb -t 'obfuscate_names'
transforms fold_batch_norms
quantize evil.pb new.tflite
quantize evil.pb new.tflite --scheme float16
run evil.pb
run evil.pb --placement
run evil.pb --save out.npz
run evil.pb --json
run evil.pb --inputs nope
verify evil.pb folded.pb
verify evil.pb evil.tflite
diff evil.pb folded.pb --all
diff good.pb evil.pb --all
diff evil.pb evil.tflite --all
benchmark evil.pb --seconds 0.01 --threads 1 --profile
benchmark evil.pb evil.tflite --seconds 0.01 --threads 1 --csv
benchmark evil.tflite --seconds 0.01 --threads 1 --profile --markdown
view evil.pb -o new.html
view evil.pb -o new.svg --engine thinflow
view evil.pb -o new.dot --constants
freeze evil.pb -o new.pb
reduce evil.pb new.pb --failure nan
evaluate evil.pb none.npz
pack evil.pb new.tfpack
unpack evil.pb new.pb
ops evil.pb
ops evil.pb --micro
sample nothing new.pb
help evil.pb
summarize_graph --in_graph=evil.pb --print_structure=true
transform_graph --in_graph=evil.pb --out_graph=new.pb --transforms=sort_by_execution_order --inputs=nope
transform_graph --in_graph=evil.pb --out_graph=new.pb --transforms=quantize_nodes
print_selective_registration_header --graphs=evil.pb
label_image --graph=evil.pb --image=none.npz --labels=none.npz
label_wav --graph=evil.pb --wav=none.npz --labels=none.npz
benchmark_model --graph=evil.pb --max_time=0.01 --max_num_runs=1 --warmup_runs=0
benchmark_model --graph=evil.pb --max_time=0.01 --max_num_runs=1 --csv
benchmark_model --graph=evil.tflite --max_time=0.01 --max_num_runs=1 --show_sizes
compare_graphs evil.pb folded.pb --all
compare_graphs evil.pb folded.pb --numeric
graph_to_dot --graph=evil.pb --dot_output=new.dot
graph_metrics --graph=evil.pb --batch_size=1
strip_unused --input_graph=evil.pb --output_graph=new.pb --input_node_names=nope --output_node_names=y
optimize_for_inference --input=evil.pb --output=new.pb --input_names=nope --output_names=nope
quantize_graph --input=evil.pb --output=new.pb --output_node_names=nope --mode=weights
convert_graphdef_memmapped_format --in_graph=evil.pb --out_graph=new.pb
import_pb_to_tensorboard --model_dir=evil.pb --log_dir=events
freeze_graph --input_graph=evil.pb --output_graph=new.pb --output_node_names=y --input_checkpoint=none.npz
inspect_checkpoint --file_name=evil.pb
tflite_convert --graph_def_file=evil.pb --output_file=new.tflite --input_arrays=nope --output_arrays=y
toco --input_file=evil.pb --output_file=new.tflite --input_array=nope --output_array=y --input_shape=1
saved_model_cli show --dir=evil.pb --all
completion bash
""".strip().splitlines()


def test_every_command_is_tried() -> None:
    assert {line.split()[0] for line in COMMAND_LINES} == set(COMMANDS)


def unseen(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"} and c not in "\n\t"}


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_no_name_reaches_the_terminal_as_it_is(
    line: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p.relative_to(place.parent.parent) for p in place.parent.parent.rglob("*")}
    main(shlex.split(line))
    told = "".join(capsys.readouterr())
    assert "thinflow has a bug" not in told
    assert not unseen(told)
    assert not [text for text in told.split("\n") if text.startswith(FORGED)]
    new = {p.relative_to(place.parent.parent) for p in place.parent.parent.rglob("*")} - before
    assert all(p.parts[:2] == ("a", "b") for p in new), new
    assert not [p for p in new if unseen(p.name) or "OWNED" in p.name or "ESCAPED" in p.name]
    for path in (place.parent.parent / p for p in new):
        if path.suffix in {".md", ".html", ".svg", ".dot", ".csv"}:
            text = path.read_text("utf-8")
            # Scripts of a page come with thinflow; the library that places boxes parts keys by \\x01.
            for script in FOLDER.glob("*.js"):
                text = text.replace(script.read_text("utf-8"), "")
            assert not unseen(text), path
            assert path.suffix == ".dot" or "<script>alert" not in text.replace("\\<", ""), path


def test_next_commands_are_quoted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "my `touch OWNED` $(touch OWNED) '\"; model.pb"
    shutil.copy("good.pb", name)
    for line in (["inspect", name], ["run", name], ["convert", name, f"{name}.tflite"], ["diff", name, name]):
        main(line)
        last = capsys.readouterr().out.strip().split("\n")[-1]
        words = shlex.split(last)
        assert words[:2] == ["next:", "thinflow"]
        assert any(name in word for word in words[2:])


def rows_of(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True))


def test_tables_for_spreadsheets_hold_no_formula(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("benchmark_model --graph=evil.pb --max_num_runs=1 --csv")) == 0
    out = capsys.readouterr().out
    tables = [line for line in out.splitlines() if ", " in line]
    assert any("'=cmd|' /C calc'!A0" in line for line in tables)
    by_node = [row for row in rows_of("\n".join(tables)) if row[-1].startswith(("'=cmd", "y\\x1b"))]
    assert {len(row) for row in by_node} == {8}  # no name made further cells

    shutil.copy("good.pb", "=1+1.pb")
    assert main(["benchmark", "./=1+1.pb", "--seconds", "0.01", "--threads", "1", "--csv"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert rows[1][0] == "'=1+1"
    assert not [cell for row in rows for cell in row if cell[:1] in "=@" and cell]


@pytest.mark.parametrize("output", ["file", "allow_pickle", "a/../../b", "args"])
def test_outputs_of_any_name_are_saved(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "x = Placeholder() {dtype=float, shape=shape[2]}\n" + f"{output} = Neg(x) {{T=float}}\n"
    thinflow.save(parse_graph(f"{text}inputs: x\noutputs: {output}"), "m.pb")
    assert main(["run", "m.pb", "--save", "o.npz"]) == 0
    with np.load("o.npz") as archive:
        assert archive.files == [output.replace("/", "__")]
        assert archive[archive.files[0]].shape == (2,)


def test_headers_for_compilers_hold_no_code_of_others() -> None:
    evil = 'A");\nsystem("touch OWNED");//??/\\'
    text = registration.header([registration.Need(evil, evil)])
    spelled = "A\\042);\\012system(\\042touch OWNED\\042);//\\077\\077/\\134"
    assert f'same(op, "{spelled}")' in text
    assert f'"{spelled}",\n' in text
    assert registration.onnx_config({("a;b\n", 3): ["X\nY;1;Z", "Relu"]}).splitlines()[1:] == [
        "a?b?;3;Relu,X?Y?1?Z"
    ]


def test_json_keeps_names_as_they_are(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "evil.pb", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert HOSTILE["y"] in json.dumps(found).encode().decode("unicode_escape")
