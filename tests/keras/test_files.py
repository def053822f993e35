"""Containers of Keras models: what is read, and what is refused with a reason."""

from __future__ import annotations

import contextlib
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.keras.written import dense, layer, sequential, source, weights_bytes, write_h5, write_keras
from thinflow.errors import FormatError

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)
NET = sequential(source(2), dense())
X = np.array([[1.0, 10.0]], np.float32)
WANTED = [[30.0, 41.0, 52.0]]
PLACED = {"layers/dense": [KERNEL]}


def answer(path: Path) -> Any:
    session = thinflow.Session(thinflow.load(path), engine="reference")
    return session.run(list(session.outputs), {next(iter(session.inputs)): X})[0].tolist()


def as_h5(folder: Path) -> Path:
    return write_h5(folder / "net.h5", NET, {"x": [], "dense": [KERNEL]})


def as_archive(folder: Path) -> Path:
    return write_keras(folder / "net.keras", NET, PLACED)


def as_archive_from_windows(folder: Path) -> Path:
    path = folder / "net.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net\\metadata.json", json.dumps({"keras_version": "3.9.0"}))
        archive.writestr("net\\config.json", json.dumps(NET))
        archive.writestr("net\\model.weights.h5", weights_bytes(PLACED))
    return path


def as_folder(folder: Path) -> Path:
    path = folder / "net"
    path.mkdir()
    (path / "metadata.json").write_text(json.dumps({"keras_version": "3.9.0"}))
    (path / "config.json").write_text(json.dumps(NET))
    (path / "model.weights.h5").write_bytes(weights_bytes(PLACED))
    return path


def as_weights_and_config(folder: Path) -> Path:
    (folder / "net.json").write_text(json.dumps({**NET, "keras_version": "2.4.0"}))
    return write_h5(folder / "net_weights.h5", None, {"dense": [KERNEL]})


def as_weights_and_yaml(folder: Path) -> Path:
    (folder / "net.yaml").write_text(
        "backend: tensorflow\nclass_name: Sequential\nconfig:\n- class_name: Dense\n  config:\n"
        "    activation: linear\n    batch_input_shape: !!python/tuple [null, 2]\n    dtype: float32\n"
        "    name: dense\n    trainable: true\n    units: 3\n    use_bias: false\nkeras_version: 2.0.8\n"
    )
    return write_h5(folder / "net_weights.h5", None, {"dense": [KERNEL]})


def as_sharded_weights(folder: Path) -> Path:
    (folder / "net.json").write_text(json.dumps(NET))
    (folder / "net_00000.weights.h5").write_bytes(weights_bytes({}))
    (folder / "net_00001.weights.h5").write_bytes(weights_bytes(PLACED))
    table = {"/layers/dense/vars": "net_00001.weights.h5", "/vars": ["net_00000.weights.h5"]}
    path = folder / "net.weights.json"
    path.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": table}))
    return path


def as_folder_of_shards(folder: Path) -> Path:
    path = as_folder(folder)
    (path / "model.weights.h5").rename(path / "model_00000.weights.h5")
    table = {"/layers/dense/vars": "model_00000.weights.h5"}
    (path / "model.weights.json").write_text(json.dumps({"weight_map": table}))
    (path / "metadata.json").unlink()
    return path


def as_new_weights_and_config(folder: Path) -> Path:
    (folder / "net.json").write_text(json.dumps(NET))
    path = folder / "net.weights.h5"
    path.write_bytes(weights_bytes(PLACED))
    return path


def as_h5_by_the_wrong_name(folder: Path) -> Path:
    return as_h5(folder).rename(folder / "net.keras")


def as_old_checkpoint_paths(folder: Path) -> Path:
    places = {"_layer_checkpoint_dependencies/dense": [KERNEL]}
    return write_keras(folder / "net.keras", NET, places, version="2.13.1")


@pytest.mark.parametrize(
    "make",
    [
        as_h5,
        as_archive,
        as_archive_from_windows,
        as_folder,
        as_weights_and_config,
        as_weights_and_yaml,
        as_sharded_weights,
        as_folder_of_shards,
        as_new_weights_and_config,
        as_h5_by_the_wrong_name,
        as_old_checkpoint_paths,
    ],
)
def test_containers(make: Callable[[Path], Path], tmp_path: Path) -> None:
    assert answer(make(tmp_path)) == WANTED


