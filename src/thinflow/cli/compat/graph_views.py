"""TensorFlow's tools that show a graph: its summary, its cost, its drawing, its events for TensorBoard."""

from __future__ import annotations

import locale
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

if TYPE_CHECKING:
    from thinflow.compat.graph_metrics import Measured

EXAMPLES = {
    "summarize_graph": """
  thinflow summarize_graph --in_graph=model.pb
  thinflow summarize_graph --in_graph=model.pb --print_structure=true
""",
    "graph_metrics": """
  thinflow graph_metrics --graph=model.pb --input_layer=input --batch_size=8
  thinflow graph_metrics --graph=model.pb --input_layer=input --input_shape_override=1,224,224,3 --print_nodes
""",
    "graph_to_dot": """
  thinflow graph_to_dot --graph=model.pb --dot_output=model.dot
""",
    "import_pb_to_tensorboard": """
  thinflow import_pb_to_tensorboard --model_dir=export --log_dir=logs
  thinflow import_pb_to_tensorboard --model_dir=frozen.pb --log_dir=logs --keep_weights=false
""",
}

SUMMARIZE_GRAPH = OldFlags(
    "summarize_graph",
    {
        "in_graph": ("", "input graph file name"),
        "print_structure": (False, "whether to print the network connections of the graph"),
    },
    examples=EXAMPLES["summarize_graph"],
)


def summarize_graph(argv: Sequence[str]) -> int:
    values = SUMMARIZE_GRAPH.parse(argv)
    if values is None:
        return 0 if any(a.lstrip("-") in {"help", "h"} for a in argv) else USAGE_EXIT
    path = str(values["in_graph"])
    if not path:
        import sys

        print(f"in_graph graph can't be empty.\n{SUMMARIZE_GRAPH.usage()}", file=sys.stderr)
        return USAGE_EXIT
    import os

    import thinflow
    from thinflow.api import structure_lines

    summary = thinflow.summarize(os.path.expanduser(path))
    print(summary)
    if values["print_structure"]:
        print_lines(structure_lines(summary.graph))
    return 1 if any(p.kind == "missing input" for p in summary.problems) else 0


_FIRST_LAYER = "Mul:0"  # of the network the script was written for
GRAPH_METRICS = OldFlags(
    "graph_metrics",
    {
        "graph": ("", "graph file to read"),
        "input_binary": (True, "ignored: the file tells whether it is binary or text"),
        "input_layer": (_FIRST_LAYER, "name of the input"),
        "batch_size": (1, "how many samples the input holds"),
        "statistics": ("weight_parameters,flops", "what to count, comma-separated"),
        "input_shape_override": ("", "shape of the input, comma-separated"),
        "print_nodes": (False, "whether to print a line for each node"),
        "json": (False, "whether to print everything for machines"),
    },
    python=True,
    examples=EXAMPLES["graph_metrics"],
)


