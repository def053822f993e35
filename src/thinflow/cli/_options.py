"""Options that several commands share, and how values are read.

What means the same has one spelling, one metavar and one sentence of help everywhere; what it was called
before, here or in TensorFlow's tools, is an alias.
"""

from __future__ import annotations

import shlex
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from thinflow.cli._oldflags import unquoted
from thinflow.cli._parser import OutputFlag
from thinflow.cli._values import EFFORTS, ENGINES
from thinflow.errors import ParameterError


def add_alias(p: ArgumentParser, flag: Action, *spellings: str) -> None:
    """Further spellings of a flag, which are understood and not listed."""
    p._option_string_actions.update(dict.fromkeys(spellings, flag))


def add_model(p: ArgumentParser, more: str = "", *, needed: bool = True) -> None:
    """The word that says which model."""
    kinds = "GraphDef, SavedModel, .meta, .onnx, .tflite, .h5, .keras, .json"
    p.add_argument("model", nargs=None if needed else "?", help=f"any model: {kinds}{more and f'; {more}'}")


def add_output(p: ArgumentParser, what: str, *, word: str = "output", needed: bool = True) -> Action:
    """Where to write: a word behind the model, or `-o`.

    Args:
        p: the parser.
        what: is written there.
        word: what the word is called; "" for a command that has the flag alone.
        needed: whether one of both must be given.

    Returns:
        The flag.
    """
    if word:
        p.add_argument(word, nargs="?", help=what)
    flag = p.add_argument(
        *("-o", "--output"),
        action=OutputFlag,
        dest="output_flag" if word else "output",
        metavar="FILE",
        help=f"where to write; {f'the same as {word}' if word else what}",
    )
    assert isinstance(flag, OutputFlag)
    flag.word, flag.needed = word, needed
    return flag


def add_interface(p: ArgumentParser) -> None:
    """`--inputs`, `--outputs`, `--shape`, and `add_model_options`."""
    add_ends(p)
    add_shape(p)
    add_model_options(p)


def add_ends(p: ArgumentParser) -> None:
    """`--inputs`, `--outputs`."""
    for side in ("input", "output"):
        p.add_argument(
            f"--{side}s",
            metavar="NAMES",
            help=f"comma-separated {side} names; default: those of the signature, else the best guess",
        )


def add_engine(p: ArgumentParser, default: str | None, *, several: bool = False) -> None:
    """`--engine`."""
    told = f" (default {default})" if default else ""
    flag = p.add_argument(
        "--engine",
        default=default,
        metavar="ENGINE[,ENGINE...]" if several else "ENGINE",
        help=f"what runs graphs: {', '.join(ENGINES)}{told}",
    )
    add_alias(p, flag, "--engines")


def add_seed(p: ArgumentParser, *, several: bool = False, type: Any = int) -> None:
    """`--seed`."""
    p.add_argument(
        "--seed",
        type=str if several else type,
        default="0" if several else 0,
        metavar="N[,N...]" if several else "N",
        help="seed of what is made up (default 0)",
    )


def add_tolerance(p: ArgumentParser, default: float | None = None) -> None:
    """`--tolerance`."""
    p.add_argument(
        "--tolerance",
        type=float,
        default=default,
        metavar="X",
        help="largest difference that is none, relative to the largest value (default 1e-4"
        f"{'' if default else ', 1e-3 between two engines, more where numbers are coarser'})",
    )


def add_all(p: ArgumentParser) -> None:
    """`--all`."""
    p.add_argument("--all", action="store_true", help="list everything, not only the first few")


def add_list(p: ArgumentParser) -> None:
    """`--list`."""
    p.add_argument("--list", action="store_true", help="list what there is to choose from")


def add_key_file(p: ArgumentParser) -> None:
    """`--key-file`."""
    p.add_argument(
        "--key-file",
        metavar="FILE",
        help="file with the key: 32 bytes, 64 hexadecimal digits, or a passphrase; default: the variables "
        "THINFLOW_KEY_FILE or THINFLOW_KEY, or typed",
    )


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
    """How pictures become numbers: `--mean`, `--std`, `--resize`, `--crop`, `--channels`."""
    said = "as the model's file says, else"
    p.add_argument(
        "--mean",
        metavar="X[,X...]",
        help=f"pictures: (pixel - mean) / std, one number or one for each channel; default: {said} 0",
    )
    p.add_argument("--std", metavar="X[,X...]", help=f"see --mean; default: {said} 1")
    p.add_argument(
        "--resize",
        metavar="SIZE",
        help="pictures: HEIGHTxWIDTH, or their shorter side, before they are cut; default: the model's size",
    )
    p.add_argument("--crop", metavar="CROP", help="pictures: center cuts the model's size out of the middle")
    p.add_argument("--channels", metavar="ORDER", help=f"pictures: rgb or bgr; default: {said} rgb")