def test_weights_stay_in_the_file(tmp_path: Path) -> None:
    """A copy of each would be as much memory as the file has bytes."""
    config = sequential(source(2), dense(units=3))
    graph = thinflow.load(write_h5(tmp_path / "net.h5", config, {"dense": [np.ones((2, 3), np.float32)]}))
    (weights,) = [t.numpy() for n in graph if (t := n.tensor) is not None and t.shape == (2, 3)]
    assert not weights.flags.owndata
    assert not weights.flags.writeable


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    facts = thinflow.load(as_archive(tmp_path)).facts
    assert facts["producer"] == "Keras 3.9.0"
    assert facts["model"] == "Sequential 'net', 2 layers"


def test_names(tmp_path: Path) -> None:
    graph = thinflow.load(as_h5(tmp_path))
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.name for v in graph.outputs] == ["net/dense/MatMul"]
    assert graph.value("dense").name == "net/dense/MatMul"


# --- refused ------------------------------------------------------------------------------------------------


def refusal(path: Path) -> thinflow.ThinflowError:
    with pytest.raises(thinflow.ThinflowError) as caught:
        thinflow.load(path)
    assert str(path) in caught.value.where
    return caught.value


def test_weights_alone(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "net_weights.h5", None, {"dense": [KERNEL]})
    error = refusal(path)
    assert "it holds weights alone" in error.problem
    assert "net_weights.json" in error.hint


def test_hdf5_of_something_else(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "table.h5", "w") as file:
        file["table"] = KERNEL
    assert "no Keras model in it" in refusal(tmp_path / "table.h5").problem


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (
            {"dense": [KERNEL[:, :2]]},
            r"its variable kernel has the shape \[2, 2\], and the config says \[2, 3\]",
        ),
        ({"dense": [KERNEL, KERNEL]}, "it has 1 arrays of weights, and the file holds 2"),
        ({}, "1 layers have weights, and the file holds those of 0: the file has none of 'dense'"),
        (
            {"a": [KERNEL], "b": [KERNEL]},
            "the file holds those of 2: the file has none of 'dense'; the config does not have 'a', 'b'",
        ),
        (
            {"dense": [KERNEL], "b": [KERNEL]},
            "1 layers have weights, and the file holds those of 2: the config does not have 'b'",
        ),
    ],
)
def test_weights_that_do_not_fit(tmp_path: Path, weights: dict[str, Any], problem: str) -> None:
    error = refusal(write_h5(tmp_path / "net.h5", NET, weights))
    import re

    assert re.search(problem, error.problem)
    assert "another model than the config" in error.hint


def test_a_variable_that_is_missing(tmp_path: Path) -> None:
    path = write_keras(tmp_path / "net.keras", NET, {})
    error = refusal(path)
    assert error.problem == "its variable kernel is missing"
    assert "layer 'dense' (Dense)" in error.where


@pytest.mark.parametrize("root", ["layers", "_layer_checkpoint_dependencies", "layers\\"])
def test_variables_of_layers_that_are_not_there(tmp_path: Path, root: str) -> None:
    slash = "" if root.endswith("\\") else "/"
    places = {f"{root}{slash}dense": [KERNEL], f"{root}{slash}dense_1": [KERNEL]}
    error = refusal(write_keras(tmp_path / "net.keras", NET, places))
    assert error.problem == "it holds weights of a layer 'dense_1', which the config does not have"
    assert "another model than the config" in error.hint


@pytest.mark.parametrize("slash", ["/", "\\"])  # Windows
@pytest.mark.parametrize("step", [1, 2])  # in Keras 2.14; in 2.12 and 2.13
def test_early_archives_count_layers_with_weights_twice(tmp_path: Path, step: int, slash: str) -> None:
    swap, double = np.float32([[0, 1], [1, 0]]), np.float32([[2, 0], [0, 2]])
    part = sequential(source(2, name="y"), dense("a", units=2), dense("b", units=2))
    part["config"]["name"] = "part"
    first = sequential(source(2, name="z"), dense("c", units=2))
    first["config"]["name"] = "first"
    net = sequential(source(2), first, layer("Activation", activation="linear"), part, dense())
    root = "_layer_checkpoint_dependencies"
    inner = f"{root}/sequential_{step}/{root}"
    places = {
        f"{root}/sequential/{root}/dense": [swap], f"{inner}/dense": [double],
        f"{inner}/dense_{step}": [swap], f"{root}/dense": [KERNEL],
    }  # fmt: skip
    path = write_keras(tmp_path / "net.keras", net, {k.replace("/", slash): v for k, v in places.items()})
    assert answer(path) == [[2 * n for n in WANTED[0]]]


