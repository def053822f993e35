"""The `thinflow` command: a table of verbs, and what happens when one of them fails.

A verb is the module `thinflow.cli.<verb>`, imported only when it is asked for. It defines
`add_arguments(parser)` and `run(args) -> int`, and may define `EXAMPLES`, shown at the end of its help.
A drop-in of an old tool, whose flags no modern parser reads, is the function of its name,
`<verb>(argv) -> int`, in a module of `thinflow.cli.compat`: see `DROP_INS`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING

from thinflow.cli._gate import Guarded
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

# By hand, so that the overview imports no command: a verb added to the folder needs its line here.
COMMANDS: dict[str, str] = {
    "optimize": "make a model small and fast, prove it unchanged, write what devices run",
    "inspect": "show what goes in, what comes out and what it costs",
    "transform": "apply chosen graph transforms and say what each did and why not",
    "transforms": "list the transforms, or explain one",
    "freeze": "turn the variables of a model into constants",
    "convert": "write a model in another format",
    "run": "compute outputs for given inputs",
    "verify": "compare the outputs of two models, and name the first tensor that differs",
    "diff": "say what changed from one graph to another: structure, weights, outputs",
    "reduce": "shrink a graph that fails to the smallest that still fails",
    "quantize": "store weights and activations in fewer bits",
    "benchmark": "measure latency and memory",
    "evaluate": "accuracy on labelled samples",
    "view": "draw a graph: SVG, PNG, DOT or a page for the browser",
    "sample": "write a bundled or generated model to try things on",
    "summarize_graph": "TensorFlow's summarize_graph, with its flags and output",
    "transform_graph": "TensorFlow's transform_graph, with its flags",
    "pack": "protect a model: a checksum, or encryption",
    "unpack": "the model of a package, in the clear",
    "ops": "list the operations a model needs, for builds that leave out the rest",
    "print_selective_registration_header": "TensorFlow's tool of that name, with its flags",
    "label_image": "TensorFlow's label_image: what is on a picture?",
    "label_wav": "TensorFlow's label_wav: what was said?",
    "benchmark_model": "TensorFlow's benchmark_model, with its flags and tables",
    "tflite_convert": "TensorFlow's tflite_convert, with its flags; see also convert and quantize",
    "toco": "TensorFlow's toco, with its flags; see also convert and quantize",
    "quantize_graph": "TensorFlow's quantize_graph, with its flags; see also transform and quantize",
    "compare_graphs": "TensorFlow's compare_graphs: are two GraphDefs equal?",
    "saved_model_cli": "TensorFlow's saved_model_cli: show, run and scan a SavedModel",
    "graph_to_dot": "TensorFlow's graph_to_dot, with its flags; see also view",
    "freeze_graph": "TensorFlow's freeze_graph, with its flags; see also freeze",
    "inspect_checkpoint": "TensorFlow's inspect_checkpoint, with its flags and layout",
    "strip_unused": "TensorFlow's strip_unused, with its flags",
    "optimize_for_inference": "TensorFlow's optimize_for_inference, with its flags",
    "graph_metrics": "TensorFlow's graph_metrics: operations and weights",
    "convert_graphdef_memmapped_format": "TensorFlow's tool of that name: weights used where they lie",
    "import_pb_to_tensorboard": "TensorFlow's tool of that name: a graph for TensorBoard",
}


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


# Packages that come with an extra of ours, by the name they are imported under.
_EXTRAS = {
    "PIL": "image",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "tensorboard": "tensorboard",
    "cryptography": "pack",
}

# What old tutorials call beside the tools above, and what does the same here.
_ELSEWHERE = {
    "check_graph": "thinflow summarize_graph --in_graph=MODEL",
    "classify_image": "thinflow label_image --graph=MODEL --image=PICTURE --labels=LABELS",
    "transform_chrome_trace": "it reads what --step_stats_name=FILE of thinflow benchmark_model writes",
    "test_streaming_accuracy": "`thinflow evaluate MODEL CLIPS --labels LABELS`, clip by clip",
    "wav_to_spectrogram": "thinflow run MODEL --outputs AudioSpectrogram --feed wav_data=CLIP --save OUT.npz",
}
_TRAINING = "nothing is trained here; train with TensorFlow, then: thinflow freeze_graph --help"
_ELSEWHERE |= dict.fromkeys(("train", "retrain", "eval", "generate_streaming_test_wav"), _TRAINING)
_FROM_CODE = "it makes a graph from Python code; export there, then: thinflow freeze_graph --help"
_ELSEWHERE |= dict.fromkeys(("export_inference_graph", "export_tflite_ssd_graph"), _FROM_CODE)

_INTERRUPTED = 130  # 128 + SIGINT, what a shell reports
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 failed, 2 wrong usage."""
    if argv is None:  # the process is ours: no search for garbage in what its end frees anyway
        atexit.register(gc.freeze)
    # A script with the line ends of Windows leaves a carriage return behind the last argument of each line.
    args = [a.rstrip("\r") if a != "\r" else a for a in (sys.argv[1:] if argv is None else argv)]
    debug = os.environ.get("THINFLOW_DEBUG", "") not in ("", "0")
    # Anywhere among the arguments, so that it can be put behind the command that just failed.
    if "--debug" in args:
        args.remove("--debug")
        debug = True
    if hasattr(sys.stdout, "reconfigure"):  # names from a model may not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    with Guarded():
        if not debug:
            return _run(args, debug)
        from thinflow.cli._console import log_on_stderr

        with log_on_stderr():
            return _run(args, debug)


