"""Autotuning: the fastest engine for a graph, measured, and remembered in a file if wanted."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from thinflow._version import __version__
from thinflow.analysis.precision import usual_tolerance
from thinflow.engines import find, names
from thinflow.engines._measured import EngineChoice, choose
from thinflow.engines.base import Compiled
from thinflow.errors import EngineUnavailable, FormatError
from thinflow.ir.attrs import attr_key
from thinflow.ir.order import ancestors
from thinflow.ops.traits import Trait, has

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.typing import Array

logger = logging.getLogger(__name__)

_FIRST = ("litert", "onnxruntime", "openvino")
_COMPILED = "c"
"""The engine that a compiler makes ready."""
_MOST_COMPILED_BYTES = 4 << 20
"""Of weights; more of them keep a compiler busy for minutes, and are no work for plain C."""
MOST_BYTES = 16 << 20
"""Of a file of choices."""
_MANY_WEIGHTS = 100_000
"""Fewer are multiplied fast enough by any engine."""
_PACKAGES = ("ai-edge-litert", "onnxruntime", "openvino", "numpy")


def usable_engines(candidates: Sequence[str] | None = None) -> list[str]:
    """The engines that can be used here, those that tend to be fast first."""
    found = []
    for name in candidates if candidates is not None else sorted(names(), key=_expected):
        try:
            find(name)
        except EngineUnavailable:
            continue
        found.append(name)
    return found


def measures_ranges(graph: Graph) -> bool:
    """True if a graph multiplies many eight-bit weights, and measures the ranges of results in each run."""
    if not any(has(node.op, Trait.MEASURES_RANGE) for node in graph):
        return False
    factors = (
        node.inputs[1].node.tensor
        for node in graph
        if has(node.op, Trait.QUANTIZED_PRODUCT) and len(node.inputs) > 1
    )
    return sum(tensor.size or 0 for tensor in factors if tensor is not None) > _MANY_WEIGHTS


# `python -m benchmarks published_codes`: fed with noise, engines are up to 4.7 % off the interpreter on ten
# published networks of eight bits. Deeper ones have room for twice that.
CODES_TOLERANCE = 0.1
"""How far answers in codes of eight bits may be off, of the largest: their roundings add up."""


def _expected(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST) + (name == "reference"), name)


def fastest(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array], threads: int
) -> tuple[EngineChoice, Compiled]:
    """The engine that is the fastest for these inputs, and the graph ready to run on it.

    Raises:
        ThinflowError: no engine can run it; what the last one, the reference, said.
    """
    tried, left_out = usable_engines(), dict[str, str]()
    weights = sum(node.tensor.size_bytes for node in graph if node.tensor is not None)
    if weights > _MOST_COMPILED_BYTES and _COMPILED in tried:
        tried.remove(_COMPILED)
        left_out[_COMPILED] = f"was not tried: {weights >> 20} MB of weights take a compiler minutes"
    needed = ancestors([v.node for v in outputs], stop=frozenset(v.node for v in inputs))
    return choose(
        tried,
        lambda name: find(name).compile(graph, inputs, outputs, threads=threads),
        lambda compiled: compiled.run(arrays),
        tolerance=lambda judge: tolerance_of(graph, needed),
        is_random=any(has(node.op, Trait.RANDOM) for node in needed),
        left_out=left_out,
        threads=threads,
    )


def tolerance_of(graph: Graph, nodes: Iterable[Node], *, has_codes: bool = False) -> float:
    """How far answers of some nodes of a graph may be off, of the largest value.

    Args:
        has_codes: whether the graph is read from a file of eight bits.
    """
    # Roundings of eight bits add up, and no two runtimes round in the same places.
    if has_codes or any(has(node.op, Trait.QUANTIZED | Trait.FAKE_QUANT) for node in nodes):
        return CODES_TOLERANCE
    return usual_tolerance(graph)[0]


_EFFECTS = (
    Trait.ASSIGN | Trait.ENQUEUE | Trait.DEQUEUE | Trait.DEQUEUE_MANY | Trait.DEQUEUE_UP_TO | Trait.PRINT
)


def why_unmeasurable(graph: Graph, outputs: Sequence[Value]) -> str:
    """Why a graph cannot be run a few times to see how long it takes; "" if it can."""
    # Of functions all: which of their nodes run may be decided by data.
    called = [n for function in graph.functions.values() for n in function.graph]
    wanted = ancestors([v.node for v in outputs])
    node = next((n for n in (*wanted, *called) if has(n.op, _EFFECTS)), None)
    return "" if node is None else f"a run leaves something behind ({node.where})"


# --- what this process knows already ----------------------------------------------------------------------

# Weak: a graph that nobody has any more takes what is known of it along.
_BY_GRAPH: WeakKeyDictionary[Graph, dict[str, EngineChoice]] = WeakKeyDictionary()
_BY_FILE: dict[tuple[str, int, int, str], EngineChoice] = {}


class Known:
    """What this process has found out about one model.

    Args:
        graph: that the user gave; or else
        path: the file or folder that it is in.
    """

    def __init__(self, graph: Graph | None, path: str = "") -> None:
        self._graph, self._path = graph, path

    def find(self, key: str) -> EngineChoice | None:
        """The choice for what runs alike; None if there was none yet."""
        if self._graph is not None:
            return _BY_GRAPH.get(self._graph, {}).get(key)
        file = self._file(key)
        return None if file is None else _BY_FILE.get(file)

    def note(self, key: str, choice: EngineChoice) -> None:
        """Keep a choice for the time that this process lives."""
        if self._graph is not None:
            _BY_GRAPH.setdefault(self._graph, {})[key] = choice
        elif (file := self._file(key)) is not None:
            _BY_FILE[file] = choice

    def _file(self, key: str) -> tuple[str, int, int, str] | None:
        """A file that was written anew is another one."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return os.path.abspath(self._path), found.st_mtime_ns, found.st_size, key


