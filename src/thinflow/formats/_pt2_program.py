"""The graph of a program in an archive that PyTorch's torch.export wrote."""

from __future__ import annotations

import os

from thinflow.errors import FormatError
from thinflow.formats._json_fields import Object, as_int, as_object
from thinflow.formats._pt2_archive import Archive, Payload
from thinflow.formats._pt2_graph import ProgramReader
from thinflow.formats.foreign import list_text
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import DECOMPOSED, EXPORT_HINT

_SCHEMA = 8
"""The major version of PyTorch's schema; since 2.5, and files with raw tensors have no other."""
_SHOWN_TEXT = 60


def graph_of(path: str | os.PathLike[str]) -> Graph:
    """The graph; weights stay views of the mapped file."""
    archive = Archive(path)
    models = archive.models()
    if len(models) != 1:
        raise FormatError(f"there are {len(models)} programs in it: {list_text(models)}", hint=EXPORT_HINT)
    name = models[0]
    program = archive.program(name)
    version = as_object(program.get("schema_version"), "schema_version")
    major = as_int(version.get("major"), "its version")
    if major != _SCHEMA:
        age = "an older PyTorch" if major < _SCHEMA else "a newer PyTorch"
        raise FormatError(
            f"it is in version {major} of PyTorch's schema, by {_writer(program, age)};"
            f" version {_SCHEMA} is known",
            hint=EXPORT_HINT,
        )
    weights, constants = (
        Payload(archive, kind, f"{name}_{kind}_config.json", _writer(program))
        for kind in ("weights", "constants")
    )
    graph = ProgramReader(program, weights, constants).build()
    graph.facts = _facts(program)
    return graph


def _writer(program: Object, otherwise: str = "PyTorch before 2.9") -> str:
    """The PyTorch that wrote a program, where that says so."""
    named = program.get("torch_version")
    return f"PyTorch {named[:_SHOWN_TEXT]}" if isinstance(named, str) and named else otherwise


def _facts(program: Object) -> dict[str, str]:
    version = as_object(program.get("schema_version"), "schema_version")
    facts = {"schema": f"{version.get('major')}.{version.get('minor')}"[:_SHOWN_TEXT]}
    if isinstance(program.get("torch_version"), str):
        facts["producer"] = _writer(program)[:_SHOWN_TEXT]
    if program.get("verifiers") == ["ATEN"]:
        facts[DECOMPOSED] = "by run_decompositions()"
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
