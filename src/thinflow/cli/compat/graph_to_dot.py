"""`thinflow graph_to_dot`: TensorFlow's script of that name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

EXAMPLES = """
  thinflow graph_to_dot --graph=model.pb --dot_output=model.dot
"""
FLAGS = OldFlags(
    "graph_to_dot",
    {
        "graph": ("", "graph file to read"),
        "input_binary": (True, "ignored: the file tells whether it is binary or text"),
        "dot_output": ("", "DOT file to write"),
    },
    python=True,
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("graph", "dot_output"):
        if not values[name]:
            print(f"the flag --{name} is required\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    from thinflow.api.pictures.draw import write_dot

    target = str(values["dot_output"])
    write_dot(os.path.expanduser(str(values["graph"])), os.path.expanduser(target))
    print(f"Created DOT file '{target}'.")
    return 0
