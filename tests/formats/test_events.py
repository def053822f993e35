"""Event files: TensorBoard's reader accepts ours, and the graph comes back."""

from __future__ import annotations

import contextlib
import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinflow
from thinflow.compat.graph_scripts import write_events
from thinflow.errors import FormatError, ThinflowError, WriteError
from thinflow.formats import events, recognise
from thinflow.ir.graph import Graph
from thinflow.wire import tfrecord
from thinflow.zoo import digits


def small() -> Graph:
    graph = Graph()
    graph.constant(np.arange(3, dtype=np.float32), "w")
    return graph


def records(*contents: bytes) -> bytes:
    return b"".join(bytes(part) for c in contents for part in tfrecord.framed([c]))


VERSION = b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"


def test_layout(tmp_path: Path) -> None:
    path = events.save(small(), tmp_path / "logs" / "run")
    assert path.parent == tmp_path / "logs" / "run"
    kind, stamp, host = path.name.removeprefix("events.out.").split(".", 2)
    assert kind == "tfevents"
    assert len(stamp) == 10
    assert host
    first, second = (bytes(r) for r in tfrecord.records(memoryview(path.read_bytes())))
    assert first[:1] == b"\x09"
    assert b"\x1a\x0dbrain.Event:2" in first
    assert second[9:10] == b"\x22"


def test_comes_back(tmp_path: Path) -> None:
    graph = digits.build(0)
    path = events.save(graph, tmp_path)
    assert recognise(path).name == "events"
    assert thinflow.compare(graph, path) == []
    assert events.save(graph, tmp_path) != path, "files are never replaced"


def test_weights_can_be_left_out(tmp_path: Path) -> None:
    graph = digits.build(0)
    whole = write_events(graph, tmp_path / "a").stat().st_size
    path = write_events(graph, tmp_path / "b", keep_weights=False)
    assert path.stat().st_size < whole / 5
    assert [n.name for n in thinflow.load(path)] == [n.name for n in graph]


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_tensorboard_reads_it(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    graph = digits.build(0)
    stats = tmp_path / "run1"
    stats.write_bytes(b"\x0a\x00")
    write_events(graph, tmp_path / "logs", run_metadata=[stats])
    found = EventAccumulator(str(tmp_path / "logs"))
    found.Reload()
    assert [n.name for n in found.Graph().node] == [n.name for n in graph]
    assert found.Tags()["run_metadata"] == ["run1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (records(VERSION), "event file of 1 record, none of which holds a graph"),
        (records(b"\x0a\x02\x0a\x00", b"\x0a\x00"), "TFRecord file of 2 records: samples, not a model"),
        (records(VERSION)[:-2], "it says it has"),
        (records(VERSION) + b"x" * 20, "record 1 at byte 40: the checksum of its length is wrong"),
    ],
)
def test_files_without_a_graph(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        thinflow.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_flipped_bit_in_the_graph(tmp_path: Path) -> None:
    path = events.save(small(), tmp_path)
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="the checksum of a record is wrong"):
        thinflow.load(path)


def test_run_metadata_must_be_a_message(tmp_path: Path) -> None:
    path = tmp_path / "stats"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(FormatError, match="not a RunMetadata message"):
        write_events(small(), tmp_path, run_metadata=[path])


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError, match="cannot be made"):
        events.save(small(), tmp_path / "file" / "logs")


def test_too_large_for_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MAX_RECORD_BYTES", 100)
    with pytest.raises(WriteError, match="an event at most 100") as caught:
        events.save(small(), tmp_path)
    assert "--keep_weights=false" in caught.value.hint
    assert not list(tmp_path.iterdir())


@given(st.binary(max_size=80), st.integers(0, 200), st.integers(0, 255))
def test_mutations(tmp_path_factory: pytest.TempPathFactory, extra: bytes, at: int, value: int) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = events.save(small(), folder)
    data = bytearray(path.read_bytes() + extra)
    data[at % len(data)] = value
    path.write_bytes(data)
    with contextlib.suppress(ThinflowError):
        events.load(path)


def test_absurd_length(tmp_path: Path) -> None:
    from thinflow.wire.crc32c import crc32c, masked

    length = struct.pack("<Q", (1 << 64) - 1)
    path = tmp_path / "x"
    path.write_bytes(length + struct.pack("<I", masked(crc32c(length))) + b"abc")
    with pytest.raises(FormatError, match="it says it has 18446744073709551615 bytes, 0 are left"):
        events.load(path)


@pytest.mark.slow
def test_many_mutations(tmp_path: Path) -> None:
    import random

    rng = random.Random(4)
    source = events.save(small(), tmp_path).read_bytes()
    for _ in range(20_000):
        data = bytearray(source)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 1, 8)))
        with contextlib.suppress(ThinflowError):
            events._last_graph(memoryview(bytes(data)))
