"""Core ML packages: read, run, copied; damaged ones and those that lead out of their folder."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.coreml.packages import SPECIFICATION, Package, small, typed, write
from tests.formats.damage import damaged
from tests.night import AT_NIGHT
from thinflow.analysis.foreign import cost
from thinflow.analysis.summary import summarize
from thinflow.errors import FormatError, GraphError, ThinflowError, UnsupportedOp, WriteError
from thinflow.formats import recognise

_DAMAGED = 3000 if AT_NIGHT else 300


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return small(tmp_path / "small.mlpackage")[0]


def specification(package: Path) -> Path:
    return package / "Data" / SPECIFICATION


def test_a_package_is_read_and_computed(tmp_path: Path) -> None:
    path, w, bias = small(tmp_path / "any name")
    assert recognise(path).name == "coreml"
    graph = thinflow.load(path)
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.name for v in graph.outputs] == ["y", "r"]
    x = np.random.default_rng(1).normal(size=(1, 2, 6, 6)).astype(np.float32)
    y, r = thinflow.Session(graph, engine="reference").run(["y", "r"], {"x": x})
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((1, 4, 3, 6), np.float32)
    for row in range(3):
        for column in range(6):
            part = padded[0, :, 2 * row : 2 * row + 3, column : column + 3]
            wanted[0, :, row, column] = np.maximum((w * part).sum((1, 2, 3)) + bias, 0)
    assert np.allclose(r, wanted, atol=1e-5)
    e = np.exp(wanted[..., 2])
    assert np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-5)


def test_its_own_ops_and_what_it_costs(package: Path) -> None:
    graph = thinflow.load(package, lift=False)
    assert [n.op for n in graph if n.op.startswith("coreml.")] == [
        "coreml.conv",
        "coreml.relu",
        "coreml.slice_by_index",
        "coreml.softmax",
    ]
    assert graph.facts["operators"] == "CoreML6"
    # 18 weights and a bias for each of 72 numbers.
    conv = graph.node("c")
    found = cost(conv, [conv.output().spec], [v.spec for v in conv.inputs])
    assert found is not None
    assert found.flops == 72 * 18 * 2 + 72


def test_weights_in_few_bits_are_numbers_again(tmp_path: Path) -> None:
    stored = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    scale, zero = np.array([0.5, 1, 2], np.float32), np.array([1, 0, -1], np.int8)
    package = Package()
    x = "%" + package.input("x", (1, 4))
    operation = package.block.operations.add(type="constexpr_affine_dequantize")
    for key, array in (("quantized_data", stored), ("scale", scale), ("zero_point", zero)):
        operation.attributes[key].CopyFrom(package.weights(array))
    axis = operation.attributes["axis"]
    axis.type.CopyFrom(typed((), "int32"))
    axis.immediateValue.tensor.ints.values.append(0)
    operation.outputs.add(name="w", type=typed((3, 4), "float32"))
    package.add("linear", "y", (1, 3), x=x, weight="%w")
    path = package.write(tmp_path / "q.mlpackage", "y")
    feed = np.array([[1, 2, 3, 4]], np.float32)
    (y,) = thinflow.Session(thinflow.load(path), engine="reference").run(["y"], {"x": feed})
    w = (stored.astype(np.float32) - zero[:, None]) * scale[:, None]
    assert y.tolist() == (feed @ w.T).tolist()


def test_names_of_the_source_find_its_values(tmp_path: Path) -> None:
    package = Package()
    x = "%" + package.input("in_0", (2,))
    package.add("relu", "y_1", (2,), x=x)
    notes = package.model.description.metadata.userDefined
    notes["thinflow.names"] = json.dumps({"in_0": "in:0", "y_1": "scope/y", "gone": "other", "in": 3})
    path = package.write(tmp_path / "n.mlpackage", "y_1")
    (y,) = thinflow.Session(thinflow.load(path)).run(["scope/y"], {"in": np.array([-1, 2], np.float32)})
    assert y.tolist() == [0, 2]


def test_an_operator_that_is_not_known_is_named(tmp_path: Path) -> None:
    package = Package()
    package.add("tomorrow", "y", (2,), x="%" + package.input("x", (2,)))
    path = package.write(tmp_path / "t.mlpackage", "y")
    assert thinflow.load(path, lift=False).node("y").op == "coreml.tomorrow"
    with pytest.raises(UnsupportedOp, match=r"coreml\.tomorrow has no counterpart"):
        thinflow.load(path)


def test_an_input_that_is_not_known_is_named(tmp_path: Path) -> None:
    package = Package()
    package.add("relu", "y", (2,), x="%" + package.input("x", (2,)), slower=True)
    with pytest.raises(UnsupportedOp, match="its option 'slower'"):
        thinflow.load(package.write(tmp_path / "t.mlpackage", "y"))


def test_sizes_that_the_package_states_are_held_to(tmp_path: Path) -> None:
    package = Package()
    package.add("transpose", "y", (2, 3), x="%" + package.input("x", (2, 3)), perm=[1, 0])
    with pytest.raises(UnsupportedOp, match=r"would have the shape \[3, 2\], the package states \[2, 3\]"):
        thinflow.load(package.write(tmp_path / "t.mlpackage", "y"))


# --- copies -------------------------------------------------------------------------------------------------


def test_it_is_copied_as_it_is(package: Path, tmp_path: Path) -> None:
    graph = thinflow.load(package, lift=False)
    size = thinflow.save(graph, tmp_path / "copy.mlpackage")
    assert size == sum(f.stat().st_size for f in package.rglob("*") if f.is_file())
    assert specification(tmp_path / "copy.mlpackage").read_bytes() == specification(package).read_bytes()
    with pytest.raises(WriteError, match="something already"):
        thinflow.save(graph, tmp_path / "copy.mlpackage")


def test_a_changed_graph_is_not_copied(package: Path, tmp_path: Path) -> None:
    from thinflow.formats import coreml

    graph = thinflow.load(package, lift=False)
    graph.rename(graph.node("r"), "other")
    with pytest.raises(GraphError, match="was changed since it was read"):
        coreml.save(graph, tmp_path / "copy.mlpackage")
    assert not (tmp_path / "copy.mlpackage").exists()


# --- damage -------------------------------------------------------------------------------------------------


def test_without_its_weights(package: Path) -> None:
    shutil.rmtree(package / "Data" / "com.apple.CoreML" / "weights")
    with pytest.raises(FormatError, match=r"should be in the file 'weights/weight\.bin', which is missing"):
        thinflow.load(package)


def test_weights_that_were_cut_short(package: Path) -> None:
    weights = package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(FormatError, match="would reach beyond its 200 bytes") as caught:
        thinflow.load(package)
    assert "small.mlpackage" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"itemInfoEntries": {"a": {"path": 3}}, "rootModelIdentifier": "a"}'],
)
def test_a_damaged_list_of_items(package: Path, text: str) -> None:
    (package / "Manifest.json").write_text(text)
    with pytest.raises(FormatError):
        thinflow.load(package)


@pytest.mark.parametrize(
    "name", ["../../outside", "/etc/passwd", "C:\\outside", "a/../../../outside", "..\\outside", "x\0y", ""]
)
def test_items_outside_of_the_package(package: Path, name: str) -> None:
    (package.parent / "outside").write_bytes(specification(package).read_bytes())
    items = {"itemInfoEntries": {"a": {"path": name}}, "rootModelIdentifier": "a"}
    (package / "Manifest.json").write_text(json.dumps(items))
    with pytest.raises(FormatError, match="would lie outside of it"):
        thinflow.load(package)


@pytest.mark.parametrize(
    "name", ["@model_path/../../../outside", "/etc/passwd", "weights/weight.bin", "@model_path/"]
)
def test_weights_outside_of_the_package(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(b"x" * 1000)
    package = Package()
    w = package.weights(np.ones((3, 4), np.float32))
    w.blobFileValue.fileName = name
    package.add("linear", "y", (1, 3), x="%" + package.input("x", (1, 4)), weight=w)
    with pytest.raises(FormatError, match=r"outside of it|not in the package"):
        thinflow.load(package.write(tmp_path / "e.mlpackage", "y"))


def test_a_link_out_of_the_package(package: Path) -> None:
    weights = package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    moved = package.parent / "weight.bin"
    weights.rename(moved)
    weights.symlink_to(moved)
    with pytest.raises(FormatError, match="a link out of the package"):
        thinflow.load(package)


def test_a_model_of_another_kind(tmp_path: Path) -> None:
    package = Package()
    package.model.ClearField("mlProgram")
    package.model.neuralNetwork = b"\x0a\x00"
    write(tmp_path / "old.mlpackage", package.model.SerializeToString(), None)
    with pytest.raises(FormatError, match="of the kind neuralNetwork; programs are read"):
        thinflow.load(tmp_path / "old.mlpackage")


def test_what_nothing_writes_and_what_is_written_twice(tmp_path: Path) -> None:
    package = Package()
    package.add("relu", "y", (2,), x="%x")
    with pytest.raises(FormatError, match="'x' is read and nothing writes it"):
        thinflow.load(package.write(tmp_path / "a.mlpackage", "y"))
    package = Package()
    x = "%" + package.input("x", (2,))
    package.add("relu", "y", (2,), x=x)
    package.add("relu", "y", (2,), x=x)
    with pytest.raises(FormatError, match="'y' is written twice"):
        thinflow.load(package.write(tmp_path / "b.mlpackage", "y"))


def test_damaged_packages_are_typed_errors_or_graphs(package: Path) -> None:
    rng = random.Random(3)
    program = specification(package)
    weights = program.parent / "weights" / "weight.bin"
    sound, blobs = program.read_bytes(), weights.read_bytes()
    opened = refused = 0
    for _ in range(_DAMAGED):
        program.write_bytes(damaged(sound, rng) if rng.random() < 0.7 else sound)
        weights.write_bytes(damaged(blobs, rng) if rng.random() < 0.5 else blobs)
        try:
            graph = thinflow.load(package)
        except ThinflowError:
            refused += 1
            continue
        summarize(graph)
        for node in graph:
            if node.tensor is not None and node.tensor.dtype.itemsize:
                assert node.tensor.numpy().shape == node.tensor.shape
        opened += 1
    assert opened > 0
    assert refused > 0


def test_every_truncation(package: Path) -> None:
    program = specification(package)
    sound = program.read_bytes()
    for size in range(1, len(sound), 7):
        program.write_bytes(sound[:size])
        with pytest.raises(ThinflowError):
            thinflow.load(package)
