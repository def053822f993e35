"""Running, measuring and scoring a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.api._types import Shapes, Source
from thinflow.api.files import load
from thinflow.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np

    from thinflow.bench.classic_settings import Settings
    from thinflow.bench.profile_text import RowProfile
    from thinflow.bench.report import BenchmarkReport
    from thinflow.engines.session import Session


def run(
    source: Source,
    feeds: Mapping[str, Any],
    fetches: Sequence[str] | None = None,
    *,
    engine: str = "auto",
    threads: int = 1,
    **options: Any,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a model once: fetch name -> array. For repeated runs keep a `Session`.

    Args:
        source: path or Graph; a .tflite or .onnx file is run as it is.
        feeds: input name -> array.
        fetches: names to compute; default the model's outputs.
        engine, threads: as for `Session`.
        options: as for `open_session`.
    """
    session = open_session(source, outputs=fetches, engine=engine, threads=threads, **options)
    names = list(fetches) if fetches is not None else list(session.outputs)
    return dict(zip(names, session.run(names, feeds), strict=True))


def open_session(
    source: Source,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Session:
    """A `Session` on a path or Graph, with its inputs and outputs named, or those of the file.

    Args:
        source: path or Graph.
        inputs, outputs, shapes: as for `load`; a .tflite or .onnx file has its own inputs and shapes.
        tags, signature, checkpoint: as for `load`; a .tflite file runs the signature.
        options: as for `Session`.

    Raises:
        ParameterError: names or shapes that a file cannot be given.
    """
    from thinflow.engines._files import is_file
    from thinflow.engines.session import Session

    if not is_file(source):
        opening = {"tags": tags, "signature": signature, "checkpoint": checkpoint}
        graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes, **opening)
        return Session(graph, **options)
    if inputs is not None or shapes:
        what = "inputs" if inputs is not None else "shapes"
        raise ParameterError(
            f"this file has {what} of its own, and is run with them", hint="feed arrays of the sizes you want"
        )
    return Session(source, signature=signature, **options)


def benchmark(
    source: Source | Sequence[Source], *, calibration: Any = None, scaling: Any = None, **options: Any
) -> Any:
    """Latency of one or several models, interleaved. Options: see `thinflow.bench.latency.benchmark`.

    Args:
        source: paths or Graphs.
        calibration: samples, as for `quantize`; each model is run with the first of them. Without them, and
            without `feeds`, inputs are made up.
        scaling: of pictures among them, for float inputs.
    """
    from thinflow.bench.latency import benchmark as run_benchmark

    return run_benchmark(source, **(options | _feeding(calibration, scaling, options.get("feeds"))))


def _feeding(calibration: Any, scaling: Any, feeds: Any) -> dict[str, Any]:
    """The option of `benchmark` that says what models are fed.

    Raises:
        ParameterError: both are given.
    """
    if calibration is None:
        return {}
    if feeds is not None:
        raise ParameterError("both feeds and calibration samples are given", hint="give one of them")
    from thinflow.api.sample_feeds import SampleFeeds

    return {"feeds": SampleFeeds(calibration, scaling)}


def feeds_of_files(paths: Mapping[str, str]) -> Any:
    """What `benchmark` takes as `feeds`, from one file for each input; see `read_feeds`."""
    from thinflow.api.sample_feeds import FileFeeds

    return FileFeeds(paths)


def benchmark_table(report: BenchmarkReport, width: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headers and cells of a benchmark's table; names are shortened to fit a width, if one is given."""
    from thinflow.bench.tables import readable

    return readable(report, width)


def benchmark_figures(report: BenchmarkReport) -> tuple[list[str], list[list[str]]]:
    """Headers and cells with every figure of a benchmark, a row for each configuration."""
    from thinflow.bench.tables import figures

    return figures(report)


def profile_rows(report: BenchmarkReport, **options: Any) -> list[RowProfile]:
    """What each node takes, for every row of a benchmark of files.

    Args:
        options: as for `benchmark`, how to open the models and what to feed them.
    """
    from thinflow.bench.profile_text import profile_rows as profile_all

    feeding = _feeding(options.pop("calibration", None), options.pop("scaling", None), options.get("feeds"))
    return profile_all(report, **(options | feeding))


def measured_reasons(report: BenchmarkReport, profiles: Sequence[RowProfile]) -> list[str]:
    """Why eight-bit models of a benchmark are slower than float ones, where `profile_rows` shows it."""
    from thinflow.bench.reasons import measured_reasons as find_reasons

    return find_reasons(report, profiles)


def evaluate(source: Source, data: Any, **options: Any) -> Any:
    """Accuracy of a model on labelled data. Options: see `thinflow.optimizing.evaluating.evaluate`."""
    from thinflow.optimizing.evaluating import evaluate as run_evaluate

    return run_evaluate(source, data, **options)


def read_feeds(session: Session, paths: Mapping[str, str]) -> dict[str, Any]:
    """One feed from files, one per input name: .npy, .npz (first member), .txt numbers; for string inputs the
    file's bytes.

    Raises:
        FeedError: a file cannot be read, or does not fit the input.
        GraphError: there is no such input.
    """
    from thinflow.quantize.feeds import read_input

    return {name: read_input(Path(path), name, session.spec(name)) for name, path in paths.items()}


def made_up_feed(session: Session, seed: int = 0) -> dict[str, Any]:
    """One made-up feed for the inputs of a session, by name."""
    from thinflow.side_by_side import session_inputs
    from thinflow.synthetic import synthetic_feeds

    made = next(synthetic_feeds(session_inputs(session), 1, seed))
    return dict(zip(session.inputs, made.values(), strict=True))


def run_made_up(session: Session, fetches: Sequence[str], feed: Mapping[str, Any]) -> list[Any]:
    """What a session computes of a made-up feed.

    Raises:
        FeedError: sizes that the model leaves open, and that were made up too, do not fit.
    """
    from thinflow.side_by_side import session_inputs
    from thinflow.synthetic import naming_open_sizes, open_sizes

    with naming_open_sizes(open_sizes(session_inputs(session))):
        return session.run(fetches, feed)


def classic_settings(flags: Mapping[str, Any]) -> Settings:
    """What the flags of benchmark_model ask for.

    Raises:
        ParameterError: one cannot be read.
    """
    from thinflow.bench.classic_settings import read_settings

    return read_settings(flags)


def benchmark_as_before(settings: Settings, log: Callable[[str], None]) -> list[str]:
    """Measure as benchmark_model does; the lines of its report."""
    from thinflow.bench.classic_job import benchmark_model

    return benchmark_model(settings, log)
