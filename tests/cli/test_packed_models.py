"""Packages of every kind of model, opened and run by every command, without a copy in the clear."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import api
from thinflow.bench.memory import measure_memory
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile import profile
from thinflow.cli import main
from thinflow.engines import _child, _temporary_files
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, FormatError, ParameterError
from thinflow.formats import packed_bytes, sealing
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32

pytest.importorskip("cryptography", reason="needs the extra `pack`")
Image = pytest.importorskip("PIL.Image")

SECRET = np.random.default_rng(5).uniform(-1, 1, (3, 3, 3, 4)).astype(np.float32)
"""Weights that must not be found in any temporary file."""
X = {"image": np.random.default_rng(1).uniform(0, 1, (1, 6, 6, 3)).astype(np.float32)}
KINDS = ("pb", "tflite", "onnx")
KEY = bytes(range(32)).hex()
ENGINES = {"pb": "litert", "tflite": "litert", "onnx": "onnxruntime"}


def network() -> thinflow.Graph:
    graph = thinflow.Graph()
    image = graph.add("Placeholder", name="image", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 6, 6, 3))})
    weights = graph.constant(SECRET, "filter")
    attrs = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME"}
    conv = graph.add("Conv2D", [image.output(), weights], "conv", attrs=attrs).output()
    axes = graph.constant(np.array([1, 2], np.int32), "axes")
    flat = graph.add("Mean", [conv, axes], "flat", attrs={"T": FLOAT, "Tidx": INT32}).output()
    out = graph.add("Softmax", [flat], "out", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [image.output()], [out]
    return graph


@pytest.fixture(autouse=True)
def nothing_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail when the weights are in a temporary file at the moment it is removed, or left there."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(sealing, "_SCRYPT_COST", 1 << 4)
    monkeypatch.setattr(sealing, "_met", False)
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 0)
    remove, unlink, leaks = shutil.rmtree, os.unlink, []

    def look() -> None:
        if sealing.may_write_copies():
            return
        files = [f for f in scratch.rglob("*") if f.is_file()]
        leaks.extend(f.name for f in files if SECRET[0].tobytes()[:32] in f.read_bytes())

    def rmtree(*args: object, **options: object) -> None:
        look()
        remove(*args, **options)  # type: ignore[arg-type]

    def unlinked(*args: object, **options: object) -> None:
        look()
        unlink(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    monkeypatch.setattr(os, "unlink", unlinked)
    yield
    look()
    assert not leaks


@pytest.fixture(params=KINDS)
def packed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An encrypted package of a kind; its key is in the environment."""
    kind = str(request.param)
    make(kind, tmp_path)
    monkeypatch.setenv("THINFLOW_KEY", KEY)
    return f"{kind}.tfpack"


def make(kind: str, folder: Path, key: str | None = KEY) -> None:
    thinflow.convert(network(), folder / f"m.{kind}")
    api.pack(folder / f"m.{kind}", folder / f"{kind}.tfpack", key=key)
    if key is not None:
        assert SECRET[0].tobytes()[:32] not in (folder / f"{kind}.tfpack").read_bytes()
    (folder / "labels.txt").write_text("a\nb\nc\nd\n")
    (folder / "data").mkdir(exist_ok=True)
    Image.new("RGB", (6, 6), (200, 30, 10)).save(folder / "data" / "a_1.png")


def expected() -> np.ndarray:
    return thinflow.run(network(), X, ["out"], engine="reference")["out"]


def test_a_session_runs_it(packed: str) -> None:
    session = Session(packed)
    assert session.engine == ENGINES[packed.partition(".")[0]]
    (y,) = session.run(["out"], X)
    assert np.allclose(y, expected(), atol=1e-6)


def test_every_engine_runs_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("pb", tmp_path)
    monkeypatch.setenv("THINFLOW_KEY", KEY)
    for engine in ("reference", "litert", "onnxruntime"):
        (y,) = Session("pb.tfpack", engine).run(["out"], X)
        assert np.allclose(y, expected(), atol=1e-6), engine


COMMANDS = [
    "inspect {p}",
    "run {p}",
    "verify {m} {p}",
    "benchmark {p} --runs 3",
    "benchmark_model --graph={p} --max_num_runs=2 --warmup_runs=1",
    "label_image --graph={p} --image=data --labels=labels.txt",
    "evaluate {p} data --labels labels.txt",
    "view {p} -o out.svg",
    "summarize_graph --in_graph={p}",
    "graph_to_dot --graph={p} --dot_output=g.dot",
    "unpack {p} again",
    "pack {p} again.tfpack --encrypt",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split()[0])
