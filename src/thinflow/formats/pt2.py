"""Programs that PyTorch's torch.export wrote, as graphs with ATen's own ops. PyTorch is not needed."""

from __future__ import annotations

import os

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.formats._json_fields import Object, as_int, as_object
from thinflow.formats._pt2_archive import EXPORT_HINT, Archive, Payload, is_program, names_in
from thinflow.formats._pt2_graph import ProgramReader
from thinflow.formats.foreign import copy_file, list_text, unreadable
from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph, paused_gc
from thinflow.ir.vocabulary import ATEN

_SCHEMA = 8
"""The major version of PyTorch's schema; since 2.5, and files with raw tensors have no other."""
_SHOWN_TEXT = 60


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a .pt2 file; weights stay views of the mapped file.

    Raises:
        FormatError: a damaged file, or one that is pickled; names the place.
        UnsupportedOp: the program holds what a graph cannot.
    """
    try:
        with paused_gc():
            graph = _graph(Archive(path))
    except FormatError as error:
        raise unreadable(error, os.fspath(path), ATEN.title, EXPORT_HINT) from error
    except UnsupportedOp as error:
        raise error.at(os.fspath(path)) from error
    graph.path = os.fspath(path)
    return graph


def _graph(archive: Archive) -> Graph:
    models = archive.models()
    if len(models) != 1:
        raise FormatError(f"there are {len(models)} programs in it: {list_text(models)}", hint=EXPORT_HINT)
    name = models[0]
    if not archive.has(f"data/weights/{name}_weights_config.json"):
        raise FormatError("its weights are pickled, as PyTorch before 2.9 wrote them", hint=EXPORT_HINT)
    program = archive.json(f"models/{name}.json")
    version = as_object(program.get("schema_version"), "schema_version")
    if as_int(version.get("major"), "its version") != _SCHEMA:
        raise FormatError(
            f"it is written by version {version.get('major')} of PyTorch's schema; version {_SCHEMA} is known"
        )
    weights = Payload(archive, "weights", f"{name}_weights_config.json")
    constants = Payload(archive, "constants", f"{name}_constants_config.json")
    graph = ProgramReader(program, weights, constants).build()
    graph.facts = _facts(program)
    return graph


def _facts(program: Object) -> dict[str, str]:
    version = as_object(program.get("schema_version"), "schema_version")
    facts = {"schema": f"{version.get('major')}.{version.get('minor')}"[:_SHOWN_TEXT]}
    if isinstance(program.get("torch_version"), str):
        facts["producer"] = f"PyTorch {program['torch_version']}"[:_SHOWN_TEXT]
    ranges = as_object(program.get("range_constraints", {}), "range_constraints")
    if ranges:
        facts["sizes"] = list_text(_range(*item) for item in ranges.items())
    return facts


def _range(symbol: str, limits: object) -> str:
    """The sizes that a symbol stands for: `s77 from 1 to 64`."""
    given = as_object(limits, "a range")
    least, most = given.get("min_val"), given.get("max_val")
    text = f"{symbol[:_SHOWN_TEXT]} from {least if least is not None else 0}"
    return text if most is None else f"{text} to {most}"


def _recognise(sample: Sample) -> bool:
    return sample.head.startswith(b"PK\x03\x04") and is_program(names_in(sample.path))


FORMAT = Format(
    name=ATEN.name,
    title=ATEN.title,
    recognise=_recognise,
    load=load,
    save=lambda graph, path: copy_file(graph, path, ATEN),
    suffixes=(".pt2",),
    vocabulary=ATEN,
    rank=15,
)
