"""Files in and out: `load` looks at the bytes, never at the suffix; `save` goes by the suffix.

Each format is a module here that defines `FORMAT`; see `thinflow.formats.format`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, ParameterError, closest
from thinflow.formats.files import map_file
from thinflow.formats.format import HEAD_BYTES, Format, Sample, formats
from thinflow.ir.graph import Graph
from thinflow.ir.source_file import SourceFile

_SHOWN_TEXT = 60


def load(path: str | os.PathLike[str], **options: Any) -> Graph:
    """The graph in a file or folder of any format thinflow reads.

    Args:
        path: the file or folder.
        options: what the format can be told, such as `tags` and `signature` of a SavedModel.

    Raises:
        FormatError: no such file, or not a model; says what it is instead and what to do.
        ParameterError: an option that this format does not have.
    """
    format = recognise(path)
    # None means not given: a caller may pass all the options that there are on to any format.
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in format.options:
            raise ParameterError(
                f"{os.fspath(path)} is {format.title}: {name}= does not apply", hint="leave it out"
            )
    if format.load is None:
        raise FormatError(f"this is {format.title}, not a graph by itself", os.fspath(path), format.hint)
    graph = format.load(path, **chosen)
    if format.framework and graph.source is None:
        # Nothing here runs such a file, so that nobody can tell whether it was read rightly.
        producer = graph.facts.get("producer", "")[:_SHOWN_TEXT]
        title = f"{format.title} from {producer}" if producer else format.title
        graph.source = SourceFile(os.fspath(path), title, format.framework)
    return graph


def recognise(path: str | os.PathLike[str]) -> Format:
    """The format of a file or folder, told by its content; a GraphDef if nothing else fits.

    Raises:
        FormatError: no such file, or one that cannot hold a model.
    """
    sample = sample_of(path)
    for format in formats():
        if format.recognise(sample):
            return format
    from thinflow.formats.unsupported import refuse

    refuse(sample)
    return named("graphdef")


def sample_of(path: str | os.PathLike[str]) -> Sample:
    """The sample of a file or folder by which formats are recognised. Gzip is looked through.

    Raises:
        FormatError: no such file, an empty or an unreadable one.
    """
    if os.path.isdir(path):
        return Sample(Path(path))
    buffer = map_file(path)
    return Sample(Path(path), bytes(buffer[:HEAD_BYTES]), bytes(buffer[-HEAD_BYTES:]), len(buffer))


def named(name: str) -> Format:
    """The format that `format=` names.

    Raises:
        ParameterError: there is none; the closest is offered.
    """
    for format in formats():
        if format.name == name:
            return format
    choices = [f.name for f in formats() if f.save is not None]
    raise ParameterError(
        f"'{name}' is not a graph format",
        hint=closest(name, choices) or f"choose one of {', '.join(sorted(choices))}",
    )


def save(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> int:
    """Write a graph atomically; the bytes written.

    Args:
        graph: what to write.
        path: where to; the longest suffix a format claims decides, a binary GraphDef if none does.
        format: a format's name, overriding the suffix.

    Raises:
        ParameterError: unknown format, or one that cannot be written.
        WriteError: the file cannot be written.
    """
    chosen = format_for(path, format)
    if graph.vocabulary and chosen.name != graph.vocabulary:
        own = named(graph.vocabulary)
        raise ParameterError(
            f"{own.title} cannot become {chosen.title}",
            graph.path,
            hint="load it in TensorFlow's ops, without lift=False"
            + (f"; end the name in {own.suffixes[0]} for a copy" if own.suffixes else ""),
        )
    if chosen.save is None:
        raise ParameterError(f"a graph cannot be written as {chosen.title}", hint="choose .pb or .pbtxt")
    return chosen.save(graph, path)


def format_for(path: str | os.PathLike[str], format: str | None = None) -> Format:
    """The format to write a file in: as named, else by its suffix, else a binary GraphDef.

    Raises:
        ParameterError: there is no format of that name.
    """
    return named(format) if format is not None else _by_suffix(os.fspath(path))


def _by_suffix(path: str) -> Format:
    # Where suffixes end alike, the longest says most.
    claims = [(len(s), f) for f in formats() if f.save is not None for s in f.suffixes if path.endswith(s)]
    return max(claims, key=lambda claim: claim[0])[1] if claims else named("graphdef")
