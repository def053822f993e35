"""Autotuning: the fastest engine for a graph, measured, and remembered in a file if wanted."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow._version import __version__
from thinflow.engines import find, names
from thinflow.engines.base import Compiled
from thinflow.errors import EngineUnavailable, FormatError, ThinflowError
from thinflow.ir.attrs import attr_key
from thinflow.ops.traits import Trait, has

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Value
    from thinflow.typing import Array

logger = logging.getLogger(__name__)

RUNS = 5
SECONDS = 0.5
"""An engine is timed until it has had so many runs, or so much time."""
_HOPELESS = 5.0
"""An engine whose first run takes so many times the best one's median gets no second chance."""
_FIRST = ("litert", "onnxruntime", "openvino")
_ASKED_FOR = frozenset({"c"})
"""Engines that nobody gets who does not name them: to compile takes seconds, and a compiler."""
MOST_BYTES = 16 << 20
"""Of a file of choices."""
_MANY_WEIGHTS = 100_000
"""Fewer are multiplied fast enough by any engine."""
_PACKAGES = ("ai-edge-litert", "onnxruntime", "openvino", "numpy")


def usable_engines(candidates: Sequence[str] | None = None) -> list[str]:
    """The engines that can be used here, those that tend to be fast first."""
    found = []
    for name in candidates if candidates is not None else sorted(set(names()) - _ASKED_FOR, key=_expected):
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


def _expected(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST) + (name == "reference"), name)


def fastest(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array], threads: int
) -> tuple[str, Compiled]:
    """The engine with the least median time for these inputs, and the graph ready to run on it.

    Raises:
        ThinflowError: no engine can run it; what the last one, the reference, said.
    """
    best: tuple[float, str, Compiled] | None = None
    problem: ThinflowError | None = None
    # Those that tend to be fast come first, so that a slow one is given up after a single run. The reference
    # comes last: whatever it says of a graph that nothing runs is the most precise.
    for name in usable_engines():
        try:
            # Making it ready is not timed: it happens once, however often the graph runs.
            compiled = find(name).compile(graph, inputs, outputs, threads=threads)
            median = _median_seconds(compiled, arrays, best[0] if best else None)
        except ThinflowError as error:
            problem = error
            continue
        if best is None or median < best[0]:
            best = median, name, compiled
    if best is None:
        assert problem is not None, "the reference is always tried"
        raise problem
    return best[1], best[2]


def _median_seconds(compiled: Compiled, arrays: Sequence[Array], best: float | None) -> float:
    first = _seconds(compiled, arrays)  # prepares what is prepared late; counts only if it says enough
    # Only if it is long in itself: an engine that prepares late may be slow once and quick afterwards.
    if best is not None and first > _HOPELESS * best and first > SECONDS / RUNS:
        return first
    found: list[float] = []
    while len(found) < RUNS and (not found or sum(found) < SECONDS):
        found.append(_seconds(compiled, arrays))
    # The median: a run that something disturbs does not count.
    return sorted(found)[len(found) // 2]


def _seconds(compiled: Compiled, arrays: Sequence[Array]) -> float:
    begin = time.perf_counter()
    compiled.run(arrays)
    return time.perf_counter() - begin


# --- the file ---------------------------------------------------------------------------------------------


def key_of(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array], threads: int
) -> str:
    """Equal for what runs alike: same nodes, sizes, threads, engines and versions, kind of machine.

    Reads no weights; O(nodes).
    """
    digest = hashlib.blake2b(digest_size=16)
    machine = [platform.machine(), platform.processor(), os.cpu_count(), threads, _versions()]
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
