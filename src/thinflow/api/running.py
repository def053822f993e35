"""Running, measuring and scoring a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from thinflow.errors import ParameterError
from thinflow.load.graphs import Source, load, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.bench.inputs import Feeds, FeedsFor
    from thinflow.bench.profile_text import RowProfile
    from thinflow.bench.report import BenchmarkReport
    from thinflow.device.base import Devices
    from thinflow.engines.session import Session
    from thinflow.optimize.evaluation.report import Evaluation, Evaluations
    from thinflow.quantize.sample_files import Scaling
    from thinflow.typing import Array, Feed, FilePath, Indexed, Samples


def run(
    source: Source,
    feeds: Feed,
    fetches: Sequence[str] | None = None,
    *,
    engine: str = "auto",
    threads: int = 1,
    inputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    measure: bool = False,
    cache: FilePath | None = None,
    inter_op_threads: int = 1,
    max_iterations: int | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> dict[str, Array]:
    """Run a model once: fetch name -> array. For repeated runs keep a `Session`.

    Args:
        source: path or Graph; a .tflite or .onnx file is run as it is.
        feeds: input name -> array, or anything `numpy.asarray` takes.
        fetches: names to compute; default the model's outputs.
        engine: "auto", "litert", "onnxruntime", "openvino" or "reference"; see `Session`.
        threads: how many the engine may use.
        inputs, shapes: as for `load`; a .tflite or .onnx file has its own.
        measure, cache, inter_op_threads, max_iterations: as for `Session`.
        tags, signature, checkpoint: as for `load`; a .tflite file runs the signature.

    Raises:
        GraphError: an unknown name; the closest is offered.
        FeedError: a feed is missing, or has the wrong type or shape.
        EngineUnavailable: the engine is not installed, or does not run such files.
    """
    session = open_session(
        source,
        inputs=inputs,
        outputs=fetches,
        shapes=shapes,
        tags=tags,
        signature=signature,
        checkpoint=checkpoint,
        engine=engine,
        threads=threads,
        measure=measure,
        cache=cache,
        inter_op_threads=inter_op_threads,
        max_iterations=max_iterations,
    )
    names = list(fetches) if fetches is not None else list(session.outputs)
    # In the order and under the names that were asked for, which need not be those of the engine.
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
    state: str = "auto",
    **options: Any,
) -> Session:
    """A `Session` on a path or Graph, with its inputs and outputs named, or those of the file.

    Args:
        source: path or Graph.
        inputs, outputs, shapes: as for `load`; a .tflite or .onnx file in its own runtime has its own inputs
            and shapes.
        tags, signature, checkpoint: as for `load`; a .tflite file runs the signature.
        state: what becomes of variables that runs change; as for `load`, but kept if that is possible.
        options: as for `Session`.

    Raises:
        ParameterError: names or shapes that a file cannot be given.
    """
    from thinflow.engines._files import engine_of, is_file
    from thinflow.engines.session import Session

    is_lifted = options.get("engine", "auto") not in ("auto", engine_of(source))
    if not is_file(source) or (is_lifted and (inputs is not None or shapes)):
        own = opening(tags, signature, checkpoint)
        graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes, state=state, **own)
        return Session(graph, **options)
    if inputs is not None or shapes:
        if inputs is not None:
            raise ParameterError(
                "this file has inputs of its own, and its runtime feeds no others",
                hint="another engine does: engine='reference'",
            )
        raise ParameterError(
            "this file has shapes of its own, and its runtime goes by what it is fed",
            hint="feed arrays of the sizes you want",
        )
    return Session(source, signature=signature, **options)


def benchmark(
    source: Source | Sequence[Source] | Mapping[str, Source],
    *,
    calibration: Samples | None = None,
    scaling: Scaling | None = None,
    samples: int | None = None,
    threads: int | Sequence[int] = (1,),
    engines: str | Sequence[str] = ("auto",),
    feeds: Feeds | FeedsFor | None = None,
    runs: int | None = None,
    seconds: float = 10.0,
    warmup: int = 3,
    progress: Progress | None = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    memory: bool = True,
    timeout: float | None = None,
    inter_op_threads: int = 1,
    peaks: bool = True,
    device: Devices | None = None,
    soak: float | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> BenchmarkReport:
    """Latency and peak memory of one or several models, measured in turns so that all see the same machine.

    Ctrl-C ends the measurement, and the report holds what was measured so far.

        report = thinflow.benchmark(["a.tflite", "b.tflite"], threads=[1, 4], seconds=30)
        print(report.verdict)
        report.rows[0].median_ms

    Args:
        source: the path of a model of any kind or a Graph, several of them, or a mapping from name to one.
        calibration: samples, as for `quantize`; runs take them in turns, the i-th runs of all models the same
            one. Without them, and without `feeds`, inputs are made up.
        scaling: of pictures among them, for float inputs.
        samples: how many of them, spread evenly over classes and files; default 32, or what 64 MB hold.
        threads: numbers of threads to try, which share the work of each node.
        engines: engines to try; "auto" is the one a file belongs to, LiteRT for graphs.
        feeds: input name -> array, or arrays in the order of the inputs; or a function that gives them by a
            model's path and its inputs.
        runs: how often each is run; default until its median is known to 2 %.
        seconds: limit for the timed part, all models together.
        warmup: runs of each before measuring.
        progress: called with (done, total, label).
        shapes: input name -> shape to assume.
        inputs, outputs: names in the graphs; default: declared, else guessed.
        memory: also measure peak memory, in one new process per model and engine.
        timeout: seconds for the first run of each model, in a child process; default 300. A model that
            crashes its engine there, or takes longer, is left out, and the report says why.
        inter_op_threads: how many nodes ONNX Runtime may run side by side; the others run one by one.
        peaks: also measure what the machine can do at most, for the share of it that each model reaches.
        device: another machine to run on, or several in one table: "ssh:[user@]host[:port]", "adb[:serial]",
            "local" for this one, a name from thinflow.toml, or what `open_device` gives. LiteRT runs there;
            what is no .tflite file becomes one.
        soak: seconds to run for, to compare the last minute with the first; without a device on this machine.
        tags, signature, checkpoint: as for `load`, for models that keep their variables outside the graph.

    Returns:
        The report: `rows`, each with the median, the spread and the share of the machine of one model on one
        engine and number of threads; `skipped`, with reasons; `memory` and `verdict`.

    Raises:
        FormatError: a file is not a model.
        EngineUnavailable: no model could be run on any engine.
        ParameterError: senseless limits.
    """
    from thinflow.bench.latency import benchmark as run_benchmark

    fed = {"feeds": feeds} | _feeding(calibration, scaling, samples, feeds)
    if device is not None or soak is not None:
        _require_litert(engines, inter_op_threads)
        from thinflow.device.benchmark import benchmark_on
        from thinflow.device.finding import find_devices

        return benchmark_on(
            find_devices("local" if device is None else device, patience=timeout),
            source,
            threads=[threads] if isinstance(threads, int) else threads,
            runs=runs,
            seconds=seconds,
            warmup=warmup,
            soak=soak,
            memory=memory,
            progress=progress,
            shapes=shapes,
            inputs=inputs,
            outputs=outputs,
            **fed,
            **opening(tags, signature, checkpoint),
        )
    return run_benchmark(
        source,
        threads=threads,
        engines=engines,
        runs=runs,
        seconds=seconds,
        warmup=warmup,
        progress=progress,
        shapes=shapes,
        inputs=inputs,
        outputs=outputs,
        memory=memory,
        timeout=timeout,
        inter_op_threads=inter_op_threads,
        peaks=peaks,
        **fed,
        **opening(tags, signature, checkpoint),
    )


def _require_litert(engines: str | Sequence[str], inter_op_threads: int) -> None:
    """Refuse what a device cannot be asked for.

    Raises:
        ParameterError: another engine, or nodes side by side.
    """
    # "auto" is LiteRT for whatever goes to a device.
    named = [engines] if isinstance(engines, str) else list(engines)
    other = next((name for name in named if name not in ("auto", "litert")), None)
    if other is not None:
        raise ParameterError(f"devices run LiteRT, and no '{other}'", hint="leave the engine out")
    if inter_op_threads != 1:
        raise ParameterError("LiteRT runs node by node", hint="leave the inter-op threads out")


def _feeding(calibration: Any, scaling: Any, samples: int | None, feeds: Any) -> dict[str, Any]:
    """The option of `benchmark` that says what models are fed.

    Raises:
        ParameterError: both are given, or a number of samples without any.
    """
    from thinflow.optimize.fed_samples import SampleFeeds

    if calibration is None:
        if samples is not None:
            raise ParameterError(
                "there are no samples to take some of", hint="give them: calibration=SAMPLES"
            )
        return {}
    if feeds is not None:
        raise ParameterError("both feeds and calibration samples are given", hint="give one of them")
    return {"feeds": SampleFeeds(calibration, scaling, samples)}


def feeds_of_files(paths: Mapping[str, str]) -> Any:
    """What `benchmark` takes as `feeds`, from one file for each input; see `read_feeds`."""
    from thinflow.optimize.fed_samples import FileFeeds

    return FileFeeds(paths)


def benchmark_table(report: BenchmarkReport, width: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headers and cells of a benchmark's table; names are shortened to fit a width, if one is given."""
    from thinflow.bench.rows import readable

    return readable(report, width)


