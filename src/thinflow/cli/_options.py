"""Options that several commands share, `--feed` for two models among them, and how values are read."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from thinflow.cli._oldflags import unquoted
from thinflow.errors import ParameterError


def add_interface(p: ArgumentParser) -> None:
    """`--inputs`, `--outputs`, `--shape`."""
    p.add_argument("--inputs", metavar="NAMES", help="comma-separated input names; default: the best guess")
    p.add_argument("--outputs", metavar="NAMES", help="comma-separated output names; default: the best guess")
    add_shape(p)
    add_model_options(p)


def add_model_options(p: ArgumentParser) -> None:
    """`--tags`, `--signature`, `--checkpoint`: for models that keep their variables outside the graph."""
    p.add_argument("--tags", metavar="TAGS", help="of a SavedModel, the graph with these tags (serve)")
    p.add_argument("--signature", metavar="KEY", help="of a SavedModel, this signature (serving_default)")
    p.add_argument(
        "--checkpoint",
        metavar="PREFIX",
        help="the variables of a graph without: a prefix, .index or FOLDER@latest",
    )
    p.add_argument(
        "--lambda",
        dest="lambdas",
        action="append",
        default=[],
        metavar="NAME=FILE.py:FUNCTION",
        help="of a Keras model, what a Lambda layer or a custom class computes; the file is run, so trust it",
    )


def add_layouts(p: ArgumentParser) -> None:
    """`--input-layout`, `--output-layout`."""
    for side in ("input", "output"):
        p.add_argument(
            f"--{side}-layout",
            metavar="LAYOUT",
            help=f"where {side}s have their channels: nhwc (last), nchw (behind the batch), auto (where the"
            " model has them), or NAME=nhwc,...; default: as in the file",
        )


def add_scaling(p: ArgumentParser) -> None:
    """How pictures become numbers: `--mean` and `--std`."""
    said = "as the model's file says, else"
    p.add_argument("--mean", type=float, help=f"pictures: (pixel - mean) / std; default: {said} 0")
    p.add_argument("--std", type=float, help=f"see --mean; default: {said} 1")


def add_effort(p: ArgumentParser) -> None:
    """`--effort`."""
    p.add_argument(
        "--effort",
        metavar="NAME",
        help="how much to try for a better model, judged on samples held out: none, fast, default, best",
    )
    p.add_argument(
        "--recipe",
        metavar="FILE",
        help="make it as a recipe.toml says; nothing is tried unless --effort is given",
    )


def add_shape(p: ArgumentParser) -> None:
    """`--shape`."""
    p.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,224,224,3",
        help="shape of an input where the graph leaves it open (? or -1: unknown); repeat for several",
    )


def add_state(p: ArgumentParser) -> None:
    """`--state`."""
    p.add_argument(
        "--state",
        choices=("auto", "keep", "freeze", "inputs"),
        help="of variables that runs change: keep them from call to call (.tflite), freeze them as they were"
        " saved, or make them inputs and outputs; default auto: kept where the format can, else frozen",
    )


def add_strict(p: ArgumentParser) -> None:
    """`--strict`."""
    p.add_argument(
        "--strict",
        action="store_true",
        help="fail, and write nothing, if a file could hold only a part of the model, or none can be made",
    )


def add_plugin(p: ArgumentParser) -> None:
    """`--plugin`."""
    p.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a Python file with transforms of your own; it is run, so trust it; may be repeated",
    )


def load_plugins(args: Namespace) -> None:
    """Load what `--plugin` names."""
    if args.plugin:
        from thinflow.api import load_plugins as load

        load(args.plugin)


def add_json(p: ArgumentParser) -> None:
    """`--json`."""
    p.add_argument("--json", action="store_true", help="print the same content for machines")


def add_timeout(p: ArgumentParser) -> None:
    """`--timeout`."""
    p.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="how long an engine may take in a child process, which runs models first so that a crash or a "
        "hang loses nothing (default 300)",
    )


THREADS = (
    "--threads",
    "--num_threads",
    "--intra_op",
    "--intra_op_parallelism_threads",
    "--num_intra_threads",
)
"""What TensorFlow's guides, tools and settings call the threads that share the work of a node."""


def add_inter_op(p: ArgumentParser) -> None:
    """`--inter_op`."""
    p.add_argument(
        "--inter_op",
        "--inter_op_parallelism_threads",
        "--num_inter_threads",
        type=int,
        default=1,
        metavar="N",
        help="nodes that may run side by side; only onnxruntime can, the others run one by one (default 1)",
    )


