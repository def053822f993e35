"""A look at one unit of a collection: what it is, whether it opens, runs and converts; and the linter's."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from thinflow import zoo
from thinflow.analysis.releases import era
from thinflow.analysis.summary import summarize
from thinflow.engines.session import Session
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats import keras, recognise, sample_of
from thinflow.formats.checkpoint import open_checkpoint
from thinflow.formats.unsupported import holds_weights, is_archive, kind_of
from thinflow.interpreter.turns import turns_of
from thinflow.ir.graph import Graph
from thinflow.load.describing import describe
from thinflow.load.graphs import load_for_inference
from thinflow.lower.targets import Target, targets
from thinflow.optimize.conversion import Converter
from thinflow.optimize.coverage import handles_text
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.maker import ModelMaker
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.sound_input import loaded_for_device
from thinflow.survey.entry import Entry, Kind, Looked, Outcome
from thinflow.survey.likeness import weight_digests
from thinflow.survey.units import Unit
from thinflow.synthetic import synthetic_feeds

_CHUNK_BYTES = 1 << 22
_FALLBACK = "graphdef"
"""The format that any file could be, as nothing at its beginning gives it away."""
_SUFFIXES = frozenset(
    {".pb", ".pbtxt", ".tflite", ".onnx", ".meta", ".mmpb", ".keras", ".h5", ".hdf5", ".pt2"}
)
"""A file of such a name that cannot be read is a broken model; of any other it is no model."""
_LATE = [
    f"thinflow.engines.{name}" for name in ("litert", "_autotune", "_bodies", "_regions", "_temporary_files")
]
"""What is imported by the first run of a model."""


_MAKERS: dict[str, Callable[[], ModelMaker[Any, Any]]] = {"tflite": LiteRTMaker, "onnx": OnnxMaker}


@dataclass(frozen=True)
class Depth:
    """How much is tried with a model.

    Attributes:
        runs: it is run on made-up inputs.
        converts: each target is lowered to.
        lints: the linter looks at it.
    """

    runs: bool = True
    converts: bool = True
    lints: bool = True


def prepare() -> None:
    """Import all that a look may need, once: a thousand forks then have it."""
    # Nothing is run here: threads that an engine starts would be in no fork.
    for module in _LATE:
        import_module(module)
    keras.import_layers()
    with tempfile.TemporaryDirectory(prefix="thinflow-survey-") as folder:
        graph, lite = Path(folder, "digits.pb"), Path(folder, "digits.tflite")
        zoo.write("digits", graph)
        _looked(Unit(graph, graph.name, (graph,)), Depth(runs=False))
        # One file in another vocabulary brings the rules of all of them.
        target = next(target for target in targets() if target.name == "tflite")
        target.write(load_for_inference(graph)[0], lite)
        _looked(Unit(lite, lite.name, (lite,)), Depth(False, False, False))


def look(unit: Unit, depth: Depth = Depth()) -> Looked:
    """All that can be told of a unit. Never raises for what is in its files."""
    start = time.perf_counter()
    try:
        found = _looked(unit, depth)
    except OSError as error:
        # Not of the model, but of the disk it is on.
        reason = f"it cannot be read: {error.strerror or error}"
        found = Looked(Entry(unit.name, "broken", "a file", reason=reason), "")
    return _finished(found, unit, start)


def glance(unit: Unit, depth: Depth) -> Looked | None:
    """The same of what begins as no model does and is not named like one; None for all else.

    Most files of a folder are such, and a fork takes longer than the few bytes that are read.
    """
    if unit.path.suffix in _SUFFIXES or not unit.path.is_file():
        return None
    start = time.perf_counter()
    try:
        recognise(unit.path)
    except FormatError as error:
        return _finished(_no_model(unit, error), unit, start)
    return None


def _finished(found: Looked, unit: Unit, start: float) -> Looked:
    found.entry.size_bytes = unit.size_bytes
    found.entry.seconds = time.perf_counter() - start
    return found


def _looked(unit: Unit, depth: Depth) -> Looked:
    try:
        format = recognise(unit.path)
    except FormatError as error:
        return _no_model(unit, error)
    content = _content_digest(unit)
    entry = Entry(unit.name, "model", format.title, format.name)
    if format.name == "checkpoint":
        return Looked(_weights_only(unit, entry), content)
    if format.load is None and format.hint:
        entry.kind, entry.reason = "unread", format.hint
        return Looked(entry, content)
    try:
        graph, settings = load_for_inference(unit.path, **unit.opening)
    except ThinflowError as error:
        return Looked(_unopened(unit, entry, error), content)
    if format.name == _FALLBACK and not len(graph) and unit.path.suffix not in _SUFFIXES:
        # A few stray bytes are an empty GraphDef, too.
        return Looked(Entry(unit.name, "other", "a file of an unknown kind"), content)
    # What comes next learns sizes for a batch of one; the linter sees it as it was loaded.
    untouched = graph.clone() if depth.lints else graph
    _tell(entry, graph)
    entry.maker = entry.maker or _framework(unit)
    weights = weight_digests(graph)
    if depth.runs:
        entry.runs = _tried(lambda: _run(graph))
    if depth.converts:
        with tempfile.TemporaryDirectory(prefix="thinflow-survey-") as folder:
            for target in (t for t in targets() if not t.extra):
                path = Path(folder, f"model{target.suffixes[0]}")
                entry.converts[target.name] = _converted(target, unit, graph, path)
    if depth.lints:
        entry.findings = _findings(unit, untouched, settings)
    return Looked(entry, content, weights)


def _no_model(unit: Unit, error: FormatError) -> Looked:
    """The entry of a file that is recognised as something that cannot be opened, or not at all."""
    if not unit.path.is_file() or not unit.path.stat().st_size:
        kind: Kind = "broken" if unit.path.suffix in _SUFFIXES else "other"
        return Looked(Entry(unit.name, kind, "an empty file", reason="it is empty"), "")
    try:
        what, hint = kind_of(sample_of(unit.path))
    except FormatError:
        what = hint = ""
    if is_archive(hint):
        return Looked(Entry(unit.name, "archive", what), "", archive=True)
    if holds_weights(hint):
        return Looked(Entry(unit.name, "unread", what, reason=hint), _content_digest(unit))
    if unit.path.suffix in _SUFFIXES or not what:
        # Its name promises a model, or it begins like one.
        return Looked(Entry(unit.name, "broken", what or "a damaged file", reason=error.problem), "")
    return Looked(Entry(unit.name, "other", what), "")


def _unopened(unit: Unit, entry: Entry, error: ThinflowError) -> Entry:
    """The entry of what was recognised and does not open."""
    if entry.format == _FALLBACK and unit.path.suffix not in _SUFFIXES:
        return Entry(unit.name, "other", "a file of an unknown kind")
    entry.kind, entry.reason = "broken", error.problem
    if not isinstance(error, FormatError):
        # The file is sound: it says something that nobody here understands.
        entry.kind = "unread"
    return entry


def _weights_only(unit: Unit, entry: Entry) -> Entry:
    try:
        checkpoint = open_checkpoint(unit.path)
        entry.kind, entry.what = "weights", f"a checkpoint of {len(checkpoint)} variables, without a graph"
        specs = [checkpoint.spec(name) for name in checkpoint]
        entry.parameters = sum(spec.size for spec in specs if spec.size is not None)
    except ThinflowError as error:
        entry.kind, entry.reason = "broken", error.problem
    return entry


def _era(graph: Graph) -> str:
    """What a file says of who wrote it, if that is no name: of its converter, or the era of its ops; ""."""
    told = graph.facts.get("description", "").removesuffix(".")
    if told and (runtime := graph.facts.get("runtime", "")):
        return f"{told}, for runtimes from {runtime}"
    return told or era(graph)


def _tell(entry: Entry, graph: Graph) -> None:
    """What a graph says of itself, and what can be computed without running it."""
    entry.maker = graph.facts.get("producer", "") or _era(graph)
    # First: the summary assumes a batch of one where the batch is open.
    entry.inputs = {value.name: str(value.spec) for value in graph.inputs}
    entry.outputs = {value.name: str(value.spec) for value in graph.outputs}
    summary = summarize(graph, turns=turns_of)
    entry.nodes, entry.ops = len(graph), dict(summary.ops)
    entry.parameters = summary.parameters.count + summary.parameters.in_functions
    total = summary.cost.total
    entry.flops, entry.macs = total.flops or None, total.macs or None


def _framework(unit: Unit) -> str:
    """The TensorFlow that wrote a SavedModel or a MetaGraph; "" if it does not say, or another wrote it."""
    try:
        info = describe(unit.path)
    except ThinflowError:
        return ""
    version = info.graphs[0].version if info is not None and info.graphs else ""
    return f"TensorFlow {version}" if version else ""


def _tried(work: Callable[[], Any]) -> Outcome:
    try:
        size = work()
    except ThinflowError as error:
        return Outcome(False, f"{error.where}: {error.problem}" if error.where else error.problem)
    return Outcome(True, size_bytes=size if isinstance(size, int) else None)


def _converted(target: Target, unit: Unit, graph: Graph, path: Path) -> Outcome:
    """Whether a target holds a graph: all of it, or as `convert` does what is behind what an app decodes."""
    whole = _tried(lambda: target.write(graph, path))
    # Files are decoded where there are texts, and nothing else is left to the app of a whole model; one
    # without its variables is no whole one.
    if whole.works or not any(map(handles_text, graph)) or summarize(graph).has_variables:
        return whole
    try:
        if (maker := _MAKERS.get(target.name)) is not None:
            made = Converter(maker(), graph, str(path), verify=False).convert()
            if made.is_part and made.coverage is not None:
                return Outcome(False, f"only a part of it: {made.coverage.sentence}")
            return Outcome(True, size_bytes=made.size_bytes)
        behind, _, notes = loaded_for_device(unit.path, None, dict(unit.opening))
        return _tried(lambda: target.write(behind, path)) if notes else whole
    except ThinflowError:
        return whole


def _run(graph: Graph) -> None:
    session = Session(graph, engine="auto")
    for feeds in synthetic_feeds(graph.inputs, 1):
        session.run(graph.outputs, feeds)


def _findings(unit: Unit, graph: Graph, settings: list[str]) -> dict[str, tuple[str, str]]:
    """The linter's, by code; of several with one code the first."""
    from thinflow.lint.context import Context
    from thinflow.lint.look import look as lint
    from thinflow.lint.rules import rules

    try:
        report = lint(Context(unit.path, loaded=(graph, settings), **unit.opening), rules())
    except ThinflowError as error:
        return {"": ("error", error.problem)}
    found: dict[str, tuple[str, str]] = {}
    for finding in report.findings:
        found.setdefault(
            finding.code, (finding.severity.name.lower() if finding.severity else "", finding.message)
        )
    return found


def _content_digest(unit: Unit) -> str:
    """A digest of the bytes of all files, and of their names inside of a folder."""
    digest = hashlib.blake2b(digest_size=16)
    for member in unit.members:
        if len(unit.members) > 1:
            top = unit.path if unit.path.is_dir() else unit.path.parent
            digest.update(os.fsencode(os.path.relpath(member, top)) + b"\0")
        if not member.stat().st_size:
            continue
        with open(member, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
