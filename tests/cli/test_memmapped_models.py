"""Memmapped packages in everything that runs models: the same answers, from weights that stay mapped."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.cli import main
from thinflow.engines.session import Session
from thinflow.ir.tensor import RawStorage

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    zoo.write("digits", tmp_path / "digits.pb")
    flags = ["--in_graph=digits.pb", "--out_graph=digits.mmpb", "--min_conversion_tensor_size=1000"]
    assert main(["convert_graphdef_memmapped_format", *flags]) == 0


@pytest.mark.parametrize("engine", ["litert", "onnxruntime", "reference"])
def test_a_session(engine: str) -> None:
    images = zoo.test_set("digits")["image"][:2]
    answers = [
        Session(f, engine).run(["probabilities"], {"image": images})[0] for f in ("digits.pb", "digits.mmpb")
    ]
    assert np.array_equal(*answers)


def test_weights_stay_in_the_mapping() -> None:
    graph = thinflow.load("digits.mmpb")
    session = Session(graph, "reference")
    session.run(["probabilities"], {"image": zoo.test_set("digits")["image"][:1]})
    large = [n.tensor for n in graph if n.tensor is not None and n.tensor.numpy().nbytes >= 1000]
    assert len(large) == 4
    for tensor in large:
        assert isinstance(tensor.storage, RawStorage)
        assert isinstance(tensor.storage.buffer.obj, mmap.mmap)
        assert np.shares_memory(tensor.numpy(), np.frombuffer(tensor.storage.buffer, np.uint8))


def test_benchmark_model(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--input_layer=image", "--input_layer_shape=1,8,8,1", "--output_layer=probabilities"]
    assert main(["benchmark_model", "--graph=digits.mmpb", *flags, "--max_num_runs=3", "--show_flops"]) == 0
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "Timings (microseconds): count=3 " in text
    assert "FLOPs estimate: " in text
    assert "nodes observed" in text


def test_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "digits.pb", "digits.mmpb", "--runs", "3", "--json"]) == 0
    assert "digits.mmpb" in capsys.readouterr().out


def test_label_image(capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.txt").write_text("\n".join(map(str, range(10))))
    image = zoo.test_set("digits")["image"][0, :, :, 0]
    pixels = np.rint(255 * (image - image.min()) / (image.max() - image.min())).astype(np.uint8)
    Image.fromarray(pixels).save("digit.png")
    printed = []
    for graph in ("digits.pb", "digits.mmpb"):
        flags = [f"--graph={graph}", "--image=digit.png", "--labels=labels.txt"]
        assert main(["label_image", *flags, "--input_layer=image", "--output_layer=probabilities"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].count("\n") == 5