def benchmark_figures(report: BenchmarkReport) -> tuple[list[str], list[list[str]]]:
    """Headers and cells with every figure of a benchmark, a row for each configuration."""
    from thinflow.bench.rows import figures

    return figures(report)


def profile_rows(report: BenchmarkReport, **options: Any) -> list[RowProfile]:
    """What each node takes, for every row of a benchmark of files.

    Args:
        options: as for `benchmark`, how to open the models and what to feed them, and on which devices.
    """
    from thinflow.bench.profile_text import profile_rows as profile_all

    calibration, scaling, samples = (options.pop(n, None) for n in ("calibration", "scaling", "samples"))
    feeding = _feeding(calibration, scaling, samples, options.get("feeds"))
    if report.devices:
        from thinflow.device.finding import find_devices
        from thinflow.device.profiling import profile_rows as profile_there

        return profile_there(report, find_devices(options.pop("device")), **(options | feeding))
    return profile_all(report, **(options | feeding))


def measured_reasons(report: BenchmarkReport, profiles: Sequence[RowProfile]) -> list[str]:
    """Why eight-bit models of a benchmark are slower than float ones, where `profile_rows` shows it."""
    from thinflow.bench.profile_text import measured_reasons as find_reasons

    return find_reasons(report, profiles)


@overload
def evaluate(  # type: ignore[overload-overlap]
    source: Source,
    data: Samples | Indexed,
    *,
    labels: FilePath | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
    engine: str | None = None,
    strict: bool = False,
    store: FilePath | None = None,
    cluster: object = None,
    device: Devices | None = None,
    shard_samples: int = 1024,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Evaluation: ...
@overload
def evaluate(
    source: Sequence[Source],
    data: Samples | Indexed,
    *,
    labels: FilePath | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
    engine: str | None = None,
    strict: bool = False,
    store: FilePath | None = None,
    cluster: object = None,
    device: Devices | None = None,
    shard_samples: int = 1024,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Evaluations: ...
def evaluate(
    source: Source | Sequence[Source],
    data: Samples | Indexed,
    *,
    labels: FilePath | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
    engine: str | None = None,
    strict: bool = False,
    store: FilePath | None = None,
    cluster: object = None,
    device: Devices | None = None,
    shard_samples: int = 1024,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> Evaluation | Evaluations:
    """How good a model is on labelled samples; or several, side by side on the same ones.

    A graph runs in the interpreter, a .tflite or .onnx file in its engine. Samples are read shard by shard:
    memory does not depend on their number.

    Args:
        source: path or Graph; a list of them compares each with the first.
        data: samples with labels: a folder of files `LABEL_...` or of a folder for each class; a CSV of paths
            or numbers; .npy, .npz with an array `labels`; TFRecord, Parquet, WebDataset tars, by path,
            pattern or URL (s3://, gs://, az://, hf://, https://); arrays, an iterable, or anything with
            `__len__` and `__getitem__` whose items are dicts, or tuples with the label behind the inputs.
        labels: class names in the order of the outputs, or a file with one per line; default: those in the
            model's file, else a labels file beside it.
        scaling: how pictures become numbers; default: as each model's file says.
        fields: input, or "label" -> field of a sample, where names do not tell.
        metrics: what to measure besides: "map", "wer(blank=0)", "top(k=3)", or one of your own,
            "FILE.py:NAME".
        engine: that runs graphs and files; default: see above.
        strict: raise at the first sample or shard that cannot be read; else it is left out, and told.
        store: folder or URL that keeps results of shards: a run that was stopped goes on from there.
        cluster: "local", "local:4", "tcp://HOST:PORT" or a client of Dask, to run shards on workers.
        device: where the models run, in LiteRT, while samples are read and answers judged here:
            "ssh:[user@]host[:port]", "adb[:serial]", a name from thinflow.toml, or what `open_device` gives.
            What is no .tflite file becomes one. With a list of devices and a list of models each model runs
            on each, and all are compared with the first model on the first device.
        shard_samples: samples of a shard, where the source leaves the choice.
        inputs, outputs, shapes, tags, signature, checkpoint: as for `load`; a .tflite or .onnx file has its
            own.
        progress: called with (done, total, label).

    Returns:
        How many `samples` there were and how many answers were `correct`; `accuracy` is in percent, `figures`
        are those of the metrics, `per_class` is a table and `wrong()` walks over what was answered wrongly.
        Of several models one of these each, with what parts it from the first: `lost`, `gained`, `chance` by
        McNemar's exact test, `sqnr_db`.

    Raises:
        ParameterError: the samples have no labels, and no metric was asked for that needs none.
        FeedError: they do not fit the inputs, or none could be read.
        EngineUnavailable: an engine, the cluster or the device cannot be used; DeviceLost: it stopped
            answering, and the store has what was judged before.
        WriteError: results cannot be kept in the store.
    """
    from thinflow.optimize.evaluation.evaluate import evaluate as run_evaluate

    names: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "shapes": shapes}
    return run_evaluate(
        source,
        data,
        labels=labels,
        scaling=scaling,
        fields=fields,
        metrics=metrics,
        engine=engine,
        strict=strict,
        store=store,
        cluster=cluster,
        device=device,
        shard_samples=shard_samples,
        progress=progress,
        **names,
        **opening(tags, signature, checkpoint),
    )


def read_feeds(session: Session, paths: Mapping[str, str]) -> dict[str, Any]:
    """One feed from files, one per input name: .npy, .npz (first member), .txt numbers, a picture, scaled as
    the model's file says; for string inputs the file's bytes.

    Raises:
        FeedError: a file cannot be read, or does not fit the input.
        GraphError: there is no such input.
    """
    from thinflow.optimize.stated_usage import pictures_of
    from thinflow.quantize.sample_files import read_input

    scaling = pictures_of(session, paths)[0]
    return {n: read_input(Path(p), n, session.spec(n), scaling=scaling) for n, p in paths.items()}


def picture_note(session: Session, paths: Mapping[str, str]) -> str:
    """What was taken from the model's file to feed pictures; "" for nothing. See `read_feeds`."""
    from thinflow.optimize.stated_usage import pictures_of

    return pictures_of(session, paths)[1]


def synthetic_feed(session: Session, seed: int = 0, shapes: Shapes | None = None) -> dict[str, Any]:
    """One made-up feed for the inputs of a session, by name."""
    from thinflow.compare.side_by_side import session_inputs
    from thinflow.synthetic import synthetic_feeds

    made = next(synthetic_feeds(session_inputs(session, shapes), 1, seed))
    return dict(zip(session.inputs, made.values(), strict=True))


def run_synthetic(session: Session, fetches: Sequence[str], feed: Mapping[str, Any]) -> list[Any]:
    """What a session computes of a made-up feed.

    Raises:
        FeedError: sizes that the model leaves open, and that were made up too, do not fit.
    """
    from thinflow.compare.side_by_side import session_inputs
    from thinflow.synthetic import naming_open_sizes, open_sizes

    # A failure names the sizes that were made up, which the caller can give instead.
    with naming_open_sizes(open_sizes(session_inputs(session))):
        return session.run(fetches, feed)
