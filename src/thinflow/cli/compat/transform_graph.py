"""`thinflow transform_graph`: TensorFlow's Graph Transform Tool with its own flags, plus verification and a
ledger.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags

EXAMPLES = """
  thinflow transform_graph --in_graph=frozen.pb --out_graph=small.pb --inputs=x --outputs=y \
--transforms='strip_unused_nodes fold_constants(ignore_errors=true) fold_batch_norms'
  thinflow transform_graph --in_graph=frozen.pb --out_graph=small.pb --inputs=x --outputs=y \
--transforms='quantize_weights' --report=report.json
"""
FLAGS = OldFlags(
    "transform_graph",
    {
        "in_graph": ("", "input graph file name"),
        "out_graph": ("", "output graph file name"),
        "inputs": ("", "inputs, comma-separated"),
        "outputs": ("", "outputs, comma-separated"),
        "transforms": ("", "list of transforms"),
        "output_as_text": (False, "whether to write the graph in text protobuf format"),
        "verify": (True, "run the graph before and after each transform and compare"),
        "keep_going": (False, "undo a transform that fails and go on with the next"),
        "dry_run": (False, "write nothing, only tell what would happen"),
        "plugin": ("", "Python files with transforms of your own, comma-separated"),
        "report": ("", "write what each transform did to this JSON file"),
    },
    {"input_names": "inputs", "output_names": "outputs"},  # as the mobile guide calls them in its text
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        if any(a.lstrip("-") in {"help", "h"} for a in argv):
            _print_transforms()
            return 0
        return USAGE_EXIT
    for name in ("in_graph", "out_graph", "transforms"):
        if not str(values[name]).strip():
            print(f"{name} can't be empty.\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    # Texts for all, and apart from them the names of the switches that are on.
    return _apply({name: str(v) for name, v in values.items()}, {n for n, v in values.items() if v is True})


def _print_transforms() -> None:
    # Not from `api`, which would import numpy.
    from thinflow.rewrite.discovery import shipped_transforms

    print("Transforms are:\n" + "\n".join(shipped_transforms()))


def _apply(flags: dict[str, str], switched_on: set[str]) -> int:
    import os

    import thinflow
    from thinflow.api import load_plugins, parse_transforms, transform_with_ledger
    from thinflow.cli._console import progress
    from thinflow.cli._ledger import ledger_data, ledger_lines
    from thinflow.cli._options import names

    if not parse_transforms(flags["transforms"]):
        print(f"You must specify at least one transform.\n{FLAGS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    load_plugins(names(flags["plugin"]) or [])
    result = transform_with_ledger(
        os.path.expanduser(flags["in_graph"]),
        flags["transforms"],
        names(flags["inputs"]) or [],
        names(flags["outputs"]) or [],
        verify="verify" in switched_on,
        keep_going="keep_going" in switched_on,
        progress=progress(),
    )
    target = os.path.expanduser(flags["out_graph"])
    if "dry_run" not in switched_on:
        thinflow.save(result.graph, target, format="pbtxt" if "output_as_text" in switched_on else "graphdef")
    if flags["report"]:
        from thinflow.api import write_json

        write_json(flags["report"], ledger_data(result))
    print_lines(ledger_lines(result, verified="verify" in switched_on))
    if "dry_run" in switched_on:
        print("nothing was written (--dry_run)")
    else:
        print(f"next: thinflow inspect {shlex.quote(target)}")
    return 0
