"""From a graph that fails to the smallest one that does."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.api.files import save
from thinflow.errors import FeedError, ParameterError
from thinflow.load.graphs import Source, load
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.compare.reducing.properties import Property
    from thinflow.compare.reducing.search import Reduction
    from thinflow.typing import Feed


def reduce(
    source: Source,
    *,
    transforms: str | None = None,
    engine: str | None = None,
    command: str | None = None,
    feeds: Feed | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tolerance: float | None = None,
    timeout: float = 60.0,
    trials: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Reduction:
    """The smallest graph found that still fails; exactly one of `transforms`, `engine`, `command` says how.

    Graphs are tried in a child process, so that a crash or a hang is just another way of failing.

    Args:
        source: path or Graph.
        transforms: a transform string that fails, or changes what the graph computes.
        engine: one that fails, or disagrees with the reference.
        command: a program that ends with another code than 0; `{}` stands for the .pb file, `{feeds}` for an
            .npz file with the inputs.
        feeds: input name -> array; made up if None.
        inputs, outputs, shapes: as for `load`.
        tolerance: relative difference from which numbers are wrong; default: what the transforms promise, or
            1e-3 for an engine.
        timeout: seconds for one trial.
        trials: after so many the search stops with what it has.
        seed: for made-up feeds.
        progress: called with (done, total, label).

    Raises:
        ParameterError: the graph does not fail; or not exactly one way of failing was given.
    """
    from thinflow.compare.reducing.search import Search, reduce_graph

    graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes)
    what = _property(transforms, engine, command, tolerance)
    search = Search(what, _positive(timeout, "timeout"), trials, progress=progress)
    return reduce_graph(graph, _feeds(graph, feeds, seed), search)


def failure(source: Source, **options: Any) -> str:
    """How a graph fails, "" if it does not. Options: as for `reduce`."""
    from thinflow.compare.reducing.search import Search, start_of

    names: dict[str, Any] = {k: options.get(k) for k in ("inputs", "outputs", "shapes")}
    graph = load(source, **names)
    kinds = [options.get(k) for k in ("transforms", "engine", "command", "tolerance")]
    search = Search(_property(*kinds), _positive(options.get("timeout", 60.0), "timeout"))
    return search.outcome(start_of(graph, _feeds(graph, options.get("feeds"), options.get("seed", 0))))


def save_reduction(found: Reduction, path: str | os.PathLike[str]) -> str:
    """Write the graph, and its feeds beside it as .npz; the command that shows the failure."""
    from thinflow.api.files import write_arrays

    target = Path(path)
    if target.suffix not in {".pb", ".pbtxt"}:
        raise ParameterError(f"a reduced graph cannot be written as '{target.name}'", hint="give a .pb file")
    save(found.graph, target)
    ends = ["--outputs", ",".join(v.name for v in found.graph.outputs)]
    if found.graph.inputs:
        ends = ["--inputs", ",".join(v.name for v in found.graph.inputs), *ends]
    if found.feeds:
        arrays = target.with_suffix(".npz")
        write_arrays(arrays, found.feeds)
        ends += ["--feed", str(arrays)]
    words = ["thinflow", "reduce", str(target), "--check", *found.what.arguments(), *ends]
    # Quoted for a shell, so that the line can be pasted.
    return shlex.join(words)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of an .npz file by name.

    Raises:
        FeedError: there is no such file, or it holds something else.
    """
    import zipfile

    import numpy as np

    try:
        # Pickles in foreign files could run anything.
        with np.load(path, allow_pickle=False) as file:
            # np.load gives a bare array for .npy.
            if not hasattr(file, "files"):
                raise FeedError("one array without a name", os.fspath(path), "write it with numpy.savez")
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, FeedError):
            raise
        problem = error.strerror if isinstance(error, OSError) and error.strerror else "not an .npz file"
        raise FeedError(problem, os.fspath(path), "write it with numpy.savez: one array per input") from error


def _property(
    transforms: str | None, engine: str | None, command: str | None, tolerance: float | None
) -> Property:
    from thinflow.compare.reducing.properties import CommandFails, EngineDisagrees, TransformsFail
    from thinflow.compare.verify import require_tolerance
    from thinflow.transforms import resolve

    if sum(x is not None for x in (transforms, engine, command)) != 1:
        raise ParameterError(
            "what fails must be said in exactly one way", hint="give one of transforms, engine or command"
        )
    if tolerance is not None:
        require_tolerance(tolerance)
    if transforms is not None:
        # A typing mistake fails here and not as a "failure" of the graph.
        resolve(transforms)
        return TransformsFail(transforms, resolve, tolerance)
    if engine is not None:
        return EngineDisagrees(engine, tolerance)
    return CommandFails(command or "")


def _feeds(graph: Any, feeds: Mapping[str, Any] | None, seed: int) -> dict[str, Any]:
    from thinflow.synthetic import synthetic_feeds

    if feeds is not None:
        return dict(feeds)
    return {v.name: x for v, x in next(iter(synthetic_feeds(graph.inputs, 1, seed))).items()}


def _positive(number: float, what: str) -> float:
    # Written so that NaN is refused, too.
    if not number > 0:
        raise ParameterError(f"a {what} of {number} is not possible", hint="give more than 0")
    return number
