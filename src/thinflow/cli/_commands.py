"""The table of commands, by hand so that the overview imports none of them."""

from __future__ import annotations

import os

PURPOSE = "thinflow makes trained networks small and fast, without their framework"

# A verb added to the folder needs its line here, in the group that it belongs to.
COMMANDS: dict[str, str] = {
    "optimize": "make a model small and fast, prove it, write what devices run",
    "quantize": "store weights and activations in fewer bits",
    "transform": "apply graph transforms; say what each did, and why not",
    "freeze": "turn the variables of a model into constants",
    "convert": "write a model in another format",
    "deploy": "a folder that builds, for a phone, a board or a page",
    "inspect": "show what goes in, what comes out and what it costs",
    "lint": "what an expert would notice, what it costs and what mends it",
    "survey": "what is in a folder of models, and what is a copy",
    "view": "explore a model in a page of one file, or draw it",
    "diff": "say what changed: structure, weights, outputs",
    "ops": "operations a model needs, for builds without the rest",
    "fit": "flash, memory and time on a microcontroller, and chips for it",
    "run": "compute outputs for given inputs",
    "verify": "compare the outputs of two models; name what differs first",
    "evaluate": "accuracy on labelled samples",
    "benchmark": "measure latency and memory",
    "check": "whether models keep their budgets, for workflows",
    "reduce": "shrink a graph that fails to the smallest that still fails",
    "pack": "protect a model: a checksum, or encryption",
    "unpack": "the model of a package, in the clear",
    "help": "explain a command, as --help behind it does",
    "transforms": "list the transforms, or explain one",
    "completion": "a script that completes commands and flags in a shell",
    "sample": "write a bundled or generated model to try things on",
    "summarize_graph": "TensorFlow's summarize_graph, with its flags and output",
    "transform_graph": "TensorFlow's transform_graph, with its flags",
    "freeze_graph": "TensorFlow's freeze_graph, with its flags; see also freeze",
    "benchmark_model": "TensorFlow's benchmark_model, with its flags and tables",
    "compare_graphs": "TensorFlow's compare_graphs: are two GraphDefs equal?",
    "convert_graphdef_memmapped_format": "TensorFlow's tool of that name: weights used where they lie",
    "graph_metrics": "TensorFlow's graph_metrics: operations and weights",
    "graph_to_dot": "TensorFlow's graph_to_dot, with its flags; see also view",
    "import_pb_to_tensorboard": "TensorFlow's tool of that name: a graph for TensorBoard",
    "inspect_checkpoint": "TensorFlow's inspect_checkpoint, with its flags and layout",
    "label_image": "TensorFlow's label_image: what is on a picture?",
    "label_wav": "TensorFlow's label_wav: what was said?",
    "optimize_for_inference": "TensorFlow's optimize_for_inference, with its flags",
    "print_selective_registration_header": "TensorFlow's tool of that name, with its flags",
    "quantize_graph": "TensorFlow's quantize_graph, with its flags; see quantize",
    "saved_model_cli": "TensorFlow's saved_model_cli: show, run and scan a SavedModel",
    "strip_unused": "TensorFlow's strip_unused, with its flags",
    "tflite_convert": "TensorFlow's tflite_convert, with its flags; see also convert",
    "toco": "TensorFlow's toco, with its flags; see also convert",
}

_GROUPS = {
    "optimize": "make models",
    "inspect": "look at models",
    "run": "prove and measure",
    "pack": "packages",
    "help": "help and samples",
    "summarize_graph": "TensorFlow's old tools",
}
"""Titles of the overview by the first command of each group; what follows it belongs to it."""

GENERAL = {
    "--debug": "show tracebacks of errors and logs (also: THINFLOW_DEBUG=1)",
    "--version": "print the version",
    "--help": "print this, or after a command its options",
}
"""Flags without a command."""


def groups() -> dict[str, list[str]]:
    """The commands by the titles of the overview."""
    found: dict[str, list[str]] = {}
    for verb in COMMANDS:
        title = _GROUPS.get(verb) or next(reversed(found), "commands")
        found.setdefault(title, []).append(verb)
    return found


DROP_INS: dict[str, str] = {
    "benchmark_model": "benchmark_model",
    "compare_graphs": "compare_graphs",
    "convert_graphdef_memmapped_format": "frozen_graphs",
    "freeze_graph": "frozen_graphs",
    "graph_metrics": "graph_views",
    "graph_to_dot": "graph_views",
    "import_pb_to_tensorboard": "graph_views",
    "inspect_checkpoint": "inspect_checkpoint",
    "label_image": "labels",
    "label_wav": "labels",
    "optimize_for_inference": "rewriters",
    "print_selective_registration_header": "print_selective_registration_header",
    "quantize_graph": "rewriters",
    "saved_model_cli": "saved_model_cli",
    "strip_unused": "rewriters",
    "summarize_graph": "graph_views",
    "tflite_convert": "converters",
    "toco": "converters",
    "transform_graph": "rewriters",
}
"""The modules of `thinflow.cli.compat` by the old tools that they are drop-ins for."""


def module_of(verb: str) -> str:
    """The dotted name of the module that a verb is, or that its function lies in."""
    return f"thinflow.cli.compat.{DROP_INS[verb]}" if verb in DROP_INS else f"thinflow.cli.{verb}"


# What old tutorials call beside the tools above, and what does the same here.
_ELSEWHERE = {
    "check_graph": "thinflow summarize_graph --in_graph=MODEL",
    "classify_image": "thinflow label_image --graph=MODEL --image=PICTURE --labels=LABELS",
    "transform_chrome_trace": "it reads what --step_stats_name=FILE of thinflow benchmark_model writes",
    "test_streaming_accuracy": "`thinflow evaluate MODEL CLIPS --labels LABELS`, clip by clip",
    "wav_to_spectrogram": "thinflow run MODEL --outputs AudioSpectrogram --feed wav_data=CLIP -o OUT.npz",
}
_TRAINING = "nothing is trained here; train with TensorFlow, then: thinflow freeze_graph --help"
_ELSEWHERE |= dict.fromkeys(("train", "retrain", "eval", "generate_streaming_test_wav"), _TRAINING)
_FROM_CODE = "it makes a graph from Python code; export there, then: thinflow freeze_graph --help"
_ELSEWHERE |= dict.fromkeys(("export_inference_graph", "export_tflite_ssd_graph"), _FROM_CODE)

_COLUMN = 17  # of the overview, which leaves 61 of 80 for what stands beside it


def overview() -> str:
    """What `thinflow --help` prints."""
    lines = [PURPOSE, "", "usage: thinflow COMMAND [OPTIONS]"]
    for title, verbs in groups().items():
        lines += ["", f"{title}:", *(_row(verb, COMMANDS[verb]) for verb in verbs)]
    lines += ["", "options:", *(_row(flag, text) for flag, text in GENERAL.items())]
    return "\n".join([*lines, "", "next: thinflow optimize --help"])


def _row(name: str, text: str) -> str:
    """A line of the overview; a name that is too long for its column has one of its own."""
    gap = " " if len(name) < _COLUMN else f"\n{' ' * (_COLUMN + 2)}"
    return f"  {name:{_COLUMN - 1}}{gap}{text}"


def hint_for_unknown(verb: str) -> str:
    """What may be meant by a word that is no command."""
    from thinflow.errors import closest

    if os.path.exists(verb):
        import shlex

        return f"a command comes first: thinflow inspect {shlex.quote(verb)}"
    if verb in _ELSEWHERE:
        return _ELSEWHERE[verb]
    return closest(verb, COMMANDS) or "'thinflow --help' lists the commands"