def test_commands_open_it(packed: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.format(p=packed, m=f"m.{packed.partition('.')[0]}").split()
    code = main(words)
    assert code == 0, capsys.readouterr().err


FOR_GRAPHS = [
    "transform {p} out.pb -t sort_by_execution_order",
    "transform_graph --in_graph={p} --out_graph=o --inputs=image --outputs=out --transforms=remove_device",
    "convert {p} out.tflite",
    "convert {p} out.onnx",
    "quantize {p} q.tflite --scheme dynamic",
    "optimize {p} out",
    "freeze {p} -o f.pb",
    "ops {p}",
    "convert_graphdef_memmapped_format --in_graph={p} --out_graph=o.mmpb",
    "diff {m} {p}",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", FOR_GRAPHS, ids=lambda c: c.split()[0])
def test_commands_for_graphs_open_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make("pb", tmp_path)
    monkeypatch.setenv("THINFLOW_KEY", KEY)
    code = main(command.format(p="pb.tfpack", m="m.pb").split())
    assert code in ((0, 1) if command.startswith("diff") else (0,)), capsys.readouterr().err


def test_a_command_that_needs_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("pb", tmp_path)
    monkeypatch.setenv("THINFLOW_KEY", KEY)
    with pytest.raises(ParameterError, match="stays in memory"):
        thinflow.reduce(thinflow.load("pb.tfpack"), command="false {}")


def test_profiles_come_from_the_engines_themselves(packed: str) -> None:
    kind = packed.partition(".")[0]
    found = profile(packed, engine=ENGINES[kind], runs=2, warmup=1)
    assert found.method == profile(f"m.{kind}", engine=ENGINES[kind], runs=2, warmup=1).method
    assert len(found.whole_micros) == 2


def test_memory_is_measured(packed: str) -> None:
    (subject,) = open_subjects(packed)
    found = measure_memory(subject, ENGINES[packed.partition(".")[0]], 1)
    assert found.error == ""
    assert found.peak_bytes is not None


def test_memory_of_a_decrypted_graph_without_a_package(tmp_path: Path) -> None:
    make("pb", tmp_path)
    packed_bytes.open_pack("pb.tfpack").model(KEY.encode())
    (subject,) = open_subjects(network())
    assert "not written to a file" in measure_memory(subject, "litert", 1).error


def test_where_nothing_can_be_forked(packed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "can_fork", lambda: False)
    content = bytes(packed_bytes.open_pack(packed).model())
    if packed != "pb.tfpack":
        (ys,) = _child.run_file(content, ENGINES[packed.partition(".")[0]], [[X["image"]]])
        assert np.allclose(ys[0], expected(), atol=1e-6)


def test_a_saved_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.formats.savedmodel import save

    save(network(), tmp_path / "saved")
    api.pack(tmp_path / "saved", tmp_path / "m.tfpack", key="k")
    monkeypatch.setenv("THINFLOW_KEY", "k")
    assert np.allclose(Session("m.tfpack").run(["out"], X)[0], expected(), atol=1e-6)


# --- weights in files beside the model ----------------------------------------------------------------------


def test_onnx_weights_beside_the_file_are_packed_too(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make("onnx", tmp_path)
    model = onnx.load("m.onnx")
    onnx.save(model, "apart.onnx", save_as_external_data=True, location="apart.bin", size_threshold=0)
    assert SECRET[0].tobytes()[:32] not in Path("apart.onnx").read_bytes()
    api.pack("apart.onnx", "apart.tfpack", key="k")
    Path("apart.bin").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THINFLOW_KEY", "k")
        assert np.allclose(Session("apart.tfpack").run(["out"], X)[0], expected(), atol=1e-6)
        assert main(["verify", "m.onnx", "apart.tfpack"]) == 0
    with pytest.raises(FormatError, match=r"file 'apart.bin', which is missing"):
        api.pack("apart.onnx", "again.tfpack")


# --- what can go wrong --------------------------------------------------------------------------------------


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert sum(line.startswith("error: ") for line in err.splitlines()) == 1, err
    return err


@pytest.mark.parametrize("command", ["run {p}", "inspect {p}", "benchmark {p} --runs 3", "unpack {p} out"])
def test_a_wrong_key(
    packed: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THINFLOW_KEY", "another passphrase")
    assert main(command.format(p=packed).split()) == 1
    assert "the key is wrong, or the file was changed" in one_line(capsys)
    monkeypatch.delenv("THINFLOW_KEY")
    monkeypatch.setattr("sys.stdin", None)
    assert main(command.format(p=packed).split()) == 1
    assert "no key is there" in one_line(capsys)


@pytest.mark.parametrize("encrypted", [True, False])
def test_every_changed_or_missing_byte_is_noticed(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    monkeypatch.setenv("THINFLOW_KEY", "k")
    for kind in KINDS:
        make(kind, tmp_path, "k" if encrypted else None)
        path = tmp_path / f"{kind}.tfpack"
        whole = path.read_bytes()
        start = len(packed_bytes.open_pack(path).raw)
        for place in rng.integers(start, len(whole), 6).tolist():
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(FormatError, match=r"changed"):
                Session(path)
            path.write_bytes(whole[:place])
            with pytest.raises(FormatError, match=r"changed|cut off|empty"):
                Session(path)
        path.write_bytes(whole[: start // 2])
        with pytest.raises((FormatError, EngineUnavailable)):
            Session(path)


def test_a_package_says_a_wrong_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("tflite", tmp_path, "k")
    monkeypatch.setenv("THINFLOW_KEY", "k")
    data = Path("tflite.tfpack").read_bytes()
    Path("tflite.tfpack").write_bytes(data.replace(b'"kind": "tflite"', b'"kind": "onnx"  '))
    with pytest.raises(FormatError, match="changed"):
        Session("tflite.tfpack")


def test_the_key_is_asked_for_once(
    packed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.delenv("THINFLOW_KEY")
    monkeypatch.setattr(packed_bytes, "_typed_keys", {})
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("getpass.getpass", lambda text: asked.append(text) or KEY)
    assert main(["verify", packed, packed]) == 0, capsys.readouterr().err
    assert main(["run", packed]) == 0
    assert asked == [f"key for {packed}: "]


def test_a_key_file(packed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THINFLOW_KEY")
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv("THINFLOW_KEY_FILE", "key")
    assert main(["run", packed]) == 0