def _run(args: list[str], debug: bool) -> int:
    """Run one command and tell what ended it, if something did."""
    try:
        try:
            code = _dispatch(args)
        finally:
            # Before the error is printed, which would else stand in the line of a bar.
            _clear_progress()
        # None where the process was started with it closed.
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk or a closed pipe must show here, not at interpreter exit
        return code
    except SystemExit as e:  # argparse
        return _exit_code(e)
    except KeyboardInterrupt as e:
        if str(e):
            _print_error(f"interrupted: {e}", "")
        return _INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return _BROKEN_PIPE
    except Exception as e:
        # It may have been stdout that could not be written, as on a full disk.
        if isinstance(e, OSError):
            _abandon_stdout()
        if debug:
            import traceback

            traceback.print_exc()
        problem, hint = _explain(e)
        _print_error(problem, _in_flags(hint, args), marked=_marks_a_place(e))
        return 1


def main_transform_graph() -> int:
    """Entry point of the `transform_graph` script."""
    return main(["transform_graph", *sys.argv[1:]])


def main_summarize_graph() -> int:
    """Entry point of the `summarize_graph` script."""
    return main(["summarize_graph", *sys.argv[1:]])


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("--help", "-h"):
        print(_overview())
        return 0
    verb, *rest = args
    if "\r" in rest:
        _print_error(
            "the command ends in the middle: a carriage return is behind the backslash that continues it",
            "the script has the line ends of Windows; take them out: sed -i 's/\\r$//' SCRIPT",
        )
        return 2
    if verb == "--version":
        import thinflow

        print(f"thinflow {thinflow.__version__}")
        return 0
    if verb not in COMMANDS:
        _print_error(f"there is no command {verb!r}", _hint_for_unknown(verb))
        return 2

    from importlib import import_module

    module = import_module(module_of(verb))
    if verb in DROP_INS:
        return int(getattr(module, verb)(rest))

    from thinflow.cli._parser import Parser

    parser = Parser(verb, COMMANDS[verb], getattr(module, "EXAMPLES", ""))
    module.add_arguments(parser)
    parsed = parser.parse_args(rest)
    if lambdas := getattr(parsed, "lambdas", None):
        from thinflow.api import load_layer, require_layers

        names = [load_layer(text) for text in lambdas]
        code = int(module.run(parsed))
        # Only now, as each may be for another of several models.
        require_layers(names)
        return code
    return int(module.run(parsed))


