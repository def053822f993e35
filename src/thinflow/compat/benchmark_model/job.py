"""One run of benchmark_model: from its settings to its report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.bench.inputs import amounts, check_rank, input_specs
from thinflow.compat.benchmark_model.inputs import check_size, drawn_input, file_input, filled_input
from thinflow.compat.benchmark_model.measure import Log, run_phases
from thinflow.compat.benchmark_model.report import (
    flops_lines,
    memory_lines,
    result_files,
    size_lines,
    table_lines,
    timing_lines,
    write_csv,
)
from thinflow.compat.benchmark_model.settings import DEFAULT_SHAPE, Settings, mismatch
from thinflow.engines._files import is_file
from thinflow.engines.session import Session
from thinflow.errors import FeedError, GraphError, ParameterError, closest
from thinflow.formats import benchmark_entries, step_stats
from thinflow.formats.files import check_folder
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec, dtype
from thinflow.load.graphs import declare_interface
from thinflow.load.sources import open_model
from thinflow.synthetic.strings import known_maker
from thinflow.typing import Array

_Item = TypeVar("_Item")


def benchmark_model(settings: Settings, log: Log) -> list[str]:
    """Measure, and write the result files asked for; the lines of the report.

    Raises:
        ThinflowError: the model cannot be read or run.
    """
    # Before anything runs: a measurement may take minutes.
    _check_targets(settings)
    begin = time.perf_counter()
    model = _opened(settings)
    opening_seconds = time.perf_counter() - begin
    feeds = _feeds(model, settings)
    fetches = [*settings.output_layers, *settings.target_layers]
    if isinstance(model, Graph):
        _narrow(model, feeds, fetches)
        _init(model, settings.init_ops, feeds, log)
    if settings.dry_run:
        return [_tried(model, feeds, settings)]
    measured = run_phases(
        model,
        feeds,
        fetches,
        engine=settings.engine,
        threads=settings.threads,
        inter_op_threads=settings.inter_op_threads,
        phases=settings.phases,
        log=log,
        opening_seconds=opening_seconds,
    )
    lines = timing_lines(measured)
    if settings.csv_file:
        log(f"wrote {write_csv(settings.csv_file, measured, settings.tables)}")
    else:
        lines += table_lines(measured, settings.tables, len(model) if isinstance(model, Graph) else None)
    if settings.sizes:
        lines += size_lines(model, measured, fetches)
    if settings.flops:
        lines += flops_lines(model, measured, feeds)
    if settings.peak_memory:
        lines += memory_lines()
    if settings.step_stats:
        log(f"wrote {step_stats.write(settings.step_stats, measured.stats.last_run())}")
    if settings.name and settings.prefix:
        for path in result_files(settings.prefix, settings.name, measured, feeds, log):
            log(f"wrote {path}")
    return lines


def _check_targets(settings: Settings) -> None:
    """Refuse files that cannot be written before anything is measured for them.

    Raises:
        WriteError: a folder is missing, or a result exists already.
    """
    if settings.name and settings.prefix:
        benchmark_entries.check_free(settings.prefix, settings.name)
    if settings.step_stats:
        step_stats.check_free(settings.step_stats)
    if settings.csv_file:
        check_folder(settings.csv_file)


def _tried(model: Graph | str, feeds: Mapping[str, Array], settings: Settings) -> str:
    """Open the model and make its inputs, which is all of a dry run."""
    session = Session(model, settings.engine, settings.threads, inter_op_threads=settings.inter_op_threads)
    shown = ", ".join(f"{name} {dtype(x.dtype)}{list(x.shape)}" for name, x in feeds.items())
    return f"dry run: the model was opened with {session.engine} and was not run; inputs: {shown or 'none'}"


def _opened(settings: Settings) -> Graph | str:
    if is_file(settings.path):
        return settings.path
    graph = open_model(settings.path)
    declare_interface(graph)
    if not settings.input_layers:
        settings.input_layers = [v.name for v in graph.inputs]
    if not settings.output_layers:
        settings.output_layers = [v.name for v in graph.outputs]
    if not settings.output_layers:
        raise GraphError("no output can be guessed", settings.path, "name it: --output_layer=NAME")
    return graph


def _feeds(model: Graph | str, settings: Settings) -> dict[str, Array]:
    specs = _specs(model, settings)
    files = _known("input_layer_value_files", settings.files, specs)
    ranges = _known("input_layer_value_range", settings.ranges, specs)
    feeds = {}
    if problem := mismatch(settings):  # now that the model has told its inputs
        raise ParameterError(problem, hint=f"the inputs are {', '.join(specs)}")
    for number, (name, spec) in enumerate(specs.items()):
        given = settings.types[number] if number < len(settings.types) else str(spec.dtype or "float")
        values = settings.values[number] if number < len(settings.values) else []
        if number < len(settings.shapes):
            shape: Sequence[int] = settings.shapes[number]
        else:
            shape = _closed(name, specs)
        _check_fits(name, spec, given, shape)
        check_size(name, given, shape)
        if (file := files.get(_plain(name))) is not None:
            feeds[name] = file_input(name, given, shape, file)
        elif (limits := ranges.get(_plain(name))) is not None:
            feeds[name] = drawn_input(name, given, shape, *limits)
        else:
            feeds[name] = _filled(model, name, given, shape, values)
    return feeds


def _filled(
    model: Graph | str, name: str, type_name: str, shape: Sequence[int], values: Sequence[float]
) -> Array:
    """Zeros and the values given.

    Empty text would end a run that takes a sound, a picture or a message apart: one is made up for that. So
    would a rate, a size or a count of 0.
    """
    array = filled_input(name, type_name, shape, values)
    if not values and array.dtype.kind in "iuf" and (made := amounts(model, name, shape)) is not None:
        return made.astype(array.dtype)
    if array.dtype.hasobject and isinstance(model, Graph):
        rng = np.random.default_rng(0)
        if (maker := known_maker(model.value(name))) is not None:
            array.reshape(-1)[:] = [maker(rng) for _ in range(array.size)]
    return array


def _plain(name: str) -> str:
    return name.removesuffix(":0")


def _known(flag: str, items: Mapping[str, _Item], specs: Mapping[str, TensorSpec]) -> dict[str, _Item]:
    """A flag's items for inputs, by plain name.

    Raises:
        ParameterError: there is no such input.
    """
    inputs = {_plain(name) for name in specs}
    for name in items:
        if _plain(name) not in inputs:
            known = f"the inputs are {', '.join(specs)}"
            raise ParameterError(
                f"--{flag}: there is no input '{name}'", hint=closest(_plain(name), inputs) or known
            )
    return {_plain(name): item for name, item in items.items()}


def _specs(model: Graph | str, settings: Settings) -> dict[str, TensorSpec]:
    if isinstance(model, Graph):
        return {name: declared_spec(model.value(name)) for name in settings.input_layers}
    session = Session(model)
    names = settings.input_layers or list(session.inputs)
    settings.input_layers = names
    settings.output_layers = settings.output_layers or list(session.outputs)
    stated = dict(zip(session.inputs, input_specs(model).values(), strict=False))
    return {name: _ranked(session.spec(name), stated.get(name)) for name in names}


def _ranked(spec: TensorSpec, stated: TensorSpec | None) -> TensorSpec:
    """The spec of a file's input; one number where the file says so, which its engine does not tell."""
    return stated if spec.shape is None and stated is not None and stated.shape == () else spec