def scaling_options(args: Namespace) -> dict[str, Any]:
    """Keyword arguments for `picture_scaling` from `add_scaling`.

    Raises:
        ParameterError: a number cannot be read.
    """
    return {
        "mean": channel_numbers("--mean", args.mean),
        "std": channel_numbers("--std", args.std),
        "resize": _picture_size(args.resize),
        "crop": args.crop,
        "channels": args.channels,
    }


def channel_numbers(flag: str, text: str | None) -> float | list[float] | None:
    if text is None:
        return None
    try:
        found = [float(item) for item in text.split(",")]
    except ValueError as e:
        raise ParameterError(f"{flag} {text} is no number", hint=f"write {flag} 127.5, or 123,117,104") from e
    return found[0] if len(found) == 1 else found


def _picture_size(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    # Height first, as in shapes; most pictures that networks take are square anyway.
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() for side in sides):
        raise ParameterError(f"--resize {text} is no size", hint="write --resize 224x224, or --resize 256")
    return int(sides[0]) if len(sides) == 1 else (int(sides[0]), int(sides[1]))


def scaling_flags(args: Namespace) -> str:
    """The flags of `add_scaling` again, for the next command."""
    names = ("mean", "std", "resize", "crop", "channels")
    return "".join(f" --{n} {shlex.quote(v)}" for n in names if (v := getattr(args, n)) is not None)


def add_effort(p: ArgumentParser) -> None:
    """`--effort`."""
    p.add_argument(
        "--effort",
        metavar="EFFORT",
        help=f"how much to try for a better model, judged on samples held out: {', '.join(EFFORTS)}",
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
        help="of variables that runs change: keep them from call to call (.tflite, .c), freeze them as they"
        " were saved, or make them inputs and outputs; default auto: kept where the format can, else frozen",
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


def add_json(p: Any) -> None:
    """`--json`, on a parser or a group."""
    p.add_argument("--json", action="store_true", help="print the same content for machines")


def add_timeout(p: ArgumentParser, default: float | None = None) -> None:
    """`--timeout`."""
    p.add_argument(
        "--timeout",
        type=float,
        default=default,
        metavar="S",
        help="seconds that a model may run in a child process, which it does first so that a crash or a hang "
        f"loses nothing (default {default or 300:g})",
    )


def add_threads(p: ArgumentParser, default: str = "1", *, several: bool = False) -> None:
    """`--threads`, and what TensorFlow's guides, tools and settings call it."""
    flag = p.add_argument(
        "--threads",
        type=str if several else int,
        default=default if several else int(default),
        metavar="N[,N...]" if several else "N",
        help=f"threads that share the work of a node (default {default})",
    )
    add_alias(p, flag, "--num_threads", "--intra_op", "--intra_op_parallelism_threads", "--num_intra_threads")


def add_inter_op(p: ArgumentParser) -> None:
    """`--inter-op`."""
    flag = p.add_argument(
        "--inter-op",
        type=int,
        default=1,
        metavar="N",
        help="nodes that may run side by side; only onnxruntime can, the others run one by one (default 1)",
    )
    add_alias(p, flag, "--inter_op", "--inter_op_parallelism_threads", "--num_inter_threads")


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


def add_html(p: ArgumentParser) -> None:
    """`--html`."""
    p.add_argument("--html", metavar="FILE", help="also write a page with charts, to look at and to show")


def check_html(args: Namespace) -> None:
    """Make sure that the page can be written, before what it is about takes its time.

    Raises:
        PagesUnavailable: it cannot.
    """
    if args.html is not None:
        from thinflow.api import require_pages

        require_pages()


def html_lines(args: Namespace) -> list[str]:
    """A line on the page, if one is written."""
    return [] if args.html is None else [f"page: {args.html}"]


def add_cluster(p: ArgumentParser, what: str) -> None:
    """`--cluster` and `--store`; what: is done there."""
    p.add_argument(
        "--cluster",
        metavar="CLUSTER",
        help=f"work on Dask: local, local:N, or tcp://HOST:PORT of a scheduler; there it will {what}",
    )
    p.add_argument(
        "--store",
        metavar="FOLDER",
        help="keep results there, a folder or URL that all machines reach: a run that was stopped goes on"
        " from them",
    )