def test_archives_without_weights(tmp_path: Path) -> None:
    path = as_folder(tmp_path)
    (path / "model.weights.h5").unlink()
    assert refusal(path).problem == "its weights are missing"
    (path / "model.weights.npz").write_bytes(b"PK")
    assert refusal(path).problem == (
        "its weights are in model.weights.npz, as pickled objects of Python, which are never read"
    )


def test_one_of_several_files_of_weights(tmp_path: Path) -> None:
    as_sharded_weights(tmp_path)
    error = refusal(tmp_path / "net_00001.weights.h5")
    assert error.problem == "it holds a part of a model's weights"
    assert error.hint == "give the list of parts: net.weights.json"


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        (
            {"weight_map": {"/vars": "net_00002.weights.h5"}},
            "the file net_00002.weights.h5 of its weights is",
        ),
        ({"weight_map": {"/vars": "../net_00001.weights.h5"}}, "which is no file beside it"),
        ({"weight_map": {"/vars": ["/etc/passwd"]}}, "which is no file beside it"),
        ({"weight_map": {"/vars": 3}}, "which is no file beside it"),
        ({"weight_map": []}, "it lists no files of weights"),
        ({"weight_map": {}}, "its variable kernel is missing"),
        ({"weight_map": {str(n): f"{n}.h5" for n in range(10_001)}}, "it lists 10001 files"),
    ],
)
def test_lists_of_files_that_lead_nowhere(tmp_path: Path, index: dict[str, Any], problem: str) -> None:
    path = as_sharded_weights(tmp_path)
    path.write_text(json.dumps(index))
    assert problem in refusal(path).problem


def test_hdf5_files_that_are_cut_short_behind_the_weights(tmp_path: Path) -> None:
    path = as_h5(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    error = refusal(path)
    assert error.problem == f"the file is cut short: it has {len(data) - 1} bytes of {len(data)}"
    assert error.hint == "fetch it again"


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    path = as_folder(tmp_path)
    (path / "model.weights.h5").rename(tmp_path / "elsewhere.h5")
    os.symlink(tmp_path / "elsewhere.h5", path / "model.weights.h5")
    assert refusal(path).problem == "'model.weights.h5' is a link out of the folder"


def test_archives_that_unpack_to_too_much(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b" " * (80 << 20))
        archive.writestr("model.weights.h5", b"")
    assert "would unpack to 83886080 bytes" in refusal(path).problem


@pytest.mark.parametrize("text", ["{", '{"a": ' * 50_000, "[]", "3", '{"class_name": 3}', '"text"'])
def test_configs_that_are_none(tmp_path: Path, text: str) -> None:
    assert isinstance(refusal(write_keras(tmp_path / "net.keras", text, PLACED)), FormatError)


@pytest.mark.parametrize("make", [as_h5, as_archive])
def test_damaged_bytes(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Whatever is changed, what comes out is a model or an error of ours: no crash, no hang, no memory."""
    path = make(tmp_path)
    good = path.read_bytes()
    rng = random.Random(7)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 4, 16))):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((1, 1, 8))] = rng.choice((b"\xff", b"\0" * 8, rng.randbytes(1)))
        path.write_bytes(data[: rng.choice((len(data), len(data), at + 1))])
        with contextlib.suppress(thinflow.ThinflowError):
            thinflow.formats.load(path)


def test_inputs_whose_shape_is_not_known(tmp_path: Path) -> None:
    error = refusal(write_h5(tmp_path / "net.h5", sequential(dense()), {"dense": [KERNEL]}))
    assert error.problem == "the shape of the model's input is not in its config"
    assert "call the model once" in error.hint


def test_sparse_inputs(tmp_path: Path) -> None:
    first = layer("InputLayer", "x", batch_input_shape=[None, 2], dtype="float32", sparse=True)
    assert refusal(write_h5(tmp_path / "net.h5", sequential(first))).problem == "its input is sparse"


def test_models_of_classes_of_their_own(tmp_path: Path) -> None:
    own = {"class_name": "MyModel", "config": {"name": "my"}, "module": "my", "registered_name": "MyModel"}
    error = refusal(write_keras(tmp_path / "net.keras", own, PLACED))
    assert "of the class MyModel" in error.problem
    assert "model.export" in error.hint
