"""`thinflow inspect_checkpoint`: TensorFlow's script of that name, line for line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help
from thinflow.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from thinflow.formats.checkpoint import Checkpoint
    from thinflow.ir.types import TensorSpec

EXAMPLES = """
  thinflow inspect_checkpoint --file_name=model.ckpt-7
  thinflow inspect_checkpoint --file_name=model.ckpt-7 --tensor_name=conv1/weights \
--printoptions precision=3 threshold=50
"""
FLAGS = OldFlags(
    "inspect_checkpoint",
    {
        "file_name": ("", "the checkpoint: its prefix, any of its files, or its folder"),
        "tensor_name": ("", "print this variable"),
        "all_tensors": (False, "print all variables with their values"),
        "all_tensor_names": (False, "print the names, types and shapes of all variables"),
        "count_exclude_pattern": ("", "leave variables that match this pattern out of the count"),
        "printoptions": ("", "NAME=VALUE [NAME=VALUE ...], for numpy.set_printoptions"),
        "verify_checksum": (False, "read everything and tell which variables are damaged, and where"),
        "json": (False, "print the list for machines"),
    },
    python=True,
    examples=EXAMPLES,
)
_USAGE = (
    "Usage: inspect_checkpoint --file_name=checkpoint_file_name [--tensor_name=tensor_to_print] "
    "[--all_tensors] [--all_tensor_names] [--count_exclude_pattern] [--printoptions]"
)
_PRINT_FLAG = "printoptions"  # or the beginning of it
_NUMPY_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


def inspect_checkpoint(argv: Sequence[str]) -> int:
    # `--printoptions a=1 b=2` takes any number of words, which `OldFlags` does not know.
    plain, options = _taken_out(argv)
    values = FLAGS.parse(plain)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not values["file_name"]:
        print(_USAGE)
        return 1
    return _shown(values, options)


def _shown(values: dict[str, Any], print_options: list[str]) -> int:
    """Print what the flags ask for; the exit code."""
    import os

    from thinflow.api import load_checkpoint

    if values["printoptions"]:
        print_options.insert(0, str(values["printoptions"]))
    settings = _print_options(print_options)
    name = os.path.expanduser(str(values["file_name"]))
    checkpoint = load_checkpoint(name)
    if values["json"]:
        return _print_data(name, checkpoint)
    if values["verify_checksum"]:
        return _verify(checkpoint)
    if not _print_tensors(checkpoint, values, settings):
        return 1
    _print_count(checkpoint, str(values["count_exclude_pattern"]))
    return 0


def _print_data(name: str, checkpoint: Checkpoint) -> int:
    import json

    from thinflow.cli._inspect_text import checkpoint_data

    print(json.dumps(checkpoint_data(name, checkpoint), indent=2))
    return 0


def _print_tensors(checkpoint: Checkpoint, values: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Print every variable, the one that is named, or the list of them; whether what is named is there."""
    everything, wanted = bool(values["all_tensors"]), str(values["tensor_name"])
    if everything or values["all_tensor_names"]:
        for key in checkpoint.keys_of_all():
            _print_tensor(checkpoint, key, settings, with_value=everything)
    elif not wanted:
        _print_list(checkpoint)
    elif wanted in checkpoint:
        _print_tensor(checkpoint, wanted, settings, with_value=True)
    else:
        print_lines([f"Tensor {wanted} not found in checkpoint"])
        return False
    return True


def _print_list(checkpoint: Checkpoint) -> None:
    """A line for each variable and an empty one, as TensorFlow's reader describes itself.

    Of a partitioned variable version 2 shows the parts, under the keys they are stored by, bytes that command
    a terminal spelled as `\\x00`; version 1 shows the whole, and how many parts there are.
    """
    for key, spec, parts in checkpoint.stored():
        text = key.decode("utf-8", "ignore")
        count = f", {parts} slices" if parts > 1 else ""
        shape = ",".join(map(str, spec.shape or ()))
        print_lines([f"{text} (DT_{str(spec.dtype).upper()}) [{shape}]{count}"])
    print()


def _verify(checkpoint: Checkpoint) -> int:
    """Read every value; a line for each that is damaged. The exit code."""
    from thinflow.api import variable_states
    from thinflow.errors.plain_text import one_line

    states = list(variable_states(checkpoint))
    damaged = [state for state in states if state.problem]
    for state in damaged:
        print(one_line(f"{state.name}: {state.problem}"))
    print(f"# Verified {len(states)} tensors, {len(damaged)} of them damaged")
    return 1 if damaged else 0


def _print_tensor(checkpoint: Checkpoint, key: str, settings: dict[str, Any], *, with_value: bool) -> None:
    import numpy as np

    spec = checkpoint.spec(key)
    name = str(spec.dtype)
    print_lines([f"tensor: {key} ({_NUMPY_NAMES.get(name, name)}) {list(spec.shape or ())}"])
    if not with_value:
        return
    try:
        value = checkpoint.tensor(key).numpy()
    except FormatError as error:
        if "object, not numbers" not in error.problem:
            raise
        print("<not convertible to a numpy dtype>")
        return
    with np.printoptions(**settings):
        print(value)


def _print_count(checkpoint: Checkpoint, pattern: str) -> None:
    """The number of numbers, text left out."""
    try:
        excluded = re.compile(pattern) if pattern else None
    except re.error as e:
        raise ParameterError(
            f"--count_exclude_pattern {pattern}: {e}", hint="write a regular expression"
        ) from e
    specs = [(key, checkpoint.spec(key)) for key in checkpoint.keys_of_all()]
    left_out = [spec for key, spec in specs if excluded is not None and excluded.search(key)]
    counted = [spec for key, spec in specs if excluded is None or not excluded.search(key)]
    if excluded is not None:
        print(
            f"# Excluding {len(left_out)} tensors ({sum(map(_params, left_out))} params) that match "
            f"{pattern} when counting."
        )
    print(f"# Total number of params: {sum(map(_params, counted))}")


def _params(spec: TensorSpec) -> int:
    return 0 if str(spec.dtype) == "string" else math.prod(size or 0 for size in spec.shape or ())


def _taken_out(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without those that follow --printoptions, which takes any number; and those."""
    plain: list[str] = []
    options: list[str] = []
    taking = False
    for argument in argv:
        if argument.startswith("-") and _PRINT_FLAG.startswith(argument.lstrip("-") or "?"):
            taking = True
        elif taking and not argument.startswith("-"):
            options.append(argument)
        else:
            taking = False
            plain.append(argument)
    return plain, options


def _print_options(texts: Sequence[str]) -> dict[str, Any]:
    """What numpy.set_printoptions takes, each in the type it has now.

    Raises:
        ParameterError: no such option, or a value of another type.
    """
    import numpy as np

    known: dict[str, Any] = {**np.get_printoptions()}
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ParameterError(
                f"--printoptions {text}: no such option of numpy",
                hint=f"choose one of {', '.join(sorted(known))}",
            )
        # An option without a value has no type to read a text by.
        if known[name] is None:
            raise ParameterError(f"--printoptions {name} cannot be set here", hint="leave it out")
        try:
            found[name] = (
                value.lower() in {"true", "1"} if isinstance(known[name], bool) else type(known[name])(value)
            )
        except ValueError as e:
            raise ParameterError(f"--printoptions {text}: {e}", hint="give a value of its type") from e
    return found
