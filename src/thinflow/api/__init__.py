"""The public functions, by subject in the modules beside this one: a few lines of glue each.

They take a path or a Graph, return data, and never print. What is not in `thinflow.__all__` is for commands.
A module is imported when one of its functions is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinflow.api.checking import budget_kinds, check, check_lines
    from thinflow.api.comparing import compare, diff, structure_lines, verify
    from thinflow.api.converting import convert, convert_verified
    from thinflow.api.deploying import deploy, deploy_targets, open_deployment
    from thinflow.api.describing import (
        describe_transform,
        describe_transforms,
        load_layer,
        load_plugins,
        named_orders,
        require_layers,
    )
    from thinflow.api.devices import open_device, open_devices
    from thinflow.api.files import (
        is_sound,
        obstacles,
        own_engine,
        runtime_format,
        save,
        sizes_to_give,
        summarize,
        write_arrays,
        write_json,
        write_text,
    )
    from thinflow.api.fitting import fit
    from thinflow.api.freezing import (
        describe_model,
        freeze,
        freeze_with_report,
        leads_to_checkpoint,
        load_checkpoint,
        opening_notes,
        source_notes,
        variable_bytes,
        variable_states,
    )
    from thinflow.api.linting import (
        check_lint_engine,
        check_lint_rules,
        check_lint_target,
        lint,
        lint_report_lines,
        lint_rule,
        lint_rule_data,
        lint_rule_lines,
        lint_rules,
        lint_settings,
        lint_severity,
    )
    from thinflow.api.optimizing import (
        optimize,
        optimize_lines,
        picture_scaling,
        quantization_recipe,
        quantize,
        quantize_to_file,
        trial_lines,
    )
    from thinflow.api.packing import pack, read_key_file, unpack
    from thinflow.api.progress import progress_bar
    from thinflow.api.reducing import failure, read_arrays, reduce, save_reduction
    from thinflow.api.running import (
        benchmark,
        benchmark_figures,
        benchmark_table,
        evaluate,
        feeds_of_files,
        measured_reasons,
        open_session,
        picture_note,
        profile_rows,
        read_feeds,
        run,
        run_synthetic,
        synthetic_feed,
    )
    from thinflow.api.surveying import survey
    from thinflow.api.transforming import (
        TransformGraph,
        measure_batch_norms,
        measure_ranges,
        parse_transforms,
        transform,
        transform_names,
        transform_saved_model,
        transform_with_ledger,
    )
    from thinflow.api.viewing import view
    from thinflow.formats.foreign import part_note
    from thinflow.load.graphs import load
    from thinflow.pages.shell import require_pages

    inspect = summarize

__all__ = [
    "TransformGraph",
    "benchmark",
    "benchmark_figures",
    "benchmark_table",
    "budget_kinds",
    "check",
    "check_lines",
    "check_lint_engine",
    "check_lint_rules",
    "check_lint_target",
    "compare",
    "convert",
    "convert_verified",
    "deploy",
    "deploy_targets",
    "describe_model",
    "describe_transform",
    "describe_transforms",
    "diff",
    "evaluate",
    "failure",
    "feeds_of_files",
    "fit",
    "freeze",
    "freeze_with_report",
    "inspect",
    "is_sound",
    "leads_to_checkpoint",
    "lint",
    "lint_report_lines",
    "lint_rule",
    "lint_rule_data",
    "lint_rule_lines",
    "lint_rules",
    "lint_settings",
    "lint_severity",
    "load",
    "load_checkpoint",
    "load_layer",
    "load_plugins",
    "measure_batch_norms",
    "measure_ranges",
    "measured_reasons",
    "named_orders",
    "obstacles",
    "open_deployment",
    "open_device",
    "open_devices",
    "open_session",
    "opening_notes",
    "optimize",
    "optimize_lines",
    "own_engine",
    "pack",
    "parse_transforms",
    "part_note",
    "picture_note",
    "picture_scaling",
    "profile_rows",
    "progress_bar",
    "quantization_recipe",
    "quantize",
    "quantize_to_file",
    "read_arrays",
    "read_feeds",
    "read_key_file",
    "reduce",
    "require_layers",
    "require_pages",
    "run",
    "run_synthetic",
    "runtime_format",
    "save",
    "save_reduction",
    "sizes_to_give",
    "source_notes",
    "structure_lines",
    "summarize",
    "survey",
    "synthetic_feed",
    "transform",
    "transform_names",
    "transform_saved_model",
    "transform_with_ledger",
    "trial_lines",
    "unpack",
    "variable_bytes",
    "variable_states",
    "verify",
    "view",
    "write_arrays",
    "write_json",
    "write_text",
]

_HOMES = {
    "thinflow.api.checking": "budget_kinds check check_lines",
    "thinflow.api.comparing": "compare diff structure_lines verify",
    "thinflow.api.converting": "convert convert_verified",
    "thinflow.api.deploying": "deploy deploy_targets open_deployment",
    "thinflow.api.describing": (
        "describe_transform describe_transforms load_layer load_plugins named_orders require_layers"
    ),
    "thinflow.api.devices": "open_device open_devices",
    "thinflow.api.files": (
        "is_sound obstacles own_engine runtime_format save sizes_to_give summarize write_arrays "
        "write_json write_text inspect"
    ),
    "thinflow.api.fitting": "fit",
    "thinflow.api.freezing": (
        "describe_model freeze freeze_with_report leads_to_checkpoint load_checkpoint opening_notes "
        "source_notes variable_bytes variable_states"
    ),
    "thinflow.api.linting": (
        "check_lint_engine check_lint_rules check_lint_target lint lint_report_lines lint_rule "
        "lint_rule_data lint_rule_lines lint_rules lint_settings lint_severity"
    ),
    "thinflow.api.optimizing": (
        "optimize optimize_lines picture_scaling quantization_recipe quantize quantize_to_file trial_lines"
    ),
    "thinflow.api.packing": "pack read_key_file unpack",
    "thinflow.api.progress": "progress_bar",
    "thinflow.api.reducing": "failure read_arrays reduce save_reduction",
    "thinflow.api.running": (
        "benchmark benchmark_figures benchmark_table evaluate feeds_of_files measured_reasons "
        "open_session picture_note profile_rows read_feeds run run_synthetic synthetic_feed"
    ),
    "thinflow.api.surveying": "survey",
    "thinflow.api.transforming": (
        "TransformGraph measure_batch_norms measure_ranges parse_transforms transform "
        "transform_names transform_saved_model transform_with_ledger"
    ),
    "thinflow.api.viewing": "view",
    "thinflow.formats.foreign": "part_note",
    "thinflow.load.graphs": "load",
    "thinflow.pages.shell": "require_pages",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'thinflow.api' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
