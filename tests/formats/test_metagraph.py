"""MetaGraphs: signatures, collections, files of both encodings, and damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load.builders import SIGNATURE, VALUES, meta_text, product, write_values
from thinflow import formats
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats import metagraph
from thinflow.formats.format import Sample
from thinflow.ir.types import FLOAT, INT64
from thinflow.wire import protos

TEXT = meta_text(product(), signatures=SIGNATURE)


def binary(text: str = TEXT) -> bytes:
    return protos.serialize(protos.from_text("MetaGraphDef", text.encode()))


@pytest.mark.parametrize("as_text", [False, True])
def test_both_encodings(as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "whatever.bin"
    path.write_bytes(TEXT.encode() if as_text else binary())
    assert formats.recognise(path).name == "metagraph"
    meta = metagraph.read(path)
    assert [n.name for n in meta.graph] == ["x", "w", "read", "y"]
    assert meta.tags == ("serve",)
    assert meta.graph.path == str(path)
    assert not meta.has_objects
    signature = meta.signatures["serving_default"]
    assert signature.inputs["image"].value == "x:0"
    assert signature.inputs["image"].spec.dtype is FLOAT
    assert signature.method == "predict"


def test_a_list_of_ops_is_recognised(tmp_path: Path) -> None:
    ops = "meta_info_def { meta_graph_version: '1' stripped_op_list { op { name: 'Add' } } }"
    path = tmp_path / "m"
    path.write_bytes(binary(ops + TEXT))
    assert formats.recognise(path).name == "metagraph"


@pytest.mark.parametrize(
    "head", [b"", b"\x0a", b"\x0a\x00", b"\x0a\x05\x0a\x03abc", b"\x0a\x02\x12\x01", b"\x0b"]
)
def test_what_is_none(head: bytes) -> None:
    assert metagraph.is_metagraph(Sample(Path("x"), head)) in {True, False}


def test_the_checkpoint_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model-3.meta").write_bytes(binary())
    assert metagraph.read(tmp_path / "model-3.meta").checkpoint is None
    prefix = write_values(tmp_path / "model-3", VALUES)
    assert metagraph.read(tmp_path / "model-3.meta").checkpoint == prefix
    (tmp_path / "old.meta").write_bytes(binary())
    (tmp_path / "old-00000-of-00002").write_bytes(b"x")
    assert metagraph.read(tmp_path / "old.meta").checkpoint == tmp_path / "old"
    (tmp_path / "v[1].meta").write_bytes(binary())
    (tmp_path / "v[1]-00000-of-00002").write_bytes(b"x")
    assert metagraph.read(tmp_path / "v[1].meta").checkpoint == tmp_path / "v[1]"


def test_init_ops_of_every_kind() -> None:
    more = """
        collection_def { key: 'legacy_init_op' value { node_list { value: 'a' } } }
        collection_def { key: 'table_initializer' value { node_list { value: 'b' value: 'a' } } }
        signature_def { key: '__saved_model_init_op' value { outputs { key: 'x' value { name: 'c:0' } } } }"""
    meta = metagraph.from_bytes(memoryview(binary(TEXT + more)), Path("m"), Path())
    assert meta.init_ops == ["a", "b", "c"]
    assert list(meta.signatures) == ["serving_default"]
    assert metagraph.from_bytes(memoryview(binary()), Path("m"), Path()).init_ops == []


def test_sparse_and_composite_endpoints() -> None:
    more = """signature_def { key: 's' value {
        inputs { key: 'sparse' value { dtype: DT_FLOAT coo_sparse {
            values_tensor_name: 'v:0' indices_tensor_name: 'i:0' dense_shape_tensor_name: 'd:0' } } }
        inputs { key: 'ragged' value { composite_tensor {
            components { name: 'p:0' dtype: DT_FLOAT tensor_shape { unknown_rank: true } }
            components { name: 'q:0' dtype: DT_INT64 tensor_shape { dim { size: -1 } } } } } } } }"""
    meta = metagraph.from_bytes(memoryview(binary(TEXT + more)), Path("m"), Path())
    inputs = meta.signatures["s"].inputs
    assert {name: e.value for name, e in inputs.items()} == {
        "ragged/0": "p:0", "ragged/1": "q:0",
        "sparse/indices": "i:0", "sparse/values": "v:0", "sparse/shape": "d:0",
    }  # fmt: skip
    assert inputs["ragged/0"].spec.shape is None
    assert inputs["ragged/1"].spec == metagraph.TensorSpec(INT64, (None,))


def test_parts_that_do_not_fit_together() -> None:
    info = protos.message("VariableDef")()
    info.variable_name = "w/part_0:0"
    info.save_slice_info_def.full_name = "w"
    info.save_slice_info_def.full_shape.extend([2, 3])
    message = protos.from_text("MetaGraphDef", TEXT.encode())
    message.collection_def["variables"].bytes_list.value.append(info.SerializeToString())
    meta = metagraph.from_bytes(memoryview(protos.serialize(message)), Path("m"), Path())
    with pytest.raises(FormatError, match="of the part 'w/part_0' does not fit together"):
        meta.variables()


def test_no_graph(tmp_path: Path) -> None:
    (tmp_path / "m.meta").write_text("meta_info_def { tags: 'a' }")
    with pytest.raises(FormatError, match=r"m.meta: this MetaGraph holds no graph") as error:
        metagraph.read(tmp_path / "m.meta")
    assert error.value.hint == "export it again with its graph"


@pytest.mark.parametrize("content", [b"filename_tensor_name: 'a' restore_op_name: 'r'", b"\x1a\x01r"])
def test_savers(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "saver").write_bytes(content)
    assert metagraph.read_saver(tmp_path / "saver").restore_op_name == "r"


def test_a_saver_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "saver").write_bytes(b"\xff\xff\xff")
    with pytest.raises(FormatError, match="saver"):
        metagraph.read_saver(tmp_path / "saver")


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_damage_is_told(tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes) -> None:
    data = bytearray(binary())
    at %= len(data)
    data[at : at + len(junk)] = junk
    path = tmp_path_factory.mktemp("m") / "m.meta"
    path.write_bytes(data)
    try:
        meta = metagraph.read(path)
        assert meta.signatures is not None
    except ThinflowError:
        pass  # any other exception fails the test
