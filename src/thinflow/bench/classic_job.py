"""One run of benchmark_model: from its settings to its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from thinflow.analysis.interface import guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.bench.classic import Array, Log, run_phases
from thinflow.bench.classic_inputs import drawn_input, file_input, filled_input
from thinflow.bench.classic_report import (
    flops_lines,
    memory_lines,
    result_files,
    size_lines,
    table_lines,
    timing_lines,
    write_csv,
)
from thinflow.bench.classic_settings import DEFAULT_SHAPE, Settings, mismatch
from thinflow.bench.feeding import check_rank
from thinflow.engines._files import is_file
from thinflow.engines.session import Session, declared_spec
from thinflow.errors import FeedError, GraphError, ParameterError, closest
from thinflow.formats import step_stats
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec, dtype
from thinflow.opening import open_model

_Item = TypeVar("_Item")


def benchmark_model(settings: Settings, log: Log) -> list[str]:
    """Measure, and write the result files asked for; the lines of the report.

    Raises:
        ThinflowError: the model cannot be read or run.
    """
    model = _opened(settings)
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
    )
    lines = timing_lines(measured)
    if settings.csv_file:
        log(f"wrote {write_csv(settings.csv_file, measured, settings.tables)}")
    else:
        lines += table_lines(measured, settings.tables, len(model) if isinstance(model, Graph) else None)
    if settings.sizes:
        lines += size_lines(measured, settings.output_layers)
    if settings.flops:
        lines += flops_lines(model, measured, feeds)
    if settings.peak_memory:
        lines += memory_lines()
    if settings.step_stats:
        log(f"wrote {step_stats.write(settings.step_stats, measured.stats.last_run())}")
    if settings.name and settings.prefix:
        for path in result_files(settings.prefix, settings.name, measured, feeds):
            log(f"wrote {path}")
    return lines


def _tried(model: Graph | str, feeds: Mapping[str, Array], settings: Settings) -> str:
    """Open the model and make its inputs, which is all of a dry run."""
    session = Session(model, settings.engine, settings.threads, inter_op_threads=settings.inter_op_threads)
    shown = ", ".join(f"{name} {dtype(x.dtype)}{list(x.shape)}" for name, x in feeds.items())
    return f"dry run: the model was opened with {session.engine} and was not run; inputs: {shown or 'none'}"


def _opened(settings: Settings) -> Graph | str:
    if is_file(settings.path):
        return settings.path
    graph = open_model(settings.path)
    infer_shapes(graph)
    guess = guess_interface(graph)
    if not settings.input_layers:
        settings.input_layers = [v.name for v in graph.inputs or guess.chosen_inputs]
    if not settings.output_layers:
        settings.output_layers = [v.name for v in graph.outputs or guess.chosen_outputs]
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
            shape = _closed(name, spec)
        _check_fits(name, spec, given, shape)
        if (file := files.get(_plain(name))) is not None:
            feeds[name] = file_input(name, given, shape, file)
        elif (limits := ranges.get(_plain(name))) is not None:
            feeds[name] = drawn_input(name, given, shape, *limits)
        else:
            feeds[name] = filled_input(name, given, shape, values)
    return feeds


def _plain(name: str) -> str:
    return name.removesuffix(":0")


def _known(flag: str, items: Mapping[str, _Item], specs: Mapping[str, TensorSpec]) -> dict[str, _Item]:
    """What a flag says of inputs, by plain name.

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
    return {name: session.spec(name) for name in names}


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
    if own is not None and own.numpy_name and wanted.numpy_name and own.numpy() != wanted.numpy():
        raise FeedError(
            f"the input '{name}' is {own}, not {type_name}",
            hint=f"give --input_layer_type={own}, or leave it out",
        )
    check_rank(name, spec.shape, shape)


def _closed(name: str, spec: TensorSpec) -> tuple[int, ...]:
    """The sizes of an input nobody gave sizes for: a batch of one; other open sizes must be given."""
    if spec.shape is None or any(size is None for size in spec.shape[1:]):
        raise FeedError(
            f"the sizes of the input '{name}' are open",
            hint=f"give --input_layer_shape={DEFAULT_SHAPE}",
        )
    return tuple(1 if size is None else size for size in spec.shape)


def _narrow(graph: Graph, feeds: Mapping[str, Array], fetches: Sequence[str]) -> None:
    """Declare what is fed and fetched, with the sizes fed."""
    graph.inputs = [graph.value(name) for name in feeds]
    graph.outputs = list(dict.fromkeys(graph.value(name) for name in fetches))
    infer_shapes(
        graph, {graph.value(name): TensorSpec(_dtype(array), array.shape) for name, array in feeds.items()}
    )


def _dtype(array: Array) -> Any:
    return dtype(array.dtype)


def _init(graph: Graph, names: Sequence[str], feeds: Mapping[str, Array], log: Log) -> None:
    """Run each init op once, in a session of its own: what a run needs is filled in the graph."""
    for name in names:
        node = graph.node(name.partition(":")[0])
        probe = graph.clone()
        done = probe.constant(np.zeros((), np.float32), "init_done").node
        done.add_control_input(probe.node(node.name))
        Session(probe, "reference").run([done.name], {})
        log(f"Ran init op {name}")
