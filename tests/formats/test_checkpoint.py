"""Checkpoints: both versions, every storage, every way to name one, and damage."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkpoints import (
    PARTS,
    V1_VALUES,
    VALUES,
    WEIGHTS,
    index_entries,
    partitioned,
    read_all,
    rewrite_index,
    tensors,
    v1_entries,
    write_checkpoint,
    write_table,
)
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats.checkpoint import find_prefix, open_checkpoint
from thinflow.formats.slices import Slice, decode_key, encode_key
from thinflow.wire import protos
from thinflow.wire.crc32c import crc32c, masked


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model.ckpt-7", tensors())
    return tmp_path / "model.ckpt-7"


def data_file(prefix: Path) -> Path:
    return Path(f"{prefix}.data-00000-of-00001")


def edit_entry(prefix: Path, name: str, edit: Callable[[Any], None]) -> None:
    entries = index_entries(prefix)
    entry = protos.parse("BundleEntryProto", entries[name.encode()])
    edit(entry)
    rewrite_index(prefix, {**entries, name.encode(): protos.serialize(entry)})


def edit_header(prefix: Path, edit: Callable[[Any], None]) -> None:
    entries = index_entries(prefix)
    header = protos.parse("BundleHeaderProto", entries[b""])
    edit(header)
    rewrite_index(prefix, {**entries, b"": protos.serialize(header)})


def test_every_type_comes_back(prefix: Path) -> None:
    checkpoint = open_checkpoint(prefix)
    assert checkpoint.names() == sorted(VALUES) == list(checkpoint)
    assert checkpoint.version == 2
    for name, value in VALUES.items():
        found = checkpoint[name].numpy()
        assert found.dtype == np.asarray(value).dtype
        assert found.shape == np.shape(value)
        assert found.tolist() == np.asarray(value).tolist()
        assert checkpoint.spec(name).shape == np.shape(value)


def test_listing_reads_no_values(prefix: Path) -> None:
    data_file(prefix).unlink()
    checkpoint = open_checkpoint(prefix)
    assert checkpoint.spec("a/float").shape == (2, 3)
    with pytest.raises(FormatError, match="in a file that is not there"):
        checkpoint["a/float"].numpy()


@pytest.mark.parametrize(
    "name",
    [
        "model.ckpt-7",
        "model.ckpt-7.index",
        "model.ckpt-7.meta",
        "model.ckpt-7.data-00000-of-00001",
        "",
        "@latest",
    ],
)
def test_every_way_to_name_it(prefix: Path, name: str) -> None:
    (prefix.parent / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    where = f"{prefix.parent}{name}" if name.startswith("@") else prefix.parent / name
    assert find_prefix(where) == prefix
    assert find_prefix(f"{prefix.parent}@model.ckpt-7") == prefix
    assert find_prefix(prefix.parent / "checkpoint") == prefix


def test_a_folder_without_a_state_file(prefix: Path) -> None:
    assert find_prefix(prefix.parent) == prefix
    write_checkpoint(prefix.parent / "other", tensors({"x": np.zeros(1)}))
    with pytest.raises(FormatError, match="several checkpoints") as error:
        find_prefix(prefix.parent)
    assert "model.ckpt-7, other" in error.value.hint


def test_a_moved_folder(prefix: Path) -> None:
    (prefix.parent / "checkpoint").write_text('model_checkpoint_path: "/training/run/model.ckpt-7"\n')
    assert find_prefix(prefix.parent) == prefix
    (prefix.parent / "checkpoint").write_text('model_checkpoint_path: "C:\\\\run\\\\model.ckpt-7"\n')
    assert find_prefix(prefix.parent) == prefix


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ('model_checkpoint_path: "../other/model"', "leads out of its folder"),
        ("", "names no checkpoint"),
        ("model_checkpoint_path {", "cannot read this as the text of a CheckpointState"),
    ],
)
def test_a_bad_state_file(prefix: Path, state: str, problem: str) -> None:
    (prefix.parent / "checkpoint").write_text(state)
    with pytest.raises(FormatError, match=problem):
        find_prefix(prefix.parent)


def test_a_name_that_is_not_there(prefix: Path) -> None:
    with pytest.raises(FormatError, match="no checkpoint of this name") as missing:
        open_checkpoint(prefix.parent / "model.ckpt-8")
    assert "model.ckpt-7" in missing.value.hint
    with pytest.raises(FormatError, match="there is no variable 'a/flot'") as variable:
        open_checkpoint(prefix)["a/flot"]
    assert "a/float" in variable.value.hint
    (prefix.parent / "empty").mkdir()
    with pytest.raises(FormatError, match="no checkpoint in this folder"):
        open_checkpoint(prefix.parent / "empty")


def test_a_flipped_bit_names_variable_and_place(prefix: Path) -> None:
    data = bytearray(data_file(prefix).read_bytes())
    for name in ("a/float", "g/string"):
        entry = protos.parse("BundleEntryProto", index_entries(prefix)[name.encode()])
        broken = bytearray(data)
        broken[entry.offset + entry.size - 1] ^= 4
        data_file(prefix).write_bytes(broken)
        with pytest.raises(FormatError, match=f"checksum of '{name}' is wrong") as error:
            open_checkpoint(prefix)[name].numpy()
        assert f"data-00000-of-00001, byte {entry.offset}" in error.value.where


def test_string_lengths_have_a_checksum_of_their_own(prefix: Path) -> None:
    entry = protos.parse("BundleEntryProto", index_entries(prefix)[b"g/string"])
    data = bytearray(data_file(prefix).read_bytes())
    data[entry.offset] += 1
    data_file(prefix).write_bytes(data)
    with pytest.raises(FormatError, match="lengths of the strings in 'g/string' are damaged"):
        open_checkpoint(prefix)["g/string"].numpy()


def test_a_truncated_shard(prefix: Path) -> None:
    data = data_file(prefix).read_bytes()
    data_file(prefix).write_bytes(data[: len(data) // 4])
    with pytest.raises(FormatError, match=r"'k/uint16' should be at bytes \d+ to \d+, the file has"):
        open_checkpoint(prefix)["k/uint16"].numpy()


def set_size(entry: Any) -> None:
    entry.size = 1 << 60


def set_shape(entry: Any) -> None:
    entry.shape.dim[0].size = 1 << 50


def set_negative_shape(entry: Any) -> None:
    entry.shape.dim[0].size = -1


def set_negative_offset(entry: Any) -> None:
    entry.offset = -8


def set_variant(entry: Any) -> None:
    entry.dtype = 21


@pytest.mark.parametrize(
    ("name", "edit", "problem"),
    [
        ("a/float", set_size, "takes 24 bytes; the index says"),
        ("a/float", set_shape, "takes 13510798882111488 bytes"),
        ("a/float", set_negative_shape, "has the shape"),
        ("a/float", set_negative_offset, "should be at bytes -8"),
        ("a/float", set_variant, "holds an object, not numbers"),
        ("g/string", set_shape, "strings cannot fit"),
    ],
)
def test_absurd_entries(prefix: Path, name: str, edit: Callable[[Any], None], problem: str) -> None:
    edit_entry(prefix, name, edit)
    with pytest.raises(FormatError, match=problem):
        open_checkpoint(prefix)[name].numpy()


def test_a_newer_writer(prefix: Path) -> None:
    def ask(header: Any) -> None:
        header.version.min_consumer = 9

    edit_header(prefix, ask)
    with pytest.raises(FormatError, match="asks for a reader of version 9"):
        open_checkpoint(prefix)


@pytest.mark.parametrize("count", [-1, 1 << 30])
def test_an_absurd_number_of_shards(prefix: Path, count: int) -> None:
    def claim(header: Any) -> None:
        header.num_shards = count

    edit_header(prefix, claim)
    with pytest.raises(FormatError, match=f"speaks of {count} shards"):
        open_checkpoint(prefix)


def test_shards_that_were_counted_but_not_written(prefix: Path) -> None:
    def claim(header: Any) -> None:
        header.num_shards = 4

    edit_header(prefix, claim)
    assert open_checkpoint(prefix)["e/scalar"].numpy() == 7


def test_a_shard_that_is_a_link_out_of_the_folder(
    prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "data"
    data_file(prefix).rename(elsewhere)
    data_file(prefix).symlink_to(elsewhere)
    with pytest.raises(FormatError, match="link to a file outside"):
        open_checkpoint(prefix)["a/float"].numpy()


def test_a_table_that_is_no_index(tmp_path: Path) -> None:
    rewrite_index(tmp_path / "m", {b"key": b"value"})
    with pytest.raises(FormatError, match="the index has no header"):
        open_checkpoint(tmp_path / "m")


def test_big_endian(prefix: Path) -> None:
    """A bundle of a machine with the high byte first: numbers swapped, complex ones by halves."""
    entries = index_entries(prefix)
    header = protos.parse("BundleHeaderProto", entries.pop(b""))
    header.endianness = 1
    shard = bytearray()
    names = ["a/float", "e/scalar", "f/complex", "d/bool"]
    for name in names:
        entry = protos.parse("BundleEntryProto", entries[name.encode()])
        value = np.asarray(VALUES[name])
        data = value.astype(value.dtype.newbyteorder(">")).tobytes()
        entry.offset, entry.crc32c = len(shard), masked(crc32c(data))
        shard += data
        entries[name.encode()] = protos.serialize(entry)
    text = [b"ab", b""]
    lengths = crc32c(struct.pack(">I", 0), crc32c(struct.pack(">I", 2)))
    stored = struct.pack(">I", masked(lengths))
    words = protos.message("BundleEntryProto")(dtype=7, offset=len(shard), size=8)
    words.shape.dim.add(size=2)
    words.crc32c = masked(crc32c(b"ab", crc32c(stored, lengths)))
    shard += b"\x02\x00" + stored + b"ab"
    kept = {name.encode(): entries[name.encode()] for name in names}
    data_file(prefix).write_bytes(shard)
    rewrite_index(prefix, {b"": protos.serialize(header), **kept, b"z": protos.serialize(words)})
    checkpoint = open_checkpoint(prefix)
    for name in names:
        assert checkpoint[name].numpy().tolist() == np.asarray(VALUES[name]).tolist()
    assert checkpoint["z"].numpy().tolist() == text


# --- partitioned variables ----------------------------------------------------------------------------------


def test_a_partitioned_variable(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(partitioned(tmp_path, PARTS, (5, 4)))
    assert checkpoint.names() == ["v"]
    assert checkpoint.slices("v") == [part for part, _ in PARTS]
    assert np.array_equal(checkpoint["v"].numpy(), WEIGHTS)


def test_a_part_whose_key_spells_out_its_extents(tmp_path: Path) -> None:
    def spelled(part: Slice) -> Slice:
        return Slice((part.extents[0], (0, 4)))

    checkpoint = open_checkpoint(partitioned(tmp_path, PARTS, (5, 4), spelled))
    assert np.array_equal(checkpoint["v"].numpy(), WEIGHTS)


@pytest.mark.parametrize(
    ("parts", "shape", "problem"),
    [
        (PARTS[:1], (5, 4), "parts of 'v' do not fill it"),
        ([PARTS[0], (Slice(((1, 2), (0, 4))), WEIGHTS[:2])], (5, 4), "parts of 'v' do not fill it"),
        (PARTS, (4, 4), "lies outside a dimension"),
        (PARTS, (5, 3), "has the shape"),
        (PARTS, (5,), "a part of 2 dimensions"),
        ([(PARTS[0][0], WEIGHTS[:2]), PARTS[1]], (5, 4), r"has the shape \[2, 4\], not \[3, 4\]"),
    ],
)
def test_bad_parts(tmp_path: Path, parts: Any, shape: tuple[int, ...], problem: str) -> None:
    prefix = partitioned(tmp_path, parts, shape)
    with pytest.raises(FormatError, match=problem):
        open_checkpoint(prefix)["v"].numpy()


def test_a_missing_part(tmp_path: Path) -> None:
    prefix = partitioned(tmp_path, PARTS, (5, 4))
    entries = index_entries(prefix)
    rewrite_index(prefix, {k: v for k, v in entries.items() if k != encode_key(b"v", PARTS[1][0])})
    with pytest.raises(FormatError, match="a part of 'v' is missing"):
        open_checkpoint(prefix)["v"]


@pytest.mark.parametrize(
    ("name", "part", "key"),
    [
        (b"pv", Slice(((0, 3), (0, 2))), "00 7076 0001 0102 8083 8082"),
        (b"e", Slice(()), "00 65 0001 00"),
        (b"w", Slice(((13334, 70), (26667, -1))), "00 77 0001 0102 e03416 c046 e0682b 7f"),
    ],
)
def test_keys_of_parts(name: bytes, part: Slice, key: str) -> None:
    assert encode_key(name, part) == bytes.fromhex(key)
    assert decode_key(bytes.fromhex(key)) == (name, part)


EXTENTS = st.tuples(st.integers(0, 2**62), st.integers(-1, 2**62))


@given(st.binary(max_size=12), st.lists(EXTENTS, max_size=4), st.binary(max_size=12))
def test_keys_come_back_and_sort_as_their_names(name: bytes, extents: list[Any], other: bytes) -> None:
    part = Slice(tuple(extents))
    assert decode_key(encode_key(name, part)) == (name, part)
    assert (encode_key(name, part) < encode_key(other, part)) is (name < other)


@given(st.binary(max_size=20))
def test_any_bytes_are_a_key_or_a_clear_error(key: bytes) -> None:
    try:
        name, part = decode_key(key)
    except FormatError:
        return
    assert len(name) <= len(key)
    assert len(part.extents) <= len(key)


# --- version 1 ----------------------------------------------------------------------------------------------


def test_version_1(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_table(tmp_path / "model.ckpt-7", v1_entries(V1_VALUES)))
    assert checkpoint.version == 1
    assert checkpoint.names() == sorted(V1_VALUES)
    for name, value in V1_VALUES.items():
        assert checkpoint[name].numpy().tolist() == np.asarray(value).tolist()


def test_version_1_in_shards(tmp_path: Path) -> None:
    write_table(tmp_path / "m-00000-of-00002", v1_entries({"w": WEIGHTS}))
    write_table(tmp_path / "m-00001-of-00002", v1_entries({"step": np.int32(7)}))
    for name in ("m", "m-00001-of-00002"):
        checkpoint = open_checkpoint(tmp_path / name)
        assert checkpoint.names() == ["step", "w"]
        assert np.array_equal(checkpoint["w"].numpy(), WEIGHTS)


def test_version_1_without_a_value(tmp_path: Path) -> None:
    entries = v1_entries({"w": WEIGHTS})
    write_table(tmp_path / "m", {b"": entries[b""]})
    with pytest.raises(FormatError, match="the value of 'w' is missing"):
        open_checkpoint(tmp_path / "m")["w"]
    empty = protos.message("SavedTensorSlices")()
    empty.data.name = "w"
    entries = {key: value if key == b"" else protos.serialize(empty) for key, value in entries.items()}
    write_table(tmp_path / "m", entries)
    with pytest.raises(FormatError, match="'w' does not hold 20 values"):
        open_checkpoint(tmp_path / "m")["w"].numpy()


# --- objects, samples, fuzzing ------------------------------------------------------------------------------


def test_the_object_graph_names_variables(tmp_path: Path) -> None:
    graph = protos.message("TrackableObjectGraph")()
    key = "w/.ATTRIBUTES/VARIABLE_VALUE"
    graph.nodes.add().attributes.add(name="VARIABLE_VALUE", full_name="dense/kernel", checkpoint_key=key)
    blob = np.array(protos.serialize(graph), object)
    write_checkpoint(tmp_path / "m", tensors({key: WEIGHTS, "_CHECKPOINTABLE_OBJECT_GRAPH": blob}))
    checkpoint = open_checkpoint(tmp_path / "m")
    assert checkpoint.names() == [key]
    assert checkpoint.full_names() == {key: "dense/kernel"}
    assert len(checkpoint.object_graph().nodes) == 1


def test_a_checkpoint_without_objects(prefix: Path) -> None:
    assert open_checkpoint(prefix).object_graph() is None
    assert open_checkpoint(prefix).full_names() == {}


@pytest.mark.parametrize("name", ["ckpt_v1_ref", "ckpt_v2_ref", "ckpt_v2_res_part"])
def test_checkpoints_of_tensorflow(shared: Path, name: str, tmp_path: Path) -> None:
    folder = shared / "formats" / name
    case = json.loads((folder / "case.json").read_text())
    checkpoint = open_checkpoint(folder / case["checkpoint"])
    assert len(checkpoint) == 15
    assert checkpoint["net/b1"].numpy().shape == (8,)
    write_checkpoint(tmp_path / "copy", checkpoint)
    copy = open_checkpoint(tmp_path / "copy")
    assert all(copy[name].same_as(checkpoint[name]) for name in checkpoint)
    if name == "ckpt_v2_ref":  # written by TensorFlow from the same values
        assert Path(f"{tmp_path / 'copy'}.index").read_bytes() == (folder / "model.ckpt-7.index").read_bytes()


@given(st.data())
@settings(max_examples=150)
def test_mutated_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    prefix = partitioned(folder, PARTS, (5, 4))
    old = write_table(folder / "old", v1_entries(V1_VALUES))
    victim = data.draw(st.sampled_from([Path(f"{prefix}.index"), data_file(prefix), old]))
    content = bytearray(victim.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    victim.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(ThinflowError):
        read_all(open_checkpoint(old if victim == old else prefix))