def graph_metrics(argv: Sequence[str]) -> int:
    values = GRAPH_METRICS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not values["graph"]:
        print(f"the flag --graph is required\n{GRAPH_METRICS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    measured = _measured(values)
    if values["json"]:
        import json

        print(json.dumps(_data(measured), indent=2))
        return 0
    if values["print_nodes"]:
        print_lines(_node_lines(measured))
    for statistic, total in measured.metrics.totals.items():
        print(f"Total: {statistic}={_grouped(total)}")
    unknown = measured.metrics.unknown
    if unknown:
        print(
            f"{len(unknown)} nodes of unknown sizes are not counted, first '{unknown[0]}'; "
            "give --input_shape_override=1,H,W,C",
            file=sys.stderr,
        )
    return 0


def _measured(values: dict[str, Any]) -> Measured:
    from thinflow.cli._options import names, read_shape
    from thinflow.compat.graph_metrics import graph_metrics
    from thinflow.errors import GraphError, ParameterError

    override = read_shape(values["input_shape_override"]) or None
    if override is not None and None in override:
        raise ParameterError(
            "--input_shape_override has an unknown size", hint="write sizes like 1,224,224,3"
        )
    given: dict[str, Any] = {
        "batch_size": values["batch_size"],
        "shape": override,
        "statistics": names(values["statistics"]),
    }
    path = os.path.expanduser(values["graph"])
    try:
        return graph_metrics(path, values["input_layer"], **given)
    except GraphError:
        # Only the default may be replaced by a guess: a name that somebody gave must exist.
        if values["input_layer"] != _FIRST_LAYER:
            raise
    measured = graph_metrics(path, **given)
    print(f"there is no '{_FIRST_LAYER}': the input is '{measured.input}'", file=sys.stderr)
    return measured


def _node_lines(measured: Measured) -> list[str]:
    return [
        f"{name}({measured.graph.node(name).op}): {statistic}={_grouped(count)}"
        for name, counts in measured.metrics.by_node.items()
        for statistic, count in counts.items()
    ]


def _data(measured: Measured) -> dict[str, Any]:
    totals = measured.metrics.totals
    return {
        "input": measured.input,
        "shape": list(measured.spec.shape or ()),
        **totals,
        # A multiply-add is two operations by these rules.
        "macs": None if totals.get("flops") is None else (totals["flops"] or 0) // 2,
        "constants": measured.constants,
        "constant_bytes": measured.constant_bytes,
        "peak_activation_bytes": measured.peak_bytes,
        "unknown": measured.metrics.unknown,
        "nodes": measured.metrics.by_node,
    }


def _grouped(count: object) -> str:
    """A number with the separators of the user's locale; `None` and `unknown` as they are."""
    if not isinstance(count, int):
        return str(count)
    # The locale belongs to the whole process: it is put back, whatever happens.
    before = locale.setlocale(locale.LC_NUMERIC)
    try:
        locale.setlocale(locale.LC_NUMERIC, "")
        return locale.format_string("%d", count, grouping=True)
    except locale.Error:  # a locale that is not installed
        return str(count)
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


GRAPH_TO_DOT = OldFlags(
    "graph_to_dot",
    {
        "graph": ("", "graph file to read"),
        "input_binary": (True, "ignored: the file tells whether it is binary or text"),
        "dot_output": ("", "DOT file to write"),
    },
    python=True,
    examples=EXAMPLES["graph_to_dot"],
)


def graph_to_dot(argv: Sequence[str]) -> int:
    values = GRAPH_TO_DOT.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("graph", "dot_output"):
        if not values[name]:
            print(f"the flag --{name} is required\n{GRAPH_TO_DOT.usage()}", file=sys.stderr)
            return USAGE_EXIT
    from thinflow.api.pictures.draw import write_dot

    target = str(values["dot_output"])
    write_dot(os.path.expanduser(str(values["graph"])), os.path.expanduser(target))
    print(f"Created DOT file '{target}'.")
    return 0


IMPORT_PB_TO_TENSORBOARD = OldFlags(
    "import_pb_to_tensorboard",
    {
        "model_dir": ("", "a SavedModel's folder, or any other model"),
        "log_dir": ("", "folder for the event file"),
        "tag_set": ("serve", "of a SavedModel, the graph with these tags"),
        "run_metadata": ("", "files with a RunMetadata message each, comma-separated"),
        "keep_weights": (True, "whether big constants keep their contents, which TensorBoard does not show"),
    },
    python=True,
    examples=EXAMPLES["import_pb_to_tensorboard"],
)


def import_pb_to_tensorboard(argv: Sequence[str]) -> int:
    values = IMPORT_PB_TO_TENSORBOARD.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("model_dir", "log_dir"):
        if not values[name]:
            print(f"the flag --{name} is required\n{IMPORT_PB_TO_TENSORBOARD.usage()}", file=sys.stderr)
            return USAGE_EXIT
    from thinflow.cli._options import names
    from thinflow.compat.graph_scripts import write_events

    log_dir = os.path.expanduser(str(values["log_dir"]))
    path = write_events(
        os.path.expanduser(str(values["model_dir"])),
        log_dir,
        tags=str(values["tag_set"]),
        run_metadata=names(str(values["run_metadata"])) or (),
        keep_weights=bool(values["keep_weights"]),
    )
    print(f"wrote {path}")
    print(f"Model Imported. Visualize by running: tensorboard --logdir={shlex.quote(log_dir)}")
    return 0
