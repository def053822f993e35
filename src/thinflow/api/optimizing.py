"""The main job and its smaller half, quantization."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, overload

from thinflow.errors import ParameterError
from thinflow.load.graphs import Source, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from thinflow.device.base import Devices
    from thinflow.load.layouts import Layouts
    from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
    from thinflow.optimize.report import GraphReport, OptimizeReport
    from thinflow.quantize.recipe import Recipe
    from thinflow.quantize.sample_files import Scaling
    from thinflow.typing import FilePath, Samples

    class _LiteRTOptions(TypedDict, total=False):
        """Options of `quantize` for every format."""

        scheme: str | None
        recipe: Recipe | FilePath | None
        effort: str | None
        samples: int | None
        scaling: Scaling | None
        inputs: Sequence[str] | None
        outputs: Sequence[str] | None
        shapes: Shapes | None
        strict: bool
        cluster: object
        store: FilePath | None
        progress: Progress | None
        tags: str | None
        signature: str | None
        checkpoint: FilePath | None
        input_layout: Layouts | None
        output_layout: Layouts | None

    class _OnnxOptions(_LiteRTOptions, total=False):
        """The same with those for ONNX models."""

        activations: str | None
        reduce_range: bool | None
        opset: int | None


Job = TypeVar("Job", bound=Callable[..., Any])


def _in_one_thread(job: Job) -> Job:
    """A job whose matrix products keep to one thread.

    The interpreter's are small: further threads save it little, and on a machine that has other work to do
    each product waits for the slowest of them. Runtimes have threads of their own and are not concerned.
    """

    @functools.wraps(job)
    def limited(*given: Any, **options: Any) -> Any:
        from thinflow.engines._threads import blas

        with blas().limited(1):
            return job(*given, **options)

    return cast("Job", limited)


@_in_one_thread
def optimize(
    source: Source,
    out_dir: FilePath,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    calibration: Samples | None = None,
    test: Samples | None = None,
    labels: FilePath | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    samples: int | None = None,
    threads: Sequence[int] = (1, 2),
    max_drop: float | str | None = None,
    max_size: float | str | None = None,
    max_latency: float | str | None = None,
    max_ram: float | str | None = None,
    target: str | None = None,
    measure: bool = True,
    seconds: float = 4.0,
    device: Devices | None = None,
    verify: bool = True,
    scheme: str | None = None,
    recipe: Recipe | FilePath | None = None,
    effort: str | None = None,
    onnx: bool = False,
    engines: Sequence[str] | str | None = None,
    strict: bool = False,
    cluster: object = None,
    store: FilePath | None = None,
    progress: Progress | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str = "auto",
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
) -> OptimizeReport | GraphReport:
    """Make a model small and fast, prove it, measure it, and write what devices run.

    This is the main job. The graph is optimised in 32 bits, turned into a LiteRT model and into one in fewer
    bits; each is compared with the graph as it came, judged on samples and timed against the other. Into
    `out_dir` go STEM_fp32.pb, STEM_fp32.tflite, STEM_SCHEME.tflite, with `onnx` the same two as .onnx,
    report.json, report.md, report.html (a page to look at) and recipe.toml. A file that holds a part of the
    model has `_part` in its name.

        report = thinflow.optimize("model.pb", "out", calibration="photos/", labels="labels.txt")
        print(report.verdict)                    # int8 is 3.9x smaller, 2.1x faster; ...
        report.files["int8"]                     # out/model_int8.tflite

    Args:
        source: path of a model of any format, or a Graph, which is not changed.
        out_dir: folder for the results; made if missing. Files of the same names are replaced, each at once.
        inputs, outputs: names of values, with or without ":0"; default: what the model declares, else the
            best guess.
        shapes: input name -> shape, where the graph leaves sizes open.
        calibration: samples for eight-bit ranges: a folder, a .npz or .npy file, arrays, an iterable of
            feeds or a function that returns one. Without it inputs are made up, and the report says so.
        test: other samples to judge the models on, of the same kinds; default: the calibration samples.
        labels: class names in the order of the outputs, or a file with one a line; default: those in the
            model's file, else a labels file beside it.
        scaling: (pixel - mean) / std of pictures among the samples, for float inputs; default: as the model's
            file says, else 0 to 255.
        samples: use so many samples only, spread over classes and files; default: all, or 20 made-up ones.
        threads: numbers of threads to time the models with.
        max_drop, max_size, max_latency, max_ram: a budget: percentage points of accuracy, or without labels
            of equal answers, that fewer bits may cost (default: 1.5), and how large the file, how slow a run
            on this machine or the device, and how large the memory of activations may be. Numbers are points,
            bytes and milliseconds; or text with a unit: "0.5%", "100KB", "20ms". With any of them all schemes
            are tried, from the cheapest effort to `effort`, and the best that keeps the budget is made; the
            report's `ladder` has all, and `misses_budget` is true if none keeps it. Results are kept in
            `out_dir`/ladder, where a run that was ended goes on.
        target: a processor, as for `convert` to C. Size and memory of the budget are then flash and all RAM
            of the model's C on it, the stack included, and what C cannot say is no candidate.
        measure: whether to time the models.
        seconds: time for each pair of measurements.
        device: where the LiteRT models are timed, and what `max_latency` is about:
            "ssh:[user@]host[:port]", "adb[:serial]", a name from thinflow.toml, or what `open_device` gives.
            It is reached before any work begins. What is written is run there once and compared. Of several,
            what is decided by time is decided on the first; the files are timed and compared on all.
        verify: whether to run the graph before and after every transform and undo one that changed numbers.
        scheme: a key of `thinflow.quantize.recipe.SCHEMES`: int8 (default), int16x8, dynamic, float16,
            int8_weights or int4_weights; "auto": the best within a budget, which a scheme confines to itself.
        recipe: all that can be chosen about quantization, instead of `scheme`; or the file of one, such
            as the recipe.toml of another run, which is then repeated.
        effort: how much is tried to make the smaller models better, judged on samples held out: "none",
            "fast", "default" or "best"; default: "none" for a recipe of a file, else "default".
        onnx: also make both models for ONNX Runtime.
        engines: compare these on this machine, among "litert", "onnx" and "openvino": the models of each are
            made and timed in turns, with the first of `threads`, and what is the fastest is to be shipped, in
            fewer bits only if those cost no more than they may. The report's `race` tells of each.
        strict: refuse if a file could hold only a part of the model, or if the eight-bit model or another
            that was asked for cannot be made; nothing is written then.
        cluster: workers of Dask that look at the samples for ranges, and make what a budget chooses from:
            "local:4", "tcp://HOST:8786", or a client. Paths have to be those of all machines.
        store: a folder or URL that all of them reach, where a run that was stopped goes on.
        progress: called with (done, total, label) now and then.
        tags: which graph of a SavedModel, by its tags, with commas; default: the only one, or "serve".
        signature: which signature of it; default: the only one, or "serving_default".
        checkpoint: what leads to the variables of a graph that comes without them: prefix, index or folder.
        state: what becomes of variables that runs change: "keep", from call to call in the .tflite files;
            "freeze", as they were saved; "inputs", for the app to hand on; "auto": kept if LiteRT can.
        input_layout, output_layout: where channels lie in inputs and outputs, as for `load`; also those of
            samples.

    Returns:
        The report: `verdict` in a sentence, `files` by role, `sizes` in bytes, `float_quality` and
        `int8_quality` on the samples, `latency` as timed, `ledger` of the transforms. A `GraphReport` if no
        LiteRT model can be made in fewer bits, or at all: its `obstacle` says why, and `files` has the rest.

    Raises:
        FormatError: the file is not a model.
        GraphError: a name does not exist, or nothing can be made of the graph.
        FeedError: the samples do not fit the inputs.
        ParameterError: senseless choices, such as no threads or an unknown scheme.
        PartialModel: a file could hold only a part of the model, and `strict` forbids that.
        ThinflowError: with `strict`, what keeps one of the models from being made.
        ThinflowError: the model cannot be converted or written; nothing half-made is left.
        EngineUnavailable: the device cannot be used; DeviceLost: it was lost before all candidates of a
            budget were measured, of which the others are kept.
    """
    from thinflow.cluster.workers import workers_of
    from thinflow.optimize.job import optimize as run_job
    from thinflow.optimize.job_inputs import JobOptions, checked_folder, sole_writer
    from thinflow.optimize.on_device import reached

    places = () if device is None else reached(device, progress)
    threads = places[0].threads or threads if places else threads
    with workers_of(cluster, store) as workers, sole_writer(checked_folder(out_dir)):
        options = JobOptions(
            devices=places,
            inputs=inputs,
            outputs=outputs,
            shapes=shapes,
            calibration=calibration,
            test=test,
            labels=labels,
            scaling=scaling,
            samples=samples,
            threads=threads,
            max_drop=max_drop,
            max_size=max_size,
            max_latency=max_latency,
            max_ram=max_ram,
            target=target,
            measure=measure,
            seconds=seconds,
            verify=verify,
            scheme=scheme,
            recipe=recipe,
            effort=effort,
            onnx=onnx,
            engines=engines,
            strict=strict,
            progress=progress,
            workers=workers,
            state=state,
            opening=opening(tags, signature, checkpoint, input_layout, output_layout),
        )
        return run_job(source, out_dir, options)


def optimize_lines(report: Any) -> list[str]:
    """What `thinflow optimize` prints: the verdict first, the next command last."""
    lines: list[str] = report.lines()
    return lines


@overload
def quantize(
    source: Source,
    calibration: Samples | None = None,
    *,
    format: Literal["tflite"] = "tflite",
    **options: Unpack[_LiteRTOptions],
) -> QuantizedModel: ...


@overload
def quantize(
    source: Source,
    calibration: Samples | None = None,
    *,
    format: Literal["onnx"],
    **options: Unpack[_OnnxOptions],
) -> OnnxQuantizedModel: ...


@overload
def quantize(
    source: Source, calibration: Samples | None = None, *, format: str, **options: Unpack[_OnnxOptions]
) -> QuantizedModel | OnnxQuantizedModel: ...


@_in_one_thread
def quantize(
    source: Source,
    calibration: Samples | None = None,
    *,
    scheme: str | None = None,
    format: str = "tflite",
    recipe: Recipe | FilePath | None = None,
    effort: str | None = None,
    samples: int | None = None,
    scaling: Scaling | None = None,
    activations: str | None = None,
    reduce_range: bool | None = None,
    opset: int | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    strict: bool = False,
    cluster: object = None,
    store: FilePath | None = None,
    progress: Progress | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
) -> QuantizedModel | OnnxQuantizedModel:
    """A smaller model for LiteRT, or with format="onnx" for ONNX Runtime; its `save` writes it.

    `optimize` does the same, and judges and times the result besides.

        smaller = thinflow.quantize("model.pb", "photos/")
        smaller.save("model_int8.tflite")

    Args:
        source: path or Graph, which is not changed.
        calibration: samples for the ranges: a folder, a file, an array, a dict of arrays or an iterable of
            feeds; None makes inputs up. Schemes without ranges of activations look at one sample only, for
            sizes that the graph leaves open.
        scheme: a key of `thinflow.quantize.recipe.SCHEMES`; default "int8". For ONNX "int8" or "float16".
        format: "tflite" or "onnx".
        recipe: all that can be chosen, instead of `scheme`; or the file of one.
        effort: how much is tried to make it better, judged on samples held out: "none" nothing; "fast" what
            mends a model that would be wrecked; "default" also what often helps and makes nothing slower;
            "best" all that there is. Default: "none" for a recipe of a file. What was tried is in the
            result's `way`.
        samples: use so many samples only, spread over classes and files; default: all.
        scaling: (pixel - mean) / std of pictures among the samples, for float inputs; default: as the model's
            file says, else 0 to 255.
        activations: for ONNX, "uint8" (default) or "int8".
        reduce_range: for ONNX, weights in seven bits; False: all of eight, which overflow on x86 without
            VNNI. Default: eight, with scales such that nothing overflows.
        opset: for ONNX, version of its op set, 17 (default) to 21.
        inputs, outputs: names of values; default: what the model declares, else the best guess.
        shapes: input name -> shape, where the graph leaves sizes open.
        strict: refuse to make a part of the model.
        cluster: workers of Dask that look at the samples for ranges: "local:4", "tcp://HOST:8786", or a
            client; the ranges are those of one machine, bit for bit.
        store: a folder or URL that all of them reach, where a run that was stopped goes on.
        progress: called with (done, total, label).
        tags, signature, checkpoint: how to open the model, as for `load`.
        input_layout, output_layout: where channels lie in inputs and outputs, as for `load`; also those of
            samples.

    Returns:
        The model: `content` is the file's bytes, `warnings` are sentences, `coverage` tells how much of the
        graph it holds.

    Raises:
        PartialModel: only a part could be made, and `strict` forbids that.
        ParameterError: no such format, scheme, effort, type or opset; or an option of the one format with the
            other.
        FeedError: the samples do not fit the inputs.
        EngineUnavailable: no scheduler answers, or a worker has another version.
    """
    # Before anything heavy is imported.
    if format not in ("tflite", "onnx"):
        raise ParameterError(f"no smaller model can be made as '{format}'", hint="choose tflite or onnx")
    from thinflow.cluster.workers import workers_of
    from thinflow.optimize.quantize_job import QuantizeOptions, quantize_onnx
    from thinflow.optimize.quantize_job import quantize as quantize_litert

    ends = {"inputs": inputs, "outputs": outputs, "shapes": shapes}
    with workers_of(cluster, store) as workers:
        options = QuantizeOptions(
            calibration=calibration,
            scheme=scheme,
            recipe=recipe,
            effort=effort,
            samples=samples,
            scaling=scaling,
            activations=activations,
            reduce_range=reduce_range,
            opset=opset,
            strict=strict,
            progress=progress,
            workers=workers,
            names=ends | opening(tags, signature, checkpoint, input_layout, output_layout),
        )
        return quantize_onnx(source, options) if format == "onnx" else quantize_litert(source, options)


@_in_one_thread
def quantize_to_file(
    source: Source,
    path: str | os.PathLike[str],
    calibration: Any = None,
    *,
    cluster: object = None,
    store: FilePath | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write a smaller .tflite or .onnx; its size, its quality beside the graph, and warnings.

    Cluster and store: as for `quantize`. Options: those of `thinflow.optimize.quantize_job.QuantizeOptions`,
    those of C as for `convert`, and how to open the model.

    Raises:
        ParameterError: options of the one format with a file of the other.
    """
    from dataclasses import fields

    from thinflow.cluster.workers import workers_of
    from thinflow.optimize.c_options import COptions
    from thinflow.optimize.quantize_job import QuantizeOptions
    from thinflow.optimize.quantize_job import quantize_to_file as run_job

    of_c = COptions(**{f.name: options.pop(f.name) for f in fields(COptions) if f.name in options})
    of_c.require_c(path)
    # What is no option of quantization says how to open the model.
    own = {f.name for f in fields(QuantizeOptions)}
    names = {name: options.pop(name) for name in [*options] if name not in own}
    with workers_of(cluster, store) as workers:
        chosen = QuantizeOptions(calibration=calibration, workers=workers, names=names, of_c=of_c, **options)
        return run_job(source, path, chosen)


