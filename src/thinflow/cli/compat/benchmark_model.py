"""`thinflow benchmark_model`: TensorFlow's tool of that name, and LiteRT's, with their flags and tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help

if TYPE_CHECKING:
    from thinflow.compat.benchmark_model.settings import Settings

Flags = dict[str, tuple[Setting, str]]

WORKING: Flags = {
    "num_runs": ("", "older name of max_num_runs; for a .tflite file the least number of runs, 50"),
    "min_secs": ("", "seconds to run at least; for a .tflite file with --num_runs or --max_secs: 1.0"),
    "max_secs": ("", "the same as max_time; with --min_secs by the clock, 150.0"),
    "run_delay": ("", "older name of inference_delay"),
    "run_frequency": ("-1.0", "runs to start a second; wins over the delay"),
    "warmup_min_secs": ("", "seconds of warm-up at least; with --min_secs: 0.5"),
    "input_layer_value_range": ("", "NAME,LOWEST,HIGHEST:...; random numbers instead of zeros"),
    "input_layer_value_files": (
        "",
        "NAME:FILE,...; raw bytes of the numbers, or strings with a zero byte behind each; '::' is a colon",
    ),
    "enable_op_profiling": (False, "print the tables of operators; always done here"),
    "profiling_output_csv_file": ("", "write the tables to this file, as comma-separated values"),
    "op_profiling_output_mode": ("stdout", "stdout, or csv with op_profiling_output_file"),
    "op_profiling_output_file": ("", "newer name of profiling_output_csv_file"),
    "report_peak_memory_footprint": (False, "print the largest memory that the process took"),
    "dry_run": (False, "open the model and make its inputs, no more"),
    "verbose": (False, "log every flag"),
    "step_stats_name": ("", "write the nodes' times of one run to this new file, a StepStats message"),
}

_REASONS: dict[str, Flags] = {
    "the CPU runs the model, no delegate does": {
        "use_gpu": (False, ""),
        "gpu_precision_loss_allowed": (True, ""),
        "gpu_experimental_enable_quant": (True, ""),
        "gpu_inference_for_sustained_speed": (False, ""),
        "gpu_backend": ("", ""),
        "gpu_wait_type": ("", ""),
        "gpu_invoke_loop_times": ("1", ""),
        "use_nnapi": (False, ""),
        "nnapi_execution_preference": ("", ""),
        "nnapi_execution_priority": ("", ""),
        "nnapi_accelerator_name": ("", ""),
        "disable_nnapi_cpu": (True, ""),
        "nnapi_allow_fp16": (False, ""),
        "nnapi_allow_dynamic_dimensions": (False, ""),
        "nnapi_use_burst_mode": (False, ""),
        "use_hexagon": (False, ""),
        "hexagon_lib_path": ("/data/local/tmp/", ""),
        "hexagon_profiling": (False, ""),
        "use_coreml": (False, ""),
        "coreml_version": ("0", ""),
        "external_delegate_path": ("", ""),
        "external_delegate_options": ("", ""),
        "require_full_delegation": (False, ""),
        "max_delegated_partitions": ("0", ""),
        "min_nodes_per_partition": ("0", ""),
        "delegate_serialize_dir": ("", ""),
        "delegate_serialize_token": ("", ""),
    },
    "LiteRT runs with XNNPACK as it comes": {
        "use_xnnpack": (True, ""),
        "xnnpack_force_fp16": (False, ""),
        "allow_fp16": (False, ""),
        "use_caching": (False, ""),
    },
    "the profiler takes what room it needs": {
        "max_profiling_buffer_entries": ("1024", ""),
        "allow_dynamic_profiling_buffer_increase": (False, ""),
    },
    "the peak is the system's own count": {"memory_footprint_check_interval_ms": ("50", "")},
    "LiteRT's memory stays as it comes": {
        "release_dynamic_tensors": (False, ""),
        "optimize_memory_for_large_tensors": ("0", ""),
    },
    "`thinflow inspect MODEL --all` tells about the model": {
        "print_preinvoke_state": (False, ""),
        "print_postinvoke_state": (False, ""),
    },
}
"""Why flags have nothing to act on here -> these flags."""

WITHOUT_EFFECT: Flags = {
    name: (default, f"no effect: {reason}")
    for reason, flags in _REASONS.items()
    for name, (default, _) in flags.items()
}


def notes(values: Mapping[str, Setting]) -> Iterator[str]:
    """A line for each reason why flags that were given do nothing."""
    for reason, flags in _REASONS.items():
        # Compared with the default, as a parsed flag does not tell whether it was given.
        given = [f"--{name}" for name, (default, _) in flags.items() if values[name] != default]
        if given:
            has = "has" if len(given) == 1 else "have"
            yield f"note: {', '.join(given)} {has} no effect: {reason}"


_FAILED = 255  # what a tool's `return -1` becomes

EXAMPLES = """
  thinflow benchmark_model --graph=model.pb --input_layer=x --input_layer_shape=1,224,224,3 \
