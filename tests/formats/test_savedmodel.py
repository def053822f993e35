"""SavedModels: folders, what is in them, what is wrong with them, and writing one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.formats.damage import FILES
from tests.load.builders import SIGNATURE, VALUES, W, meta_text, product, write_model
from thinflow import formats
from thinflow.cli import main
from thinflow.errors import FormatError, GraphError, ThinflowError, WriteError
from thinflow.formats import savedmodel
from thinflow.formats.checkpoint import open_checkpoint
from thinflow.zoo import digits

X = np.array([[1, -1]], np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "export", meta_text(product(), signatures=SIGNATURE), values=VALUES)


def test_the_folder_and_the_file_in_it(folder: Path) -> None:
    for path in (folder, folder / "saved_model.pb"):
        assert formats.recognise(path).name == "savedmodel"
        model = savedmodel.read(path)
        assert model.folder == folder
        assert model.tag_sets() == [("serve",)]
        assert model.graphs[0].checkpoint == folder / "variables" / "variables"
        assert model.graphs[0].graph.path == str(folder)
        np.testing.assert_allclose(thinflow.run(path, {"image": X}, engine="reference")["scores"], X @ W)


def test_text_is_read_where_there_is_no_binary(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "t", meta_text(product(), signatures=SIGNATURE), values=VALUES, text=True)
    assert formats.recognise(folder / "saved_model.pbtxt").name == "savedmodel"
    np.testing.assert_allclose(thinflow.run(folder, {"image": X}, engine="reference")["scores"], X @ W)
    write_model(folder, meta_text(product(out="other"), signatures={}))
    assert "other" in savedmodel.read(folder).select().graph


def test_tags(tmp_path: Path) -> None:
    metas = [meta_text(product(), tags=tags) for tags in (["serve"], ["gpu", "serve"], [])]
    model = savedmodel.read(write_model(tmp_path / "m", *metas))
    assert model.select() is model.graphs[0]
    assert model.select("serve, gpu") is model.graphs[1]
    assert model.select(["gpu", "serve"]) is model.graphs[1]
    assert model.select("") is model.graphs[2]


def test_a_fingerprint(folder: Path) -> None:
    model = savedmodel.read(folder)
    assert model.fingerprint() is None
    (folder / "fingerprint.pb").write_bytes(b"\x08\x07")
    assert model.fingerprint().saved_model_checksum == 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x08\x01", "there is no graph in it"),
        (b"\x08\x02\x12\x00", "its layout has the number 2; only 1 is known"),
        (b"\x08\x01\x12\x7f", "this SavedModel cannot be read"),
        (b"saved_model_schema_version: 1 nonsense", "this SavedModel cannot be read"),
        (b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f" + b"\0" * 64, "checksum of a chunk's header is wrong"),
    ],
)
def test_files_that_hold_none(content: bytes, problem: str, folder: Path) -> None:
    (folder / "saved_model.pb").write_bytes(content)
    with pytest.raises(FormatError, match=problem) as error:
        thinflow.load(folder)
    assert str(folder) in error.value.where
    assert error.value.hint


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"there is no saved_model.pb in this folder"):
        savedmodel.read(tmp_path)


def test_a_shard_that_is_a_link_elsewhere(folder: Path, tmp_path: Path) -> None:
    shard = folder / "variables" / "variables.data-00000-of-00001"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="link to a file outside"):
        thinflow.run(folder, {"image": X}, engine="reference")


def test_a_flipped_bit_names_the_variable(folder: Path) -> None:
    shard = folder / "variables" / "variables.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(FormatError, match=r"data-00000-of-00001, byte \d+: the checksum of 'w' is wrong"):
        thinflow.run(folder, {"image": X}, engine="reference")


# --- writing ------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    graph = digits.build(0)
    size = savedmodel.save(
        graph, tmp_path / "s", signature="classify", tags=["a", "b"], inputs=["picture"], outputs=["p"]
    )
    assert size == (tmp_path / "s" / "saved_model.pb").stat().st_size
    again = thinflow.load(tmp_path / "s", signature="classify", tags="b,a")
    assert [(v.name, str(v.spec)) for v in again.inputs] == [("picture", "float[?,8,8,1]")]
    image = np.full((1, 8, 8, 1), 0.5, np.float32)
    ours, theirs = thinflow.run(again, {"picture": image})["p"], thinflow.run(graph, {"image": image})
    np.testing.assert_allclose(ours, next(iter(theirs.values())), atol=1e-6)


def test_writing_by_name_of_the_format(tmp_path: Path) -> None:
    thinflow.save(digits.build(0), tmp_path / "s", format="savedmodel")
    assert [v.name for v in thinflow.load(tmp_path / "s").outputs] == ["probabilities"]


def test_transforming_one(folder: Path, tmp_path: Path) -> None:
    graph = thinflow.transform_saved_model(folder, tmp_path / "small", "fold_constants")
    found = thinflow.run(tmp_path / "small", {"image": X}, engine="reference")
    np.testing.assert_allclose(found["scores"], X @ W)
    assert [v.name for v in graph.outputs] == ["scores"]
    with pytest.raises(FormatError, match="no signature 'nope'"):
        thinflow.transform_saved_model(folder, tmp_path / "x", "fold_constants", "nope")
    assert not (tmp_path / "x").exists()


def test_folders_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    graph = digits.build(0)
    with pytest.raises(WriteError, match="the folder holds other things, such as 'variables'"):
        savedmodel.save(graph, folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="the folder cannot be made"):
        savedmodel.save(graph, tmp_path / "file")
    graph.outputs = []
    with pytest.raises(GraphError, match="no outputs, so no signature"):
        savedmodel.save(graph, tmp_path / "new")


# --- damage -------------------------------------------------------------------------------------------------


def _try(folder: Path, *, whole: bool) -> None:
    """Read a model, or open it as a whole; whatever is wrong is told by an error of ours."""
    try:
        if whole:
            thinflow.load(folder)
        for meta in savedmodel.read(folder).graphs:
            assert meta.signatures is not None
            assert meta.init_ops is not None
            if meta.checkpoint is not None:
                assert open_checkpoint(meta.checkpoint).names() is not None
    except ThinflowError:
        pass  # any other exception fails the test


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_many_damaged_files(folder: Path, name: str) -> None:
    path = folder / name
    original = path.read_bytes()
    rng = np.random.default_rng(20)
    for count in range(FILES):
        data = bytearray(original)
        if count % 4 == 0:
            del data[rng.integers(len(data)) :]
        elif count % 4 == 1:
            at = int(rng.integers(len(data)))
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        else:
            for at in rng.integers(len(data), size=int(rng.integers(1, 6))):
                data[at] = int(rng.choice([0, 0x7F, 0xFF, data[at] ^ 1, rng.integers(256)]))
        path.write_bytes(bytes(data) or b"\x08")
        _try(folder, whole=count % 40 == 0)


def test_a_folder_of_links(folder: Path, tmp_path: Path) -> None:
    """A folder that is itself a link is fine: people keep `latest` links."""
    os.symlink(folder, tmp_path / "latest")
    np.testing.assert_allclose(
        thinflow.run(tmp_path / "latest", {"image": X}, engine="reference")["scores"], X @ W
    )
    shutil.rmtree(folder / "variables")
    with pytest.raises(
        FormatError, match=r"has 1 variable, first 'w', and its folder has no variables/variables\.index"
    ):
        thinflow.load(folder)


def metadata(text: bytes, path: bytes = b"root") -> bytes:
    """A SavedMetadata of one node."""
    fields = b"".join(bytes([n << 3 | 2, len(v)]) + v for n, v in ((3, path), (5, text)))
    return b"\x0a" + bytes([len(fields)]) + fields


def test_what_keras_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted = folder / "keras_metadata.pb"
    root = b'{"class_name":"Functional","name":"net","keras_version":"2.9.0","config":{"layers":[1,2]}}'
    noted.write_bytes(metadata(b"{}", b"root.layer-0") + metadata(root))
    assert thinflow.load(folder).facts == {"producer": "Keras 2.9.0", "model": "Functional 'net', 2 layers"}
    assert main(["inspect", str(folder)]) == 0
    assert "made of Functional 'net', 2 layers, by Keras 2.9.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    "data", [b"", b"\x0a\x7f", metadata(b"{"), metadata(b"[]"), metadata(b'{"config":3}'), metadata(b"\xff")]
)
def test_notes_of_keras_that_cannot_be_read(folder: Path, data: bytes) -> None:
    (folder / "keras_metadata.pb").write_bytes(data)
    assert savedmodel.keras_facts(folder) == {}
    assert thinflow.load(folder).facts.get("model") is None
