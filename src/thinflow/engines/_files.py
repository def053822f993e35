"""Models that an engine runs from their files as they are: .tflite, .onnx and .xml, packed ones too."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.errors import (
    EngineUnavailable,
    FeedError,
    FormatError,
    GraphError,
    ParameterError,
    closest,
)
from thinflow.ir.types import TensorSpec

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph
    from thinflow.typing import Array

_HEAD_BYTES = 256
_PACKED = b"thinpack"
# Tags of an ONNX model that may follow its ir_version: producer, its version, domain, model version, doc
# string, graph, opsets. `formats.onnx` says so, too; but running a file imports no formats, which every cold
# start would pay for. A test holds the two equal.
_SECOND_TAGS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)


@dataclass(eq=False)
class FilePort:
    """An input or output of a file.

    Attributes:
        name, spec: what the file says.
        grid: scale and zero point of the real numbers that its integers stand for; None for plain numbers.
    """

    name: str
    spec: TensorSpec
    grid: tuple[float, int] | None = None


class Model(Protocol):
    """A file made ready by an engine."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """All outputs, in the order of the file."""
        ...


@dataclass
class ModelFile:
    """A file in its engine.

    Attributes:
        path: of the file.
        engine: the engine's name.
        model: runs it.
        inputs, outputs: in the order of the file.
        aliases: gives other names of inputs and outputs, and those they stand for.
    """

    path: str
    engine: str
    model: Model
    inputs: list[FilePort]
    outputs: list[FilePort]
    aliases: Callable[[], Mapping[str, str]] = dict

    def find(self, name: str, role: str) -> FilePort:
        """The input ("feed") or output ("fetch") of that name, which goes with or without ":0".

        Raises:
            GraphError: there is none.
        """
        ports = self.inputs if role == "feed" else self.outputs
        # The file's own names go before those of a signature, which may use one of them for another tensor.
        for wanted in (name, self.aliases().get(name.removesuffix(":0"), name)):
            for port in ports:
                if port.name.removesuffix(":0") == wanted.removesuffix(":0"):
                    return port
        known = [p.name for p in ports]
        raise GraphError(
            f"cannot {role} '{name}': the file has no such {'input' if role == 'feed' else 'output'}",
            self.path,
            hint=closest(name, known) or f"it has {', '.join(known)}",
        )

    def restart(self) -> None:
        """Forget what the last run left, if the engine keeps anything."""
        # ONNX Runtime keeps nothing between runs.
        forget = getattr(self.model, "restart", None)
        if forget is not None:
            forget()

    def run_each(self, inputs: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """All outputs for one feed after the other; an engine that is far away takes several at once."""
        together = getattr(self.model, "run_each", None)
        return together(inputs) if together is not None else map(self.model.run, inputs)

    def compile(self, inputs: Sequence[FilePort], outputs: Sequence[FilePort]) -> FileRun:
        """A run with those inputs, in that order, and those outputs.

        Raises:
            FeedError: an input is missing.
        """
        missing = next((p for p in self.inputs if p not in inputs), None)
        if missing is not None:
            raise FeedError(
                f"nothing was fed for the input '{missing.name}'",
                self.path,
                hint=f"it takes {missing.spec}",
            )
        return FileRun(self, [inputs.index(p) for p in self.inputs], [self.outputs.index(p) for p in outputs])


@dataclass
class FileRun:
    """A file made ready for one choice of inputs and outputs; see `base.Compiled`."""

    file: ModelFile
    order: list[int]
    picked: list[int]
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def placement(self) -> dict[str, str]:
        """Output name -> engine; a file does not say what its other nodes are called."""
        return {p.name: self.file.engine for p in self.file.outputs}

    def __post_init__(self) -> None:
        # The usual case: a run of microseconds would feel two lists made anew.
        self._as_it_is = self.order == list(range(len(self.file.inputs))) and self.picked == list(
            range(len(self.file.outputs))
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        if self._as_it_is:
            return self.file.model.run(inputs)
        results = self.file.model.run([inputs[i] for i in self.order])
        return [results[i] for i in self.picked]

    def run_each(self, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """The outputs for one feed after the other."""
        for results in self.file.run_each([inputs[i] for i in self.order] for inputs in feeds):
            yield [results[i] for i in self.picked]


def engine_of(path: str | os.PathLike[str] | Graph) -> str:
    """The engine that runs a model from its file as it is; "" if it is a TensorFlow graph, or is not there.

    A file is told by its content, a graph by its vocabulary.
    """
    if not isinstance(path, str | os.PathLike):
        return _engine_for(getattr(path, "vocabulary", ""))
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return ""  # the loader of graphs says what is wrong
    if head.startswith(_PACKED):
        from thinflow.formats.packed_bytes import packed_kind

        return _engine_for(packed_kind(path))
    # The file identifier of the flatbuffers format, behind the offset of the root table.
    if head[4:8] == b"TFL3":
        return "litert"
    # An ONNX model starts with its ir_version, from 3 on, and its producer or the like. No GraphDef starts
    # so; a SavedModel does, with version 1.
    if len(head) > 2 and head[0] == 8 and 3 <= head[1] < 64 and head[2] in _SECOND_TAGS:
        return "onnxruntime"
    if b"<net" in head:
        from thinflow.formats.openvino import begins_ir

        return "openvino" if begins_ir(head) else ""
    return ""


def _engine_for(vocabulary: str) -> str:
    """The engine that runs models in these ops from their files."""
    from thinflow.ir.vocabulary import vocabulary_named

    found = vocabulary_named(vocabulary)
    return found.engine if found is not None else ""


def file_content(path: str) -> bytes | str:
    """The source that an engine opens: the path of a file, or the bytes of the model in a package.

    Raises:
        FormatError: a wrong key, or a changed package.
        ParameterError: it is encrypted and no key is there.
    """
    try:
        with open(path, "rb") as file:
            is_packed = file.read(len(_PACKED)) == _PACKED
    except OSError:
        return path  # the engine says what is wrong
    if not is_packed:  # the readers of formats take longer to import than a small model to open
        return path
    from thinflow.formats.packed_bytes import content_of

    return content_of(path)


def is_file(model: Any) -> bool:
    """True if a model is the path of a file that an engine runs as it is, or the graph read from one."""
    return bool(engine_of(model))


def has_signature(model: str | os.PathLike[str] | Graph, key: str | None) -> bool:
    """True if a model that an engine runs from its file is a .tflite file with that signature."""
    if key is None or engine_of(model) != "litert":
        return False
    from thinflow.formats.packed_bytes import bytes_of
    from thinflow.formats.tflite import signature_names

    return key in signature_names(bytes_of(path_of(model)))


def signature_to_run(model: str | os.PathLike[str] | Graph) -> str | None:
    """The signature of a .tflite file that runs where none is named; None if it has one graph only.

    Raises:
        GraphError: it has several, and none is the default.
    """
    from thinflow.formats.packed_bytes import bytes_of
    from thinflow.formats.tflite import default_signature

    if not isinstance(model, str | os.PathLike) and "signature" in model.facts:
        return model.facts["signature"]
    path = path_of(model)
    try:
        return default_signature(bytes_of(path))
    except FormatError:
        return None  # who opens the file says what is wrong with it
    except GraphError as error:
        raise GraphError(error.problem, path, error.hint) from error


def path_of(model: str | os.PathLike[str] | Graph) -> str:
    """The file behind such a model.

    Raises:
        GraphError: the graph came from no file, or was changed since: no engine runs what it is now.
    """
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    from thinflow.formats.foreign import is_as_read

    if not model.path or not is_as_read(model):
        raise GraphError(
            "the graph is no longer what its file holds, and only the file can be run"
            if model.path
            else "a graph of LiteRT's or ONNX's ops is run from its file, and this one has none",
            model.path,
            hint="load the file again",
        )
    return model.path


def open_file(
    path: str | os.PathLike[str] | Graph, engine: str, threads: int, signature: str | None = None
) -> ModelFile:
    """A file ready to run.

    Args:
        path: the file, or the graph read from it.
        engine: that runs it.
        threads: how many the engine may use.
        signature: of a .tflite file, which one to run; default that of the graph, if it was read so.

    Raises:
        EngineUnavailable: the engine is missing or refuses it.
        GraphError: a graph that was changed since it was read, or there is no such signature.
    """
    if not isinstance(path, str | os.PathLike):
        signature = signature or path.facts.get("signature")
    path = path_of(path)
    if signature is not None and engine != "litert" and runs_files_of(engine) != "litert":
        raise ParameterError(
            f"this file has no signatures, so there is no '{signature}'",
            os.fspath(path),
            hint="leave --signature out",
        )
    module = _module_for(path, engine)
    if not hasattr(module, "open_file"):
        raise FormatError(
            "files of this kind cannot be run as they are",
            os.fspath(path),
            hint="open it with thinflow.load, and run the graph",
        )
    try:
        # Only LiteRT's function has such an argument, as only its files have signatures.
        chosen = {} if signature is None else {"signature": signature}
        opened: ModelFile = module.open_file(os.fspath(path), threads, **chosen)
    except EngineUnavailable as error:
        if error.where:
            raise
        raise EngineUnavailable(error.problem, os.fspath(path), hint=refusal_hint(path)) from error
    return opened


def refusal_hint(path: str) -> str:
    """What to do about a file that its runtime refuses, by whether it can be read and run without."""
    from thinflow.errors import ThinflowError, UnsupportedOp
    from thinflow.load.graphs import load

    try:
        load(path)
    except FormatError:
        return "the file may be damaged; convert the model again"
    except UnsupportedOp as error:
        # No node's own trouble, so no part of the file has less of it.
        if not error.where:
            return f"{error.message}; {error.hint}"
        # What stands in the way here does so there as well. Its own hint is to ask the runtime.
        return f"{error.message}; a part that ends in front of it can be made: outputs=[...]"
    except ThinflowError as error:
        return f"{error.message}; {error.hint}"
    from thinflow.engines._mended import mended_file

    if engine_of(path) == "litert" and mended_file(path) is not None:
        return f"`thinflow convert {shlex.quote(path)} mended.tflite` writes a copy that LiteRT takes"
    return f"the interpreter may take it: `thinflow run {shlex.quote(path)} --engine reference`"


def runs_files_of(engine: str) -> str:
    """The other engine whose files this one runs as they are, too; "" if there is none."""
    from thinflow.engines import find

    found: str = getattr(_home_of(find(engine)), "FILES_OF", "")
    return found


def _home_of(engine: Any) -> Any:
    """What opens files for an engine: its module, or the engine itself where it has none; see `joined`."""
    import importlib

    return engine if hasattr(engine, "open_file") else importlib.import_module(type(engine).__module__)


def _module_for(path: str | os.PathLike[str], engine: str) -> Any:
    """The module of an engine that can be used.

    Raises:
        EngineUnavailable: it cannot, and no other runs the file.
    """
    from thinflow.engines import find

    try:
        return _home_of(find(engine))
    except EngineUnavailable as error:
        raise EngineUnavailable(
            error.problem,
            os.fspath(path),
            hint="install it; `thinflow run MODEL --engine reference` does without",
        ) from error


def open_content(content: bytes | str, engine: str, threads: int, *, careful: bool = True) -> Model:
    """A model that an engine has opened from a file's bytes, or from its path.

    Args:
        careful: see `_child.run_file`.

    Raises:
        EngineUnavailable: the engine is missing or refuses it.
    """
    module = _module_for(content if isinstance(content, str) else "", engine)
    # ONNX Runtime needs no sizes before it runs.
    options: dict[str, Any] = {"settled": None} if engine == "litert" else {}
    if engine == "onnxruntime":
        options["careful"] = careful
    model: Model = module.Model(content, threads=threads, **options)
    return model
