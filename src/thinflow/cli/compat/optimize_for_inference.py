"""`thinflow optimize_for_inference`: TensorFlow's script of that name, with verification and a ledger."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow optimize_for_inference --input=frozen.pb --output=small.pb --input_names=x --output_names=y
  thinflow optimize_for_inference --input=frozen.pb --output=small.pb --input_names=x --output_names=y \
--toco_compatible --placeholder_to_const_names=phase_train=False
"""
FLAGS = OldFlags(
    "optimize_for_inference",
    {
        "input": ("", "graph file to read"),
        "output": ("", "graph file to write"),
        "input_names": ("", "inputs, comma-separated"),
        "output_names": ("", "outputs, comma-separated"),
        "frozen_graph": (True, "whether to write the graph in binary or text format"),
        "placeholder_type_enum": ("", "types of the inputs, one or one for each; default: what they are"),
        "toco_compatible": (False, "leave out fused convolutions, which only TensorFlow runs"),
        "placeholder_to_const_names": ("", "bool placeholders to set, comma-separated: name=True"),
        "verify": (True, "run the graph before and after each step and compare"),
    },
    python=True,
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("input", "output", "input_names", "output_names"):
        if not str(values[name]).strip():
            print(f"the flag --{name} is required\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._console import progress
    from thinflow.cli._ledger import ledger_lines
    from thinflow.cli._options import names
    from thinflow.compat.inference_graphs import optimize_for_inference

    result = optimize_for_inference(
        os.path.expanduser(str(values["input"])),
        names(str(values["input_names"])) or (),
        names(str(values["output_names"])) or (),
        names(str(values["placeholder_type_enum"])) or (),
        constants=_settings(names(str(values["placeholder_to_const_names"])) or ()),
        fuse_convolutions=not values["toco_compatible"],
        verify=bool(values["verify"]),
        progress=progress(),
    )
    target = os.path.expanduser(str(values["output"]))
    thinflow.save(result.graph, target, format="graphdef" if values["frozen_graph"] else "pbtxt")
    print_lines(ledger_lines(result, verified=bool(values["verify"])))
    print(f"next: thinflow inspect {shlex.quote(target)}")
    return 0


def _settings(texts: Sequence[str]) -> dict[str, bool]:
    """`["phase=False"]` as a dict.

    Raises:
        ParameterError: something else than name=True or name=False.
    """
    found = {}
    for text in texts:
        name, _, word = text.partition("=")
        if not name or word.lower() not in {"true", "false"}:
            raise ParameterError(
                f"--placeholder_to_const_names: '{text}' is no setting", hint="write name=True or name=False"
            )
        # A part of a node's name, which has no port.
        found[name.strip().removesuffix(":0")] = word.lower() == "true"
    return found
