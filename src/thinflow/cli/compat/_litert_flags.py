"""The flags of LiteRT's benchmark_model: those that work here, and those that have nothing to act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thinflow.cli._oldflags import Setting

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
