"""Which engine is fastest for a graph: tried, and remembered in a file if wanted."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow import __version__
from thinflow.engines import find, names
from thinflow.engines.base import Compiled
from thinflow.errors import EngineUnavailable, FormatError, ThinflowError

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.graph import Graph, Value

    Array = np.ndarray[Any, Any]

RUNS = 5
SECONDS = 0.5
"""An engine is timed until it has had so many runs, or so much time."""
_HOPELESS = 5.0
"""An engine whose first run takes so many times the best one's median gets no second chance."""
_FIRST = ("litert", "onnxruntime")


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
    for name in usable_engines():
        try:
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
    if best is not None and first > _HOPELESS * best and first > SECONDS / RUNS:
        return first
    found: list[float] = []
    while len(found) < RUNS and (not found or sum(found) < SECONDS):
        found.append(_seconds(compiled, arrays))
    return sorted(found)[len(found) // 2]


def _seconds(compiled: Compiled, arrays: Sequence[Array]) -> float:
    begin = time.perf_counter()
    compiled.run(arrays)
    return time.perf_counter() - begin


# --- the file ---------------------------------------------------------------------------------------------


def key_of(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array], threads: int
) -> str:
    """Equal for what runs alike: same nodes, sizes, threads, engines, kind of machine. Reads no weights."""
    digest = hashlib.blake2b(digest_size=16)
    machine = [platform.machine(), platform.processor(), os.cpu_count(), threads, __version__]
    run = [[v.name for v in inputs], [v.name for v in outputs], [[str(a.dtype), *a.shape] for a in arrays]]
    digest.update(json.dumps([machine, usable_engines(), run]).encode())
    for node in graph:
        shape = list(node.tensor.shape) if node.tensor is not None else None
        digest.update(json.dumps([node.name, node.op, [v.name for v in node.inputs], shape]).encode())
    return digest.hexdigest()


def remembered(path: str | os.PathLike[str], key: str) -> str | None:
    """The engine a file has for a key; None if it has none that can be used here.

    Raises:
        FormatError: this is no such file.
    """
    name = _read(path).get(key)
    return name if name is not None and usable_engines([name]) else None


def remember(path: str | os.PathLike[str], key: str, engine: str) -> None:
    """Add an engine to the file, which is made if it is not there.

    Raises:
        FormatError, WriteError: the file cannot be read, or written.
    """
    from thinflow.formats._files import write_file

    known = {**_read(path), key: engine}
    write_file(path, [(json.dumps({"engines": known}, indent=2) + "\n").encode()])


def _read(path: str | os.PathLike[str]) -> Mapping[str, str]:
    try:
        data = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FormatError(error.strerror or str(error), os.fspath(path), hint="check the path") from error
    except ValueError:
        data = None
    known = data.get("engines") if isinstance(data, dict) else None
    if not isinstance(known, dict) or not all(isinstance(v, str) for v in known.values()):
        raise FormatError(
            "this is not a file of engine choices", os.fspath(path), hint="name another, or delete it"
        )
    return known
