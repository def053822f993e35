"""The flags of benchmark_model, TensorFlow's and LiteRT's, as settings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thinflow.analysis.node_stats import STYLES
from thinflow.compat.benchmark_model.measure import Phases
from thinflow.compat.benchmark_model.report import Tables
from thinflow.engines._threads import checked_threads
from thinflow.errors import ParameterError

DEFAULT_SHAPE = "1,224,224,3"
# Defaults of LiteRT's benchmark_model: num_runs, min_secs, max_secs, warmup_min_secs.
_LITERT_RUNS, _LITERT_SECONDS, _LITERT_LIMIT, _LITERT_WARMUP = "50", "1.0", "150.0", "0.5"
# Far more digits than 64 bits hold, and few enough for int(), whose time grows with their square.
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,30}\s*")
# A name may end in a port, `x:0`, though colons also separate the inputs.
_RANGE = r"([^,:]+(?::\d+)?),([^,:]*),([^,:]*)"


@dataclass
class Settings:
    """Settings that the flags ask for.

    Attributes:
        mismatch: what is wrong with the lists of inputs, in the words of the original; "" if nothing is.
        ranges: input -> (lowest, highest) number to draw.
        files: input -> file that holds its values.
        csv_file: where the tables go as comma-separated values; "": they are printed.
        step_stats: where the times of the last run go as a StepStats message; "": nowhere.
        peak_memory: whether to tell the memory the process took.
        dry_run: whether to open the model and leave it at that.
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
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    csv_file: str = ""
    step_stats: str = ""
    peak_memory: bool = False
    dry_run: bool = False


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
        threads=checked_threads(_whole(text, "num_threads")),
        inter_op_threads=checked_threads(max(1, _whole(text, "inter_op"))),
        engine=text["engine"],
        sizes=bool(flags["show_sizes"]),
        flops=bool(flags["show_flops"]),
        name=text["benchmark_name"],
        prefix=text["output_prefix"],
        ranges=_ranges(text["input_layer_value_range"]),
        files=_files(text["input_layer_value_files"]),
        csv_file=_csv_file(text),
        step_stats=os.path.expanduser(text["step_stats_name"]),
        peak_memory=bool(flags["report_peak_memory_footprint"]),
        dry_run=bool(flags["dry_run"]),
    )
    # -1, the default of TensorFlow's flag, means all cores.
    settings.threads = settings.threads if settings.threads > 0 else os.cpu_count() or 1
    settings.mismatch = mismatch(settings)
    return settings


def _phases(text: Mapping[str, str]) -> Phases:
    is_litert = text["graph"].lower().endswith((".tflite", ".lite"))
    delay = "run_delay" if text["run_delay"] else "inference_delay"
    common: dict[str, Any] = {
        "warmup_runs": max(0, _whole(text, "warmup_runs")),
        "delay": _real(text, delay),
        "phase_delay": _real(text, "inter_benchmark_delay"),
        "frequency": _real(text, "run_frequency"),
    }
    # Both tools have --num_runs and --max_secs; which one is meant shows in the file, or in
    # a flag that only LiteRT's has.
    if text["min_secs"] or (is_litert and (text["num_runs"] or text["max_secs"])):
        return Phases(
            max(1, _whole(text, "num_runs", _LITERT_RUNS)),
            _real(text, "max_secs", _LITERT_LIMIT),
            min_seconds=_real(text, "min_secs", _LITERT_SECONDS),
            warmup_seconds=_real(text, "warmup_min_secs", _LITERT_WARMUP),
            **common,
        )
    runs = "num_runs" if text["num_runs"] else "max_num_runs"
    seconds = "max_secs" if text["max_secs"] else "max_time"
    return Phases(
        _whole(text, runs),
        _real(text, seconds),
        warmup_seconds=_real(text, "warmup_min_secs", "0"),
        **common,
    )


def _ranges(text: str) -> dict[str, tuple[int, int]]:
    """`name,low,high:...`, both ends included."""
    if text and not re.fullmatch(f"{_RANGE}(?::{_RANGE})*", text):
        raise ParameterError(
            f"--input_layer_value_range: '{text}' cannot be read", hint="write NAME,LOWEST,HIGHEST:..."
        )
    found = {}
    for name, low, high in re.findall(_RANGE, text):
        try:
            limits = int(low), int(high)
        except ValueError:
            raise ParameterError(
                f"--input_layer_value_range: '{low},{high}' are not whole numbers",
                hint="write NAME,LOWEST,HIGHEST, such as ids,0,99",
            ) from None
        if limits[0] > limits[1]:
            raise ParameterError(
                f"--input_layer_value_range: {low} is more than {high}", hint="the lowest number comes first"
            )
        found[name.strip()] = limits
    return found


def _files(text: str) -> dict[str, str]:
    """`name:file,...`; `::` stands for a colon within a name or a file."""
    found = {}
    for item in _split(text, ","):
        parts = [part.replace("::", ":") for part in re.split(r"(?<!:):(?!:)", item)]
        if len(parts) != 2 or not all(parts):
            raise ParameterError(
                f"--input_layer_value_files: '{item}' cannot be read",
                hint="write NAME:FILE,..., and '::' for a colon in a name",
            )
        found[parts[0].strip()] = os.path.expanduser(parts[1])
    return found


def _csv_file(text: Mapping[str, str]) -> str:
    """The file for the tables, by the older flag or the two newer ones."""
    mode = text["op_profiling_output_mode"]
    if mode not in {"stdout", "csv"}:
        raise ParameterError(f"--op_profiling_output_mode={mode}", hint="choose stdout or csv")
    file = text["profiling_output_csv_file"] or (text["op_profiling_output_file"] if mode == "csv" else "")
    return os.path.expanduser(file)


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
                f"--input_layer_shape: '{item}' is not a size", hint=f"write sizes like {DEFAULT_SHAPE}"
            ) from None
    if any(size < 0 for size in sizes):
        raise ParameterError(
            f"--input_layer_shape={text}: a size is open", hint=f"write all of them, as in {DEFAULT_SHAPE}"
        )
    return sizes


def _numbers(text: str) -> list[float]:
    """Whole numbers stay exact, since an int64 holds more digits than a float."""
    try:
        return [int(item) if _WHOLE.fullmatch(item) else float(item) for item in _split(text, ",")]
    except ValueError:
        raise ParameterError(
            f"--input_layer_values: '{text}' are not numbers",
            hint="write 1,2,3 and ':' between inputs",
        ) from None


def _whole(text: Mapping[str, str], name: str, default: str = "") -> int:
    try:
        return int(text[name] or default)
    except ValueError:
        raise ParameterError(f"--{name}={text[name]} is not a whole number", hint="give a number") from None


def _real(text: Mapping[str, str], name: str, default: str = "") -> float:
    try:
        number = float(text[name] or default)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ParameterError(f"--{name}={text[name]} is not a number", hint="give seconds")
    return number


def _limit(text: Mapping[str, str], name: str) -> int:
    return max(0, _whole(text, name))


def mismatch(settings: Settings) -> str:
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
