"""`-` for a model: standard input; `-` for what is written: standard output.

A model that comes in is written aside into a temporary file, as models are mapped and read in any order; what
goes out is a temporary file first, so that nothing half-made is sent on. Meanwhile what the command says goes
to standard error.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thinflow.cli._gate import Gate, behind
from thinflow.errors import FormatError, ParameterError

_MODELS = ("model", "models", "a", "b", "others", "package")
_WRITES = {"output": "", "fix": ".pb", "html": ".html"}
"""Arguments that say where to write, and the suffix where `-` does not say one; of "output" see below."""
_SUFFIXES = {"convert": ".tflite", "quantize": ".tflite", "run": ".npz", "view": ".html", "pack": ".tfpack"}
"""What is written where `-` does not say; `-.onnx` does. Others write a GraphDef."""
_TEXT = (".pbtxt", ".dot", ".svg", ".html", ".htm")
_INPUT, _OUTPUT = "standard input", "standard output"


def uses_streams(parsed: Namespace) -> bool:
    """Whether a command reads or writes a standard stream."""
    return bool(_inputs(parsed) or _outputs(parsed)) or _is_folder_stream(parsed)


def run_through(verb: str, parsed: Namespace, run: Callable[[Namespace], int]) -> int:
    """Run a command whose model, or what it writes, is a standard stream; its exit code.

    Raises:
        ParameterError: a stream is wanted where none can be, or is a terminal.
        FormatError: nothing comes in.
    """
    import tempfile

    if _is_folder_stream(parsed):
        raise ParameterError(f"a folder cannot go to {_OUTPUT}", hint=f"name it: thinflow {verb} MODEL OUT")
    writes = _outputs(parsed)
    if len(writes) > 1:
        raise ParameterError(f"two files cannot go to {_OUTPUT}", hint="name one of them")
    suffix = _suffix(verb, parsed, writes[0]) if writes else ""
    if writes:
        _require_no_terminal(suffix)
    # On some systems a file that is still mapped cannot be deleted; it goes with the folder of the system.
    with tempfile.TemporaryDirectory(prefix="thinflow-", ignore_cleanup_errors=True) as folder:
        source, target = os.path.join(folder, "stdin"), os.path.join(folder, "out", f"stdout{suffix}")
        _call_them(source, target, suffix)
        if _inputs(parsed):
            _take_in(verb, parsed, source)
        if not writes:
            return run(parsed)
        os.mkdir(os.path.dirname(target))
        setattr(parsed, writes[0], target)
        with _said_on_stderr() as stdout:
            code = run(parsed)
        if os.path.exists(target):
            _send_on(target, stdout)
        return code


def _is_stream(text: object) -> bool:
    """`-`, or `-.onnx`."""
    return isinstance(text, str) and (text == "-" or (text.startswith("-.") and "/" not in text))


def _is_folder_stream(parsed: Namespace) -> bool:
    return _is_stream(getattr(parsed, "out_dir", None))


def _outputs(parsed: Namespace) -> list[str]:
    """The names of the arguments that are standard output."""
    return [name for name in _WRITES if _is_stream(getattr(parsed, name, None))]


def _suffix(verb: str, parsed: Namespace, name: str) -> str:
    return getattr(parsed, name)[1:] or _WRITES[name] or _SUFFIXES.get(verb, ".pb")


def _inputs(parsed: Namespace) -> list[str]:
    """The names of the arguments that are standard input."""
    given = {name: getattr(parsed, name, None) for name in _MODELS}
    return [
        name for name, value in given.items() if value == "-" or (isinstance(value, list) and "-" in value)
    ]


def _take_in(verb: str, parsed: Namespace, path: str) -> None:
    """Write standard input aside, and put its place where `-` stood."""
    _write_aside(verb, path)
    for name in _inputs(parsed):
        value = getattr(parsed, name)
        new = [path if one == "-" else one for one in value] if isinstance(value, list) else path
        setattr(parsed, name, new)


def _write_aside(verb: str, path: str) -> None:
    stream = sys.stdin
    hint = f"send one: cat MODEL | thinflow {verb} -"
    if stream is None or stream.isatty():
        raise ParameterError(
            f"no model comes from {_INPUT}: it is {'a terminal' if stream else 'closed'}", hint=hint
        )
    import shutil

    with open(path, "wb") as file:
        shutil.copyfileobj(stream.buffer, file, 1 << 20)
        size = file.tell()
    if not size:
        raise FormatError("it is empty: no model came in", _INPUT, hint=hint)


def _require_no_terminal(suffix: str) -> None:
    if sys.stdout is not None and sys.stdout.isatty() and not suffix.endswith(_TEXT):
        raise ParameterError(
            f"{_OUTPUT} is a terminal, which cannot show a {suffix} file",
            hint="name a file, or send it on: > FILE",
        )


@contextmanager
def _said_on_stderr() -> Iterator[Any]:
    """What is printed goes to standard error; standard output is kept for what is written."""
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield stdout
    finally:
        sys.stdout = stdout


def _send_on(path: str, stdout: Any) -> None:
    """The file to standard output, and what lies beside it to be named."""
    import shutil

    beside = [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)]
    if any(name.endswith(".data") for name in beside):
        raise ParameterError(
            f"its weights are in a second file, which {_OUTPUT} cannot hold", hint="name a file"
        )
    stream = behind(stdout)
    stream.flush()
    with open(path, "rb") as file:
        shutil.copyfileobj(file, stream.buffer, 1 << 20)
    stream.buffer.flush()
    for name in beside:
        print(f"note: {name} was made, too, and is not part of {_OUTPUT}", file=sys.stderr)


def _call_them(source: str, target: str, suffix: str) -> None:
    """Have the temporary files called by what they stand for, whatever is printed about them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Gate):
            stream.called = {
                source: (_INPUT, "MODEL"),
                target: (_OUTPUT, f"OUT{suffix}"),
            }
