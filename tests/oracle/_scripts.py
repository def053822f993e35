"""TensorFlow's scripts, run as their users run them: a process for each call, all with one import."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = "tensorflow.python.tools"
_NOISE = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "100"}


class Outcome(NamedTuple):
    """What a call left: its exit code and what it printed."""

    code: int
    out: str
    err: str


def originals(script: str, calls: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """Run `tensorflow/python/tools/<script>.py` in a folder, once for each list of arguments."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__],
        input=json.dumps([script, [list(map(str, call)) for call in calls], str(folder)]),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **_NOISE},
    )
    if done.returncode:
        raise RuntimeError(f"the scripts of TensorFlow could not be run: {done.stderr[-2000:]}")
    return [Outcome(*found) for found in json.loads(done.stdout.splitlines()[-1])]


def _import_all() -> None:
    """What the scripts import, but not themselves: flags cannot be defined twice."""
    import tensorflow as tf
    from tensorflow.python.debug.wrappers import local_cli_wrapper
    from tensorflow.python.tools import (
        optimize_for_inference_lib,
        saved_model_aot_compile,
        saved_model_utils,
        selective_registration_header_lib,
        strip_unused_lib,
    )
    from tensorflow.python.tpu import tpu

    assert all((tf, local_cli_wrapper, optimize_for_inference_lib, saved_model_aot_compile))
    assert all((saved_model_utils, selective_registration_header_lib, strip_unused_lib, tpu))


def _run(script: str, arguments: list[str], folder: Path) -> Outcome:
    """Fork, send both outputs to files, run the script there."""
    texts = [folder / f".{script}.{name}" for name in ("out", "err")]
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for descriptor, path in enumerate(texts, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        os._exit(_outcome_of(script, arguments))
    _, status = os.waitpid(child, 0)
    out, err = (path.read_text("utf-8", "replace") for path in texts)
    for path in texts:
        path.unlink()
    return Outcome(os.waitstatus_to_exitcode(status), out, err)


def _outcome_of(script: str, arguments: list[str]) -> int:
    """The exit code Python would end with."""
    sys.argv = [script, *arguments]
    code: Any = 0
    try:
        runpy.run_module(f"{_PACKAGE}.{script}", run_name="__main__")
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException as error:  # Python would print it and end with 1
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return 1 if isinstance(code, str) else (code or 0) & 255


def _main() -> None:
    script, calls, folder = json.load(sys.stdin)
    _import_all()
    sys.stdout.flush()
    sys.stderr.flush()
    print(json.dumps([_run(script, call, Path(folder)) for call in calls]))


if __name__ == "__main__":
    _main()
