"""One run of benchmark_model: from its flags to its report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.analysis.interface import guess_interface
from thinflow.analysis.node_stats import STYLES
from thinflow.analysis.shapes import infer_shapes
from thinflow.bench.classic import Array, Log, Phases, filled_input, run_phases
from thinflow.bench.classic_report import (
    Tables,
    flops_lines,
    result_files,
    size_lines,
    table_lines,
    timing_lines,
)
from thinflow.bench.feeding import check_rank
from thinflow.engines._files import is_file
from thinflow.engines.session import Session, declared_spec
from thinflow.errors import FeedError, GraphError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec, dtype
from thinflow.opening import open_model

_DEFAULT_SHAPE = "1,224,224,3"


@dataclass
class Settings:
    """What the flags ask for.

    Attributes:
        mismatch: what is wrong with the lists of inputs, in the words of the original; "" if nothing is.
    """

    path: str
    phases: Phases
    tables: Tables
    input_layers: list[str]
    shapes: list[list[int]]
    types: list[str]
    values: list[list[float]]
    output_layers: list[str]
    target_layers: list[str]
    init_ops: list[str]
    threads: int
    inter_op_threads: int
    engine: str
    sizes: bool
    flops: bool
    name: str
    prefix: str
    mismatch: str = ""
    graph: Graph | None = field(default=None, repr=False)


def read_settings(flags: Mapping[str, Any]) -> Settings:
    """The settings behind the flags.

    Raises:
        ParameterError: a number or a size cannot be read.
    """
    text = {name: str(value) for name, value in flags.items()}
    style = text["table_style"]
    if style not in STYLES:
        raise ParameterError(f"--table_style={style}", hint=f"choose {' or '.join(STYLES)}")
    tables = Tables(
        _limit(text, "run_order_limit") if flags["show_run_order"] else None,
        _limit(text, "time_limit") if flags["show_time"] else None,
        _limit(text, "memory_limit") if flags["show_memory"] else None,
        bool(flags["show_type"]),
        bool(flags["show_summary"]),
        style,
        bool(flags["csv"]),
    )
    settings = Settings(
        path=os.path.expanduser(text["graph"]),
        phases=_phases(text),
        tables=tables,
        input_layers=_names(text["input_layer"]),
        shapes=[_sizes(item) for item in _split(text["input_layer_shape"], ":")],
        types=_names(text["input_layer_type"]),
        values=[_numbers(item) for item in _split(text["input_layer_values"], ":")],
        output_layers=_names(text["output_layer"]),
        target_layers=_names(text["target_layer"]),
        init_ops=_names(text["init_ops"]),
        threads=_whole(text, "num_threads"),
        inter_op_threads=max(1, _whole(text, "inter_op")),
        engine=text["engine"],
        sizes=bool(flags["show_sizes"]),
        flops=bool(flags["show_flops"]),
        name=text["benchmark_name"],
        prefix=text["output_prefix"],
    )
    settings.threads = settings.threads if settings.threads > 0 else os.cpu_count() or 1
    settings.mismatch = _mismatch(settings)
    return settings


def _phases(text: Mapping[str, str]) -> Phases:
    runs = "num_runs" if text["num_runs"] else "max_num_runs"
    seconds = "max_secs" if text["max_secs"] else "max_time"
    delay = "run_delay" if text["run_delay"] else "inference_delay"
    return Phases(
        _whole(text, runs),
        _real(text, seconds),
        max(0, _whole(text, "warmup_runs")),
        _real(text, delay),
        _real(text, "inter_benchmark_delay"),
    )


def _split(text: str, mark: str) -> list[str]:
    return text.split(mark) if text else []


def _names(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _sizes(text: str) -> list[int]:
    sizes = []
    for item in _split(text, ","):
        try:
            sizes.append(int(item))
        except ValueError:
            raise ParameterError(
                f"--input_layer_shape: '{item}' is not a size", hint=f"write sizes like {_DEFAULT_SHAPE}"
            ) from None
    if any(size < 0 for size in sizes):
        raise ParameterError(
            f"--input_layer_shape={text}: a size is open", hint=f"write all of them, as in {_DEFAULT_SHAPE}"
        )
    return sizes


def _numbers(text: str) -> list[float]:
    try:
        return [float(item) for item in _split(text, ",")]
    except ValueError:
        raise ParameterError(
            f"--input_layer_values: '{text}' are not numbers",
            hint="write 1,2,3 and ':' between inputs",
        ) from None


def _whole(text: Mapping[str, str], name: str) -> int:
    try:
        return int(text[name])
    except ValueError:
        raise ParameterError(f"--{name}={text[name]} is not a whole number", hint="give a number") from None


def _real(text: Mapping[str, str], name: str) -> float:
    try:
        return float(text[name])
    except ValueError:
        raise ParameterError(f"--{name}={text[name]} is not a number", hint="give seconds") from None


def _limit(text: Mapping[str, str], name: str) -> int:
    return max(0, _whole(text, name))


def _mismatch(settings: Settings) -> str:
    """The lists of inputs must be equally long, as far as they are given."""
    count = len(settings.input_layers)
    for what, items in (("shapes", settings.shapes), ("types", settings.types), ("values", settings.values)):
        if items and len(items) != (count or len(items)):
            return (
                f"There must be the same number of items in --input_layer and --input_layer_{what[:-1]}, "
                f"for example --input_layer=input1,input2 --input_layer_type=float,float "
                f"--input_layer_shape=1,224,224,4:1,20\n"
                f"--input_layer={','.join(settings.input_layers)} ({count} items)\n"
                f"{len(items)} {what} given"
            )
    return ""


# --- running ------------------------------------------------------------------------------------------------


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
    lines += table_lines(measured, settings.tables, len(model) if isinstance(model, Graph) else None)
    if settings.sizes:
        lines += size_lines(measured, settings.output_layers)
    if settings.flops:
        lines += flops_lines(model, measured, feeds)
    if settings.name and settings.prefix:
        for path in result_files(settings.prefix, settings.name, measured, feeds):
            log(f"wrote {path}")
    return lines


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
    feeds = {}
    if mismatch := _mismatch(settings):  # now that the model has told its inputs
        raise ParameterError(mismatch, hint=f"the inputs are {', '.join(specs)}")
    for number, (name, spec) in enumerate(specs.items()):
        given = settings.types[number] if number < len(settings.types) else str(spec.dtype or "float")
        values = settings.values[number] if number < len(settings.values) else []
        if number < len(settings.shapes):
            shape: Sequence[int] = settings.shapes[number]
        else:
            shape = _closed(name, spec)
        _check_fits(name, spec, given, shape)
        feeds[name] = filled_input(name, given, shape, values)
    return feeds


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
            hint=f"give --input_layer_shape={_DEFAULT_SHAPE}",
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
