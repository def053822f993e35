"""`thinflow summarize_graph`: TensorFlow's tool of that name, line for line."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags

EXAMPLES = """
  thinflow summarize_graph --in_graph=model.pb
  thinflow summarize_graph --in_graph=model.pb --print_structure=true
"""
FLAGS = OldFlags(
    "summarize_graph",
    {
        "in_graph": ("", "input graph file name"),
        "print_structure": (False, "whether to print the network connections of the graph"),
    },
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if any(a.lstrip("-") in {"help", "h"} for a in argv) else USAGE_EXIT
    path = str(values["in_graph"])
    if not path:
        import sys

        print(f"in_graph graph can't be empty.\n{FLAGS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    import os

    import thinflow
    from thinflow.api import structure_lines

    summary = thinflow.summarize(os.path.expanduser(path))
    print(summary)
    if values["print_structure"]:
        print_lines(structure_lines(summary.graph))
    return 1 if any(p.kind == "missing input" for p in summary.problems) else 0
