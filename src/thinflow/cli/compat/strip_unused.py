"""`thinflow strip_unused`: TensorFlow's script of that name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

EXAMPLES = """
  thinflow strip_unused --input_graph=model.pb --input_binary=true --output_graph=small.pb \
--input_node_names=x --output_node_names=y
  thinflow strip_unused --input_graph=model.pb --output_graph=small.pbtxt --output_binary=false \
--input_node_names=a,b:1 --output_node_names=y
"""
FLAGS = OldFlags(
    "strip_unused",
    {
        "input_graph": ("", "graph file to read"),
        "input_binary": (False, "ignored: the file tells whether it is binary or text"),
        "output_graph": ("", "graph file to write"),
        "output_binary": (True, "whether to write the graph in binary or text format"),
        "input_node_names": ("", "inputs, comma-separated"),
        "output_node_names": ("", "outputs, comma-separated"),
        "placeholder_type_enum": ("", "types of the inputs, one or one for each; default: what they are"),
    },
    python=True,
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    flags = {name: str(value).strip() for name, value in values.items()}
    for name in ("input_graph", "output_graph", "input_node_names", "output_node_names"):
        if not flags[name]:
            print(f"the flag --{name} is required\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._options import names
    from thinflow.compat.inference_graphs import strip_unused

    graph = strip_unused(
        os.path.expanduser(flags["input_graph"]),
        names(flags["input_node_names"]) or (),
        names(flags["output_node_names"]) or (),
        names(flags["placeholder_type_enum"]) or (),
    )
    thinflow.save(
        graph,
        os.path.expanduser(flags["output_graph"]),
        format="graphdef" if values["output_binary"] else "pbtxt",
    )
    print(f"{len(graph)} ops in the final graph.")
    return 0