def trial_lines(trials: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each of the trials in an account of `quantize_to_file`."""
    from thinflow.optimize.trials import Trial
    from thinflow.optimize.trials import trial_lines as lines_of

    return lines_of([Trial(**trial) for trial in trials])


def quantization_recipe(recipe: FilePath | None = None, **choices: Any) -> Any:
    """A recipe from a command line's words, or the file that it names if nothing contradicts it. Choices: see
    `thinflow.optimize.quantize_job.recipe_from`.
    """
    from thinflow.optimize.quantize_job import recipe_from

    return recipe_from(recipe, **choices)


def picture_scaling(
    mean: float | Sequence[float] | None,
    std: float | Sequence[float] | None,
    resize: int | tuple[int, int] | None = None,
    crop: str | None = None,
    channels: str | None = None,
) -> Any:
    """How pictures become inputs: (pixel - mean) / std, resized and cut before; None where nothing is given.

    Args:
        mean, std: one number, or one for each channel in the order in which they are fed.
        resize, crop: see `Scaling`.
        channels: "rgb" or "bgr".

    Raises:
        ParameterError: std is 0, or there is no such crop or order.
    """
    from thinflow.quantize.sample_files import Scaling

    if all(given is None for given in (mean, std, resize, crop, channels)):
        return None
    if channels not in (None, "rgb", "bgr"):
        raise ParameterError(f"there is no order of channels '{channels}'", hint="give rgb or bgr")
    # A mean alone divides by 1, a deviation alone takes off nothing.
    return Scaling(
        0.0 if mean is None else mean,
        1.0 if std is None else std,
        channels == "bgr",
        resize,
        crop or "",
        keeps_range=all(given is None for given in (mean, std, channels)),
    )
