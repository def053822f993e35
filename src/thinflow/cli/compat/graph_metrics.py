"""`thinflow graph_metrics`: TensorFlow's script of that name: operations and weights."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

if TYPE_CHECKING:
    from thinflow.compat.graph_metrics import Measured

_FIRST_LAYER = "Mul:0"  # of the network the script was written for
EXAMPLES = """
  thinflow graph_metrics --graph=model.pb --input_layer=input --batch_size=8
  thinflow graph_metrics --graph=model.pb --input_layer=input --input_shape_override=1,224,224,3 --print_nodes
"""
FLAGS = OldFlags(
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
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not values["graph"]:
        print(f"the flag --graph is required\n{FLAGS.usage()}", file=sys.stderr)
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
