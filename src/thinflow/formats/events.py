"""TensorBoard's event files: TFRecords of Event messages; one of them may hold the graph."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from thinflow.errors import FormatError, WriteError
from thinflow.formats import graphdef, metagraph
from thinflow.formats.files import map_file, write_file
from thinflow.formats.format import Format
from thinflow.ir.graph import Graph
from thinflow.wire import tfrecord
from thinflow.wire.fields import encode_varint, field_header, iter_fields

# Field numbers of Event in TensorFlow's `event.proto`.
_WALL_TIME, _VERSION, _GRAPH, _RUN, _META_GRAPH, _SOURCE = 1, 3, 4, 8, 9, 10
_FILE_VERSION = b"brain.Event:2"
_MAX_RECORD_BYTES = (1 << 31) - 1
_BYTES = 2  # wire type of texts and messages


class RunStats(NamedTuple):
    """Record of a profiled run: a serialized RunMetadata under the name TensorBoard lists it by."""

    tag: str
    metadata: bytes


# --- writing ------------------------------------------------------------------------------------------------


def save(graph: Graph, folder: str | os.PathLike[str], runs: Sequence[RunStats] = ()) -> Path:
    """Write an event file with the graph into a folder, which is made if need be; the path of the file.

    Raises:
        WriteError: the folder or the file cannot be written, or the graph is larger than a message may be.
    """
    import socket

    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"this folder cannot be made: {error.strerror or error}", str(home), "choose another --log_dir"
        ) from error
    now = time.time()
    path = home / f"events.out.tfevents.{int(now):010d}.{socket.gethostname() or 'localhost'}"
    while path.exists():  # TensorBoard adds up the files of a folder: none may take another's place
        path = path.with_name(f"{path.name}.1")
    write_file(path, _chunks(graph, runs, now))
    return path


def _chunks(graph: Graph, runs: Sequence[RunStats], now: float) -> Iterator[bytes | memoryview]:
    # Wire type 1, since the time is a double; `writer` is field 1 of SourceMetadata.
    stamp = field_header(_WALL_TIME, 1) + struct.pack("<d", now)
    source = _field(1, b"thinflow")
    yield from tfrecord.framed([stamp, _field(_VERSION, _FILE_VERSION), _field(_SOURCE, source)])
    content = list(graphdef.to_chunks(graph))
    size = sum(len(chunk) for chunk in content)
    # Room for the time stamp and the field's header beside the graph.
    if size > _MAX_RECORD_BYTES - 64:
        raise WriteError(
            f"the graph has {size} bytes, an event at most {_MAX_RECORD_BYTES}",
            hint="leave out the weights, which TensorBoard does not show: --keep_weights=false",
        )
    header = field_header(_GRAPH, _BYTES) + encode_varint(size)
    yield from tfrecord.framed([stamp, header, *content])
    for tag, metadata in runs:
        # Of TaggedRunMetadata: tag, and the message as bytes.
        tagged = _field(1, tag.encode()) + _field(2, metadata)
        yield from tfrecord.framed([stamp, _field(_RUN, tagged)])


def _field(number: int, content: bytes) -> bytes:
    return field_header(number, _BYTES) + encode_varint(len(content)) + content


# --- reading ------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Graph:
    """The last graph in an event file; weights are views of it.

    Raises:
        FormatError: there is none in it, or the file is damaged.
    """
    buffer = map_file(path)
    where = Path(path)
    try:
        found = _last_graph(buffer)
        if found is None:
            raise _without_graph(buffer)
        number, offset, size = found
        data = buffer[offset : offset + size]
        if number == _META_GRAPH:
            graph = metagraph.from_bytes(data, where, where.parent).graph
        else:
            graph = graphdef.from_bytes(data)
    except FormatError as error:
        raise error.at(str(where)) from error
    graph.path = str(where)
    graph.facts = {"kept in": "a TensorBoard event file"}
    return graph


def _last_graph(buffer: memoryview) -> tuple[int, int, int] | None:
    """Field number, offset and size of the last graph; None if there is none."""
    found = None
    at = 0
    for data in tfrecord.records(buffer):
        start = at + tfrecord.HEADER_BYTES
        for number, begin, end in _contents(data):
            if number in (_GRAPH, _META_GRAPH):
                # Only of records that matter: event files hold gigabytes of pictures
                # and histograms between graphs.
                tfrecord.check(buffer, data, start)
                if number == _GRAPH or found is None or found[0] == _META_GRAPH:
                    found = number, start + begin, end - begin
        at = start + len(data) + tfrecord.FOOTER_BYTES
    return found


def _contents(data: memoryview) -> Iterator[tuple[int, int, int]]:
    """Number and place of the texts and messages in an Event; nothing if it is another kind of record."""
    try:
        # Every Event begins with its time; TFRecords of samples begin with another field.
        if data[:1] != field_header(_WALL_TIME, 1):
            return
        for number, wire_type, start, end in iter_fields(data, 0, len(data)):
            if wire_type == _BYTES:
                yield number, start, end
    except FormatError:
        return


def _without_graph(buffer: memoryview) -> FormatError:
    records = list(tfrecord.records(buffer))
    counted = f"{len(records)} record{'s' if len(records) != 1 else ''}"
    is_event = any(number == _VERSION for number, *_ in _contents(records[0]))
    if is_event:
        return FormatError(
            f"this is a TensorBoard event file of {counted}, none of which holds a graph",
            hint="look at it with tensorboard --logdir; give the model itself",
        )
    return FormatError(
        f"this is a TFRecord file of {counted}: samples, not a model",
        hint="give it as --calibration or --data, and the model itself",
    )


def read_run_metadata(path: str | os.PathLike[str]) -> RunStats:
    """The RunMetadata in a file, tagged by the file's name.

    Raises:
        FormatError: no such file, or it holds something else.
    """
    data = bytes(map_file(path))
    try:
        for _ in iter_fields(data, 0, len(data)):
            pass
    except FormatError as error:
        raise FormatError(
            f"this is not a RunMetadata message: {error.problem}",
            os.fspath(path),
            "write run_metadata.SerializeToString() to a file",
        ) from error
    return RunStats(Path(path).name, data)


FORMAT = Format(
    "events",
    "a TensorBoard event file",
    lambda sample: tfrecord.starts_record(sample.head),
    load,
    rank=8,
)
