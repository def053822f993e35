"""TensorFlow's tools that rewrite a graph, with verification and a ledger."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError, closest

EXAMPLES = {
    "transform_graph": """
  thinflow transform_graph --in_graph=frozen.pb --out_graph=small.pb --inputs=x --outputs=y \
--transforms='strip_unused_nodes fold_constants(ignore_errors=true) fold_batch_norms'
  thinflow transform_graph --in_graph=frozen.pb --out_graph=small.pb --inputs=x --outputs=y \
--transforms='quantize_weights' --report=report.json
""",
    "quantize_graph": """
  thinflow quantize_graph --input=model.pb --output=rounded.pb --output_node_names=y --mode=round
  thinflow quantize_graph --input=model.pb --output=small.pb --output_node_names=y --mode=weights
  thinflow quantize_graph --input=model.pb --output=eightbit.pb --output_node_names=y --mode=eightbit
""",
    "strip_unused": """
  thinflow strip_unused --input_graph=model.pb --input_binary=true --output_graph=small.pb \
--input_node_names=x --output_node_names=y
  thinflow strip_unused --input_graph=model.pb --output_graph=small.pbtxt --output_binary=false \
--input_node_names=a,b:1 --output_node_names=y
""",
    "optimize_for_inference": """
  thinflow optimize_for_inference --input=frozen.pb --output=small.pb --input_names=x --output_names=y
  thinflow optimize_for_inference --input=frozen.pb --output=small.pb --input_names=x --output_names=y \
--toco_compatible --placeholder_to_const_names=phase_train=False
""",
}

TRANSFORM_GRAPH = OldFlags(
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
    examples=EXAMPLES["transform_graph"],
)


def transform_graph(argv: Sequence[str]) -> int:
    values = TRANSFORM_GRAPH.parse(argv)
    if values is None:
        if any(a.lstrip("-") in {"help", "h"} for a in argv):
            _print_transforms()
            return 0
        return USAGE_EXIT
    for name in ("in_graph", "out_graph", "transforms"):
        if not str(values[name]).strip():
            print(f"{name} can't be empty.\n{TRANSFORM_GRAPH.usage()}", file=sys.stderr)
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
        print(f"You must specify at least one transform.\n{TRANSFORM_GRAPH.usage()}", file=sys.stderr)
        return USAGE_EXIT
    load_plugins(names(flags["plugin"]) or [])
    result = transform_with_ledger(
        os.path.expanduser(flags["in_graph"]),
        flags["transforms"],
        # Empty and not None: what is not named is not guessed either.
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


QUANTIZE_GRAPH = OldFlags(
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
    examples=EXAMPLES["quantize_graph"],
)  # fmt: skip
_MODES = ("round", "weights_rounded", "weights", "eightbit")


def quantize_graph(argv: Sequence[str]) -> int:
    flags = QUANTIZE_GRAPH.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("input", "output", "output_node_names"):
        if not flags[name]:
            print(f"the flag --{name} is required\n{QUANTIZE_GRAPH.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._ledger import about_graph
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
    for line in about_graph(made):
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


STRIP_UNUSED = OldFlags(
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
    examples=EXAMPLES["strip_unused"],
)


def strip_unused(argv: Sequence[str]) -> int:
    values = STRIP_UNUSED.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    flags = {name: str(value).strip() for name, value in values.items()}
    for name in ("input_graph", "output_graph", "input_node_names", "output_node_names"):
        if not flags[name]:
            print(f"the flag --{name} is required\n{STRIP_UNUSED.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._options import names
    from thinflow.compat.graph_scripts import strip_unused

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


OPTIMIZE_FOR_INFERENCE = OldFlags(
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
    examples=EXAMPLES["optimize_for_inference"],
)


def optimize_for_inference(argv: Sequence[str]) -> int:
    values = OPTIMIZE_FOR_INFERENCE.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("input", "output", "input_names", "output_names"):
        if not str(values[name]).strip():
            print(f"the flag --{name} is required\n{OPTIMIZE_FOR_INFERENCE.usage()}", file=sys.stderr)
            return USAGE_EXIT
    import thinflow
    from thinflow.cli._console import progress
    from thinflow.cli._ledger import ledger_lines
    from thinflow.cli._options import names
    from thinflow.compat.graph_scripts import optimize_for_inference

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