def names(text: str | None) -> list[str] | None:
    """A comma-separated list, trimmed, empty items dropped; None stays None.

    Quotes around an item are dropped: on Windows the shell leaves them there, and names have none.
    """
    if text is None:
        return None
    # Each item by itself, as `'a','b'` is quoted so.
    items = (unquoted(item.strip()).strip() for item in text.split(","))
    return [item for item in items if item]


def shapes(texts: list[str]) -> dict[str, tuple[int | None, ...]]:
    """`["input=1,224,224,3"]` as a dict.

    Raises:
        ParameterError: malformed.
    """
    result: dict[str, tuple[int | None, ...]] = {}
    for text in texts:
        name, equals, sizes = text.partition("=")
        if not equals:
            raise ParameterError(
                f"--shape {text}: the name is missing", hint="write --shape NAME=1,224,224,3"
            )
        result[name.strip()] = read_shape(sizes)
    return result


def read_shape(text: str) -> tuple[int | None, ...]:
    """`1,?,3` as (1, None, 3); empty text is a scalar.

    Raises:
        ParameterError: a size is no number.
    """
    sizes: list[int | None] = []
    for item in filter(None, (t.strip() for t in text.strip("[]").split(","))):
        if item in {"?", "-1", "None"}:
            sizes.append(None)
        elif item.isdecimal():
            sizes.append(int(item))
        else:
            raise ParameterError(
                f"'{item}' is not a size", hint="write sizes like 1,224,224,3; ? for an unknown one"
            )
    return tuple(sizes)


def interface(args: Namespace) -> dict[str, Any]:
    """Keyword arguments for `thinflow.load` from the shared options."""
    return {
        "inputs": names(args.inputs),
        "outputs": names(args.outputs),
        "shapes": shapes(args.shape) or None,
        **model_options(args),
    }


def model_options(args: Namespace) -> dict[str, Any]:
    """Keyword arguments for `thinflow.load` from `add_model_options` and others, those that were given."""
    known = ("tags", "signature", "checkpoint", "state", "input_layout", "output_layout")
    given = {name: getattr(args, name, None) for name in known}
    return {name: value for name, value in given.items() if value is not None}


def model_flags(args: Namespace) -> str:
    """The flags of `add_model_options` again, for the next command."""
    # Not every command that may come next takes the others.
    taken = ("tags", "signature", "checkpoint")
    known = {name: value for name, value in model_options(args).items() if name in taken}
    lambdas = "".join(f" --lambda {shlex.quote(text)}" for text in getattr(args, "lambdas", []))
    return "".join(f" --{name} {shlex.quote(value)}" for name, value in known.items()) + lambdas


def interface_flags(args: Namespace) -> str:
    """The flags of `add_interface` again, for the next command."""
    return ends_flags(args) + model_flags(args) + shape_flags(args.shape)


def ends_flags(args: Namespace) -> str:
    """`--inputs` and `--outputs` again, for the next command."""
    return "".join(
        f" --{name} {shlex.quote(value)}" for name in ("inputs", "outputs") if (value := getattr(args, name))
    )


def shape_flag(name: str, sizes: Sequence[int | None]) -> str:
    """` --shape x=1,16` for the next command."""
    text = ",".join("?" if n is None else str(n) for n in sizes)
    return f" --shape {shlex.quote(f'{name}={text}')}"


def shape_flags(texts: list[str]) -> str:
    """The `--shape` flags again, for the next command."""
    return "".join(f" --shape {shlex.quote(t)}" for t in texts)


def add_feed(p: ArgumentParser) -> None:
    """`--feed`, for two models."""
    p.add_argument(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="real input, by name in the first model: .npy, .npz, or any file for a string input; "
        "one .npz without NAME= holds all inputs by name",
    )


def read_feed_flags(args: Namespace) -> dict[str, Any] | None:
    """One feed from files; None if there are none."""
    from thinflow.api import open_session, read_arrays, read_feeds

    if not args.feed:
        return None
    if len(args.feed) == 1 and "=" not in args.feed[0]:
        return read_arrays(args.feed[0])
    paths: dict[str, str] = {}
    for text in args.feed:
        name, equals, path = text.partition("=")
        if not equals:
            raise ParameterError(f"--feed {text}: the name is missing", hint="write --feed NAME=FILE")
        paths[name.strip()] = path
    wanted: dict[str, Any] = {"inputs": names(args.inputs), "outputs": names(args.outputs)}
    # The first model tells which inputs are text, for which any file will do.
    session = open_session(args.a, **wanted, **model_options(args))
    return read_feeds(session, paths)
