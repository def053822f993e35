"""Memmapped packages: layout, round trips, old writers, damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinflow
from tests.library import constant, function, graph_of, node, stored_name
from thinflow.errors import FormatError, ParameterError, ThinflowError
from thinflow.formats import graphdef, memmapped, recognise
from thinflow.formats.memmapped import MAIN_REGION, PREFIX, write
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import FLOAT, QUINT8, dtype
from thinflow.wire import protos
from thinflow.zoo import digits

# What TensorFlow's MemmappedEnv loads: four floats, the graph, the directory.
SAMPLE = (
    bytes.fromhex(
        "0000803f000000400000404000008040"
        "0a600a0177120e496d6d757461626c65436f6e73742a0b0a0564747970651202300"
        "12a0f0a0573686170651206"
        "3a04120208042a2d0a126d656d6f72795f726567696f6e5f6e616d6512171215"
    )
    + b"memmapped_package://w"
    + bytes.fromhex("0a191215")
    + b"memmapped_package://w"
    + bytes.fromhex("18100a1b08101215")
    + b"memmapped_package://."
    + bytes.fromhex("18627200000000000000")
)


def weights(*arrays: np.ndarray) -> Graph:
    graph = Graph()
    for i, array in enumerate(arrays):
        graph.constant(array, f"w/{i}")
    return graph


def directory(path: Path) -> list[tuple[str, int, int]]:
    data = path.read_bytes()
    (start,) = struct.unpack("<Q", data[-8:])
    message = protos.parse("MemmappedFileSystemDirectory", data[start:-8])
    return [(e.name, e.offset, e.length) for e in message.element]


def package(path: Path, regions: list[tuple[str, int, int]], data: bytes) -> Path:
    """A file with a directory of one's own."""
    message = protos.message("MemmappedFileSystemDirectory")()
    for name, offset, length in regions:
        message.element.add(name=name, offset=offset, length=length)
    path.write_bytes(data + protos.serialize(message) + struct.pack("<Q", len(data)))
    return path


def test_reads_what_tensorflow_reads(tmp_path: Path) -> None:
    assert len(SAMPLE) == 178
    path = tmp_path / "sample"
    path.write_bytes(SAMPLE)
    assert recognise(path).name == "memmapped"
    graph = thinflow.load(path)
    assert graph.node("w").op == "Const"
    assert graph.node("w").tensor.numpy().tolist() == [1, 2, 3, 4]  # type: ignore[union-attr]


def test_layout(tmp_path: Path) -> None:
    graph = weights(np.arange(5000, dtype=np.float32), np.arange(3000.0), np.arange(3, dtype=np.int32))
    path = tmp_path / "x.mmpb"
    written = write(graph, path)
    assert (written.converted, written.regions, written.mapped_bytes) == (2, 2, 44_000)
    names, offsets, lengths = zip(*directory(path), strict=True)
    assert names == (PREFIX + "w_0", PREFIX + "w_1", MAIN_REGION)
    assert offsets[0] == 0
    assert offsets[1] == 20_032
    assert lengths[:2] == (20_000, 24_000)
    assert written.size_bytes == path.stat().st_size
    raw = graphdef.from_bytes(path.read_bytes()[offsets[2] : offsets[2] + lengths[2]])
    assert [n.op for n in raw] == ["ImmutableConst", "ImmutableConst", "Const"]
    assert set(raw.node("w/0").attrs) == {"dtype", "shape", "memory_region_name"}
    assert [n.op for n in graph] == ["Const"] * 3


def test_round_trip_runs_from_the_mapping(tmp_path: Path) -> None:
    graph = digits.build(0)
    path = tmp_path / "digits.mmpb"
    write(graph, path, min_bytes=64)
    back = thinflow.load(path)
    assert thinflow.compare(graph, back) == []
    assert any(isinstance(n.tensor.storage, RawStorage) for n in back if n.tensor is not None)
    picture = np.ones((1, 8, 8, 1), np.float32)
    for engine in ("reference", "litert"):
        (ours,) = thinflow.Session(path, engine=engine).run(["probabilities"], {"image": picture})
        (want,) = thinflow.Session(graph, engine=engine).run(["probabilities"], {"image": picture})
        np.testing.assert_allclose(ours, want, atol=1e-6)
    thinflow.save(back, tmp_path / "back.pb")
    assert thinflow.compare(graph, tmp_path / "back.pb") == []


@pytest.mark.parametrize("suffix", ["x.mmpb", "x.bin"])
def test_save_by_suffix_and_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / suffix
    thinflow.save(weights(np.zeros(5000, np.float32)), path, format="memmapped" if "bin" in suffix else None)
    assert recognise(path).name == "memmapped"


def test_quantized_equal_and_repeated_constants(tmp_path: Path) -> None:
    same = np.arange(4000, dtype=np.float32)
    graph = weights(same, same.copy())
    graph.constant(Tensor.from_array(np.zeros(20_000, np.uint8), QUINT8), "q")
    graph.constant(np.broadcast_to(np.float32(3), (4000,)), "splat")
    graph.constant(Tensor.from_array(np.zeros(20_000), dtype("int4")), "young")
    written = write(graph, tmp_path / "x.mmpb")
    assert (written.converted, written.regions) == (4, 3)
    assert thinflow.compare(graph, tmp_path / "x.mmpb") == []