def _overview() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "thinflow makes trained networks small and fast, without the framework that made them",
            "",
            "usage: thinflow COMMAND [OPTIONS]",
            "",
            "commands:",
            *(f"  {verb:{width}}  {text}" for verb, text in COMMANDS.items()),
            "",
            "options:",
            f"  {'--debug':{width}}  show tracebacks of errors and logs (also: THINFLOW_DEBUG=1)",
            f"  {'--version':{width}}  print the version",
            f"  {'--help':{width}}  print this, or after a command its options",
            "",
            "next: thinflow optimize --help",
        ]
    )


def _hint_for_unknown(verb: str) -> str:
    from thinflow.errors import closest

    if os.path.exists(verb):
        import shlex

        return f"a command comes first: thinflow inspect {shlex.quote(verb)}"
    if verb in _ELSEWHERE:
        return _ELSEWHERE[verb]
    return closest(verb, COMMANDS) or "'thinflow --help' lists the commands"


def _explain(e: Exception) -> tuple[str, str]:
    """Problem and hint for an exception that ended a command."""
    import errno

    from thinflow.errors import ThinflowError

    if isinstance(e, ThinflowError):
        return e.message, e.hint or _general_hint(e)
    if isinstance(e, MemoryError):
        return "out of memory", "use a machine with more memory, or a smaller batch or fewer samples"
    if isinstance(e, ModuleNotFoundError) and (extra := _EXTRAS.get((e.name or "").partition(".")[0])):
        return f"the package {e.name!r} is not installed", f'pip install "thinflow[{extra}]"'
    if isinstance(e, OSError):
        hints = {
            errno.ENOENT: "check the path",
            errno.EACCES: "check who may read or write it",
            errno.EPERM: "check who may read or write it",
            errno.ENOSPC: "free some space or write somewhere else",
            errno.EDQUOT: "free some space or write somewhere else",
            errno.EROFS: "write somewhere else",
        }
        where = f"{os.fsdecode(e.filename)}: " if isinstance(e.filename, str | bytes) else ""
        hint = hints.get(e.errno or 0, "add --debug to see where it happened")
        return f"{where}{e.strerror or e or type(e).__name__}", hint
    return (
        f"thinflow has a bug: {type(e).__name__}: {e}",
        "run it again with --debug and report the traceback",
    )


def _in_flags(hint: str, args: list[str]) -> str:
    """A hint in the words of the command that was given."""
    from thinflow.cli._hints import told_after

    return told_after(hint, args) if hint else ""


def _general_hint(e: Exception) -> str:
    """A next step for an error that does not know a better one."""
    from thinflow.errors import FeedError, NodeError, ParameterError

    if isinstance(e, NodeError):
        return "'thinflow summarize_graph --print_structure --in_graph=MODEL' shows the node and its inputs"
    if isinstance(e, FeedError):
        return "'thinflow inspect MODEL' tells what its inputs take"
    return "add --help to the command for its options" if isinstance(e, ParameterError) else ""


def _marks_a_place(e: Exception) -> bool:
    """Whether the message shows the user's own text with a caret under it, on lines of their own."""
    from thinflow.errors import ParseError

    return isinstance(e, ParseError)


def _print_error(problem: str, hint: str, *, marked: bool = False) -> None:
    lines = problem.split("\n") if marked else [problem]
    print("error: " + "\n".join(map(one_line, lines)), file=sys.stderr)
    if hint:
        print(f"hint: {one_line(hint)}", file=sys.stderr)


def _exit_code(e: SystemExit) -> int:
    if e.code is None or isinstance(e.code, int):
        return e.code or 0
    _print_error(str(e.code), "")
    return 1


def _clear_progress() -> None:
    """Take a half-drawn progress bar off the terminal, if anything ever drew one."""
    if console := sys.modules.get("thinflow.cli._console"):
        console.clear_progress()


def _abandon_stdout() -> None:
    """Let the interpreter's own last flush go nowhere: it would fail again and print a traceback."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # no stdout, or one that is not a file
        return
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
