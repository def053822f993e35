"""The `thinflow` command: runs a verb of the table in `thinflow.cli._commands`, and tells what ended it.

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
from typing import TYPE_CHECKING, Any

from thinflow.cli._commands import COMMANDS, DROP_INS, hint_for_unknown, module_of, overview
from thinflow.cli._gate import Guarded, fold
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thinflow.cli._parser import WrongUsage

# Packages that come with an extra of ours, by the name they are imported under.
_EXTRAS = {
    "PIL": "image",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "openvino": "openvino",
    "tensorboard": "tensorboard",
    "cryptography": "pack",
}

_FOR_MACHINES = ("ops", "completion", "help")
_MACHINE_FORMS = ("json", "csv", "markdown")
"""Flags for output that is not folded to the width of a terminal."""
_OLD_USAGE = (2, 255)  # wrong usage of the old tools
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
        # Before Python 3.12, what interrupts the making of a class comes wrapped in a RuntimeError.
        if isinstance(e.__cause__, KeyboardInterrupt):
            return _INTERRUPTED
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
        print(overview())
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
        _print_error(f"there is no command {verb!r}", hint_for_unknown(verb))
        return 2

    from importlib import import_module

    module = import_module(module_of(verb))
    if verb in DROP_INS:
        code = int(getattr(module, verb)(rest))
        if code in _OLD_USAGE:
            _tell_flags_of_others(verb, rest)
        return code

    from thinflow.cli._parser import parser_of

    parsed = parser_of(verb).parse_args(rest)
    if verb not in _FOR_MACHINES and not any(getattr(parsed, name, None) for name in _MACHINE_FORMS):
        from thinflow.cli._console import terminal_width

        fold(sys.stdout, terminal_width())
    from thinflow.cli._console import telling
    from thinflow.cli._interrupts import heard
    from thinflow.cli._streams import run_through, uses_streams

    with telling(), heard():
        if uses_streams(parsed):
            return run_through(verb, parsed, lambda given: _run_module(module, given))
        return _run_module(module, parsed)


def _run_module(module: Any, parsed: Any) -> int:
    """Run a command that has been parsed, with the layers that it was given."""
    lambdas = getattr(parsed, "lambdas", None)
    if not lambdas:
        return int(module.run(parsed))
    from thinflow.api import load_layer, require_layers

    names = [load_layer(text) for text in lambdas]
    code = int(module.run(parsed))
    # Only now, as each may be for another of several models.
    require_layers(names)
    return code


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
    from thinflow.errors import FeedError, FormatError, NodeError, ParameterError

    if isinstance(e, FormatError):
        return "the file may be damaged or cut short; make or download it again"
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
    _print_hint(hint)


def _print_hint(hint: str) -> None:
    if hint:
        print(f"hint: {one_line(hint)}", file=sys.stderr)


def _tell_flags_of_others(verb: str, args: list[str]) -> None:
    """Say which commands have the flags that an old tool does not have, below what it printed itself."""
    from thinflow.cli._elsewhere import sentence

    for flag in (word.partition("=")[0] for word in args if word.startswith("-")):
        if told := sentence(flag, verb):
            _print_hint(told)


def _exit_code(e: SystemExit) -> int:
    from thinflow.cli._parser import WrongUsage

    if isinstance(e, WrongUsage):
        _print_error(e.message, _usage_hint(e))
        return 2
    if e.code is None or isinstance(e.code, int):
        return e.code or 0
    _print_error(str(e.code), "")
    return 1


def _usage_hint(e: WrongUsage) -> str:
    """What may be meant by a flag that a command does not have, and which commands have it."""
    if not e.unknown:
        return e.hint
    from thinflow.cli._elsewhere import sentence

    told = sentence(e.unknown, e.verb)
    meant = e.hint if "did you mean" in e.hint or not told else ""
    return " ".join(filter(None, [meant, told]))


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