def test_names_are_made_unlike(tmp_path: Path) -> None:
    graph = Graph()
    for i, name in enumerate(("a/b", "a_b", "a-b")):
        graph.constant(np.full(4000, i) + np.arange(4000), name)
    write(graph, tmp_path / "x.mmpb")
    assert [n for n, _, _ in directory(tmp_path / "x.mmpb")][:3] == [
        PREFIX + "a_b",
        PREFIX + "a_b_",
        PREFIX + "a_b__",
    ]


def test_a_region_that_looks_like_gzip_does_not_come_first(tmp_path: Path) -> None:
    array = np.frombuffer(b"\x1f\x8b" + bytes(19_998), np.uint8)
    write(weights(array), tmp_path / "x.mmpb")
    assert directory(tmp_path / "x.mmpb")[0][1] == 64
    assert thinflow.compare(weights(array), tmp_path / "x.mmpb") == []


def test_constants_in_functions(tmp_path: Path) -> None:
    body = function(
        "f",
        {"a": FLOAT},
        [constant("c", np.arange(200.0)), node("s", "AddV2", "a", "c:output:0", T=FLOAT)],
        {"r": "s:z:0"},
    )
    graph = graph_of(
        [
            node("x", "Placeholder", dtype=FLOAT),
            node("y", "PartitionedCall", "x", f="@f", Tin=(FLOAT,), Tout=(FLOAT,)),
        ],
        [body],
    )
    assert write(graph, tmp_path / "x.mmpb", min_bytes=400).converted == 1
    back = thinflow.load(tmp_path / "x.mmpb", outputs=["y"])
    assert back.functions[stored_name(back, "f")].graph.node("c").tensor is not None
    assert not back.problems


def test_old_packages_do_not_tell_lengths(tmp_path: Path) -> None:
    path = tmp_path / "x.mmpb"
    write(weights(np.arange(5000, dtype=np.float32)), path)
    data = path.read_bytes()
    (start,) = struct.unpack("<Q", data[-8:])
    regions = [(n, o, 0) for n, o, _ in directory(path)]
    old = package(tmp_path / "old", regions, data[:start])
    assert thinflow.load(old).node("w/0").tensor.numpy()[-1] == 4999  # type: ignore[union-attr]


def test_unaligned_data_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    graph_bytes = SAMPLE[16:114]
    package(path, [(PREFIX + "w", 4, 16), (MAIN_REGION, 20, 98)], bytes(4) + SAMPLE[:16] + graph_bytes)
    (problem,) = thinflow.load(path).problems
    assert "begins at byte 4, no multiple of 64" in str(problem)


def test_a_node_that_names_another_file_stays(tmp_path: Path) -> None:
    plain = graphdef.from_bytes(SAMPLE[16:114].replace(b"memmapped_package://w", b"/some/where/else/file"))
    path = tmp_path / "x.mmpb"
    write(plain, path)
    assert thinflow.load(path).node("w").op == "ImmutableConst"


MAIN = (MAIN_REGION, 16, 98)


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        ([(PREFIX + "w", 0, 16)], "there is no graph in this package"),
        ([(PREFIX + "w", 0, 8), (PREFIX + "w", 8, 8), MAIN], "there are two regions of this name"),
        ([(PREFIX + "w", 20, 16), MAIN], "the regions are not in order"),
        ([(PREFIX + "w", 0, 17), MAIN], "it is 17 bytes long, and only 16 fit there"),
        ([(PREFIX + "w", 0, 8), MAIN], "takes 16 bytes, its region holds 8"),
        ([(PREFIX + "v", 0, 16), MAIN], f"its region '{PREFIX}w' is not in the package"),
        ([(PREFIX + "w", 0, 16), (MAIN_REGION, 1 << 62, 98)], "the regions are not in order"),
    ],
)
def test_damaged_directories(tmp_path: Path, regions: list[tuple[str, int, int]], words: str) -> None:
    path = package(tmp_path / "x", regions, SAMPLE[:114])
    with pytest.raises(FormatError) as caught:
        memmapped.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_not_a_package(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(FormatError, match="not a memmapped package"):
        memmapped.load(path)


def test_the_limit_is_positive(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="0 bytes"):
        write(weights(), tmp_path / "x", min_bytes=0)


@given(st.integers(0, 177), st.integers(0, 255))
def test_any_changed_byte(tmp_path_factory: pytest.TempPathFactory, at: int, value: int) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(SAMPLE[:at] + bytes([value]) + SAMPLE[at + 1 :])
    try:
        for found in memmapped.load(path):
            if found.tensor is not None:
                found.tensor.numpy()
    except ThinflowError:
        pass


@pytest.mark.parametrize("size", range(1, 178, 7))
def test_any_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(SAMPLE[:size])
    with pytest.raises(ThinflowError):
        memmapped.load(path)


@pytest.mark.slow
def test_many_mutations(tmp_path: Path) -> None:
    """Packages with bytes changed, cut and doubled: a typed error or a graph, never anything else."""
    import random

    rng = random.Random(3)
    path = tmp_path / "x"
    write(digits.build(0), path, min_bytes=20_000)
    sources = [SAMPLE, path.read_bytes()[-9000:]]
    for number in range(20_000):
        data = bytearray(sources[number % 20 == 0])
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((1, 1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 1, 8)))
        try:
            buffer = memoryview(bytes(data))
            graph = graphdef.from_bytes(memmapped.regions(buffer)[MAIN_REGION].data)
            for found in graph:
                memmapped._fill(found, memmapped.regions(buffer), [])
        except ThinflowError:
            continue
