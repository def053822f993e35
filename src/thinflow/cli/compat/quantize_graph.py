"""`thinflow quantize_graph`: the script that quantized graphs before the Graph Transform Tool did."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError, closest

EXAMPLES = """
  thinflow quantize_graph --input=model.pb --output=rounded.pb --output_node_names=y --mode=round
  thinflow quantize_graph --input=model.pb --output=small.pb --output_node_names=y --mode=weights
  thinflow quantize_graph --input=model.pb --output=eightbit.pb --output_node_names=y --mode=eightbit
"""
FLAGS = OldFlags(
    "quantize_graph",
    {
        "input": ("", "GraphDef to read"),
        "output": ("", "GraphDef to write"),
        "input_node_names": ("", "inputs, comma-separated; default: the best guess"),
        "output_node_names": ("", "outputs, comma-separated"),
        "mode": ("round", "round, weights_rounded: fewer different weights; weights: weights in eight bits; "
                          "eightbit: arithmetic in eight bits, too"),
        "bitdepth": (8, "of round: bits of the different values"),
        "strip_redundant_quantization": (True, "told and ignored: conversions to floats and back always go"),
        "quantized_input": (False, "whether the inputs are to be codes of eight bits"),
        "quantized_input_min": ("0", "number that the lowest code of an input stands for"),
        "quantized_input_max": ("1", "number that the highest code of an input stands for"),
        "quantized_fallback_min": ("", "range where none is known; default: computed in each run"),
        "quantized_fallback_max": ("", "see quantized_fallback_min"),
        "print_nodes": (False, "print the names of the nodes in the result"),
        "test_input_dims": ("1,224,224,3", "of mode test, which thinflow verify does"),
        "logtostderr": (True, "ignored: messages go to stderr anyway"),
    },
    python=True,
    examples=EXAMPLES,
)  # fmt: skip
_MODES = ("round", "weights_rounded", "weights", "eightbit")


def main(argv: Sequence[str]) -> int:
    flags = FLAGS.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("input", "output", "output_node_names"):
        if not flags[name]:
            print(f"the flag --{name} is required\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._ledger import about_variables
    from thinflow.cli._options import names

    text = _transforms(flags)
    if not flags["strip_redundant_quantization"]:
        print("--strip_redundant_quantization changes nothing: they always go", file=sys.stderr)
    given = {name: names(str(flags[f"{name}_node_names"])) for name in ("input", "output")}
    graph = thinflow.load(
        os.path.expanduser(str(flags["input"])), inputs=given["input"] or None, outputs=given["output"]
    )
    ends = [[v.name for v in values] for values in (graph.inputs, graph.outputs)]
    made = thinflow.transform(graph, text, ends[0], ends[1])
    thinflow.save(made, os.path.expanduser(str(flags["output"])), format="graphdef")
    if flags["print_nodes"]:
        print_lines(node.name for node in made)
    print(f"There are {len(made)} nodes in the quantized graph.")
    for line in about_variables(made):
        print_lines([f"note: {line}"], sys.stderr)
    return 0


def _transforms(flags: Mapping[str, Setting]) -> str:
    """The transforms that do today what a mode did.

    Raises:
        ParameterError: there is no such mode, or a number cannot be read.
    """
    mode, bits = str(flags["mode"]), int(flags["bitdepth"])
    if mode in ("round", "weights_rounded"):
        if not 1 <= bits <= 16:
            raise ParameterError(f"--bitdepth={bits} is not possible", hint="give 1 to 16")
        # So many different values fit into the bits.
        return f"strip_unused_nodes round_weights(num_steps={2**bits})"
    if mode == "weights":
        return "strip_unused_nodes quantize_weights"
    if mode == "eightbit":
        return f"strip_unused_nodes fold_constants quantize_weights {_nodes(flags)} sort_by_execution_order"
    hints = {
        "test": "`thinflow verify ORIGINAL.pb QUANTIZED.pb` compares two models",
        "quantize": "--mode=eightbit computes in eight bits",
    }
    raise ParameterError(
        f"--mode={mode} is not supported",
        hint=hints.get(mode) or closest(mode, _MODES) or f"choose one of {', '.join(_MODES)}",
    )


def _nodes(flags: Mapping[str, Setting]) -> str:
    options = {}
    if flags["quantized_input"]:
        options = {f"input_{end}": _number(flags, f"quantized_input_{end}") for end in ("min", "max")}
    fallback = [name for name in ("quantized_fallback_min", "quantized_fallback_max") if flags[name] != ""]
    if len(fallback) == 1:
        raise ParameterError(
            "--quantized_fallback_min and --quantized_fallback_max go together", hint="give both, or neither"
        )
    options |= {name.removeprefix("quantized_"): _number(flags, name) for name in fallback}
    text = ", ".join(f"{name}={value:g}" for name, value in options.items())
    return f"quantize_nodes({text})"


def _number(flags: Mapping[str, Setting], name: str) -> float:
    try:
        return float(flags[name])
    except ValueError:
        raise ParameterError(f"--{name}={flags[name]} is not a number", hint="give a number") from None