--input_layer_type=float --output_layer=y --show_flops
  thinflow benchmark_model --graph=model.tflite --num_threads=4 --num_runs=50 \
--profiling_output_csv_file=ops.csv
  thinflow benchmark_model --graph=model.tflite --input_layer_value_range=ids,0,99 --show_run_order=false
"""
FLAGS = OldFlags(
    "benchmark_model",
    {
        "graph": ("", "graph file name: .pb, .pbtxt, .tflite, .onnx or a SavedModel's folder"),
        "init_ops": ("", "init ops, comma-separated; each is run once"),
        "input_layer": ("", "input layer names, comma-separated; default: the model's inputs"),
        "input_layer_shape": ("", "input shapes: ':' between inputs, ',' between sizes"),
        "input_layer_type": ("", "input types, comma-separated"),
        "input_layer_values": ("", "first values: ':' between inputs, ',' between numbers"),
        "output_layer": ("", "output layer names, comma-separated; default: the model's outputs"),
        "target_layer": ("", "layers to run and not to fetch, comma-separated"),
        "max_num_runs": ("1000", "number of runs at most; 0: until the time is up"),
        "max_time": ("10.0", "seconds of inference at most; 0: no limit"),
        "inference_delay": ("-1.0", "seconds to sleep between runs"),
        "inter_benchmark_delay": ("-1.0", "seconds to sleep before each timed phase"),
        "num_threads": ("-1", "threads that share the work of a node; -1: all cores"),
        "inter_op": ("1", "nodes that may run side by side; only onnxruntime can"),
        "benchmark_name": ("", "name of the benchmark, for result files"),
        "output_prefix": ("", "where result files go, with the beginning of their names"),
        "show_sizes": (False, "print the sizes of the outputs"),
        "show_run_order": (True, "print the nodes as they ran"),
        "run_order_limit": ("0", "rows of that table; 0: all"),
        "show_time": (True, "print the nodes that took longest"),
        "time_limit": ("10", "rows of that table; 0: all"),
        "show_memory": (True, "print the nodes with the largest outputs"),
        "memory_limit": ("10", "rows of that table; 0: all"),
        "show_type": (True, "print the sums by node type"),
        "show_summary": (True, "print the summary"),
        "show_flops": (False, "print the number of floating-point operations"),
        "warmup_runs": ("1", "runs before the ones that count"),
        "version": ("", "free text, logged only"),
        "engine": ("auto", "what runs the model: auto, litert, onnxruntime or reference"),
        "table_style": ("tf2", "layout of the tables: tf2, or tf1 with a column of starting times"),
        "csv": (False, "print the tables as comma-separated values"),
        **WORKING,
        **WITHOUT_EFFECT,
        "logtostderr": (False, "accepted for old command lines; logs go to stderr anyway"),
    },
    aliases={
        "intra_op": "num_threads",
        "intra_op_parallelism_threads": "num_threads",
        "num_intra_threads": "num_threads",
        "inter_op_parallelism_threads": "inter_op",
        "num_inter_threads": "inter_op",
    },
    python=True,  # people write what they know from other tools, `--noshow_type` too
    examples=EXAMPLES,
)


def benchmark_model(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not values["graph"]:
        print(f"graph file name can't be empty.\n{FLAGS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    from thinflow.compat.benchmark_model.job import benchmark_model
    from thinflow.compat.benchmark_model.settings import read_settings

    settings = read_settings(values)
    if settings.mismatch:
        print(settings.mismatch, file=sys.stderr)
        return _FAILED
    for line in (*notes(values), *_settings_lines(settings, values)):
        _log(line)
    report = benchmark_model(settings, _log)
    print("\n".join(report))
    return 0


def _log(line: str) -> None:
    print_lines([line], sys.stderr)


def _settings_lines(settings: Settings, values: dict[str, Any]) -> list[str]:
    told = {
        "Graph": values["graph"],
        "Init ops": values["init_ops"],
        "Input layers": ",".join(settings.input_layers),
        "Input shapes": values["input_layer_shape"],
        "Input types": values["input_layer_type"],
        "Output layers": ",".join(settings.output_layers),
        "Target layers": values["target_layer"],
        "Num runs": str(settings.phases.max_runs),
        "Inter-inference delay (seconds)": f"{settings.phases.delay:.1f}",
        "Inter-benchmark delay (seconds)": f"{settings.phases.phase_delay:.1f}",
        "Num threads": values["num_threads"],
        "Benchmark name": values["benchmark_name"],
        "Output prefix": values["output_prefix"],
        "Show sizes": str(int(bool(values["show_sizes"]))),
        "Warmup runs": str(settings.phases.warmup_runs),
    }
    if values["verbose"]:
        told |= {f"--{name}": str(value) for name, value in values.items()}
    return [f"{label}: [{value}]" for label, value in told.items()]