def _check_fits(name: str, spec: TensorSpec, type_name: str, shape: Sequence[int]) -> None:
    """Refuse a type or a number of sizes that the input does not have. Sizes may differ from those declared.

    Raises:
        FeedError: they do not fit.
    """
    try:
        wanted = dtype(type_name)
    except ParameterError:
        return  # told when the input is filled
    own = spec.dtype
    # Compared as numpy's types: quint8 and uint8 are fed alike.
    if own is not None and own.numpy_name and wanted.numpy_name and own.numpy() != wanted.numpy():
        raise FeedError(
            f"the input '{name}' is {own}, not {type_name}",
            hint=f"give --input_layer_type={own}, or leave it out",
        )
    check_rank(name, spec.shape, shape)


def _closed(name: str, specs: Mapping[str, TensorSpec]) -> tuple[int, ...]:
    """The sizes of an input nobody gave sizes for: a batch of one; other open sizes must be given.

    Raises:
        FeedError: there are such.
    """
    shape = specs[name].shape
    if shape is None or any(size is None for size in shape[1:]):
        told = "the number of" if shape is None else "the"
        layers, sizes = ",".join(map(_plain, specs)), ":".join(_example(spec) for spec in specs.values())
        raise FeedError(
            f"{told} sizes of the input '{name}' {'is' if shape is None else 'are'} open",
            hint=f"give all, such as --input_layer={layers} --input_layer_shape={sizes}",
        )
    # Only the first can be open here.
    return tuple(1 if size is None else size for size in shape)


def _example(spec: TensorSpec) -> str:
    """Sizes as one would write them: what is known, one for the batch, those of a common picture."""
    if spec.shape is None:
        return DEFAULT_SHAPE
    common = DEFAULT_SHAPE.split(",") if len(spec.shape) == 4 else ["1"] + ["16"] * len(spec.shape)
    return ",".join(
        known if size is None else str(size) for size, known in zip(spec.shape, common, strict=False)
    )


def _narrow(graph: Graph, feeds: Mapping[str, Array], fetches: Sequence[str]) -> None:
    """Declare what is fed and fetched, with the sizes fed."""
    graph.inputs = [graph.value(name) for name in feeds]
    graph.outputs = list(dict.fromkeys(graph.value(name) for name in fetches))
    # What is fed decides the sizes, also where it differs from what the graph declares.
    specs = {graph.value(name): array for name, array in feeds.items()}
    infer_shapes(graph, {value: _fed(value, array) for value, array in specs.items()})


def _fed(value: Value, array: Array) -> TensorSpec:
    """Sizes of what is fed, in the type that the graph says: numpy has no quint8."""
    return TensorSpec(declared_spec(value).dtype or dtype(array.dtype), array.shape)


def _init(graph: Graph, names: Sequence[str], feeds: Mapping[str, Array], log: Log) -> None:
    """Run each init op once, in a session of its own: what a run needs is filled in the graph."""
    for name in names:
        node = graph.node(name.partition(":")[0])
        # A copy: the constant that waits shall not be in the graph that is measured.
        probe = graph.clone()
        done = probe.constant(np.zeros((), np.float32), "init_done").node
        # A node without outputs cannot be fetched; a constant that waits for it can.
        done.add_control_input(probe.node(node.name))
        Session(probe, "reference").run([done.name], {})
        log(f"Ran init op {name}")