def key_of_file(feeds: Mapping[str, Array], fetches: Sequence[str], threads: int) -> str:
    """As `key_of`, for a file, whose content is not in it."""
    run = [sorted((name, str(a.dtype), list(a.shape)) for name, a in feeds.items()), list(fetches)]
    return json.dumps([_machine(threads), usable_engines(), run])


# --- the file ---------------------------------------------------------------------------------------------


def key_of(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array], threads: int
) -> str:
    """Equal for what runs alike: same nodes, sizes, threads, engines and versions, kind of machine.

    Reads no weights; O(nodes).
    """
    digest = hashlib.blake2b(digest_size=16)
    machine = _machine(threads)
    run = [[v.name for v in inputs], [v.name for v in outputs], [[str(a.dtype), *a.shape] for a in arrays]]
    # An engine that is installed later has to be tried, too.
    digest.update(json.dumps([machine, usable_engines(), run]).encode())
    for node in graph:
        if node.tensor is not None:
            # The numbers of weights do not change how long a kernel takes.
            about: object = [str(node.tensor.dtype), *node.tensor.shape]
        else:
            about = [[key, repr(attr_key(attr))] for key, attr in sorted(node.attrs.items())]
        digest.update(json.dumps([node.name, node.op, [v.name for v in node.inputs], about]).encode())
    return digest.hexdigest()


def _machine(threads: int) -> list[object]:
    return [platform.machine(), platform.processor(), os.cpu_count(), threads, _versions()]


def _versions() -> dict[str, str]:
    """Versions of everything that decides how fast an engine is."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"thinflow": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def remembered(path: str | os.PathLike[str], key: str) -> str | None:
    """The engine a file has for a key; None if it has none that can be used here, or cannot be read.

    Raises:
        FormatError: the path leads to what cannot be opened.
    """
    name = (_read(path) or {}).get(key)
    return name if name is not None and usable_engines([name]) else None


def remember(path: str | os.PathLike[str], key: str, engine: str) -> None:
    """Add an engine to the file, which is made if it is not there.

    A damaged file of choices is made anew. A file that is something else stays as it is, and nothing is kept.

    Raises:
        FormatError, WriteError: the file cannot be opened, or written.
    """
    from thinflow.formats.files import write_file

    known = _read(path)
    if known is None:
        logger.warning("%s: this is not a file of engine choices; nothing is remembered", os.fspath(path))
        return
    data = {"engines": {**known, key: engine}}
    write_file(path, [(json.dumps(data, indent=2) + "\n").encode()])


def _read(path: str | os.PathLike[str]) -> Mapping[str, str] | None:
    """Content of a file of choices, nothing if it is damaged; None if it never was such a file."""
    try:
        with open(path, "rb") as file:
            # One byte more than allowed shows that it is too long, without reading all of what may be
            # anything.
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FormatError(error.strerror or str(error), os.fspath(path), hint="check the path") from error
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        data = None
    known = data.get("engines") if isinstance(data, dict) else None
    if isinstance(known, dict) and len(content) <= MOST_BYTES:
        return {k: v for k, v in known.items() if isinstance(v, str)}
    # A file of choices that was cut while it was written still begins with the brace and this key, or a part
    # of it; nothing else is ever written over.
    is_ours = b'"engines"'.startswith(content.lstrip()[1:].lstrip()[:9]) and content.lstrip()[:1] in b"{"
    return {} if is_ours else None
