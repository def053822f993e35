"""`thinflow saved_model_cli`: show, run and scan of TensorFlow's tool, from the file alone."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.errors import ParameterError, WriteError, closest
from thinflow.errors.plain_text import file_names, one_line

if TYPE_CHECKING:
    from thinflow.formats.metagraph import MetaGraph

_Adds = Callable[[ArgumentParser], None]
_Runs = Callable[[Namespace], int]
_Command = tuple[_Adds, _Runs]

USAGE_EXIT = 2
EXAMPLES = """
  thinflow saved_model_cli show --dir=export --all
  thinflow saved_model_cli show --dir=export --tag_set=serve --signature_def=serving_default
  thinflow saved_model_cli run --dir=export --tag_set=serve --signature_def=serving_default --inputs=x=x.npy
  thinflow saved_model_cli run --dir=export --tag_set=serve --signature_def=serving_default \
--input_exprs='x=np.ones((2, 3))' --outdir=results --overwrite
  thinflow saved_model_cli scan --dir=export --op_denylist=ReadFile,WriteFile
"""
_USAGE = "usage: thinflow saved_model_cli show|run|scan --dir DIR ...; --help after one lists its flags"

# What the original makes, and what makes something like it here.
_ELSEWHERE = {
    "convert": (
        "TensorRT's ops, which only TensorFlow runs",
        "thinflow convert {} OUT.tflite",
    ),
    "freeze_model": ("the input of XLA's compiler", "thinflow freeze {} -o frozen.pb"),
    "aot_compile_cpu": (
        "machine code, with XLA's compiler",
        "thinflow convert {} OUT.tflite",
    ),
}


_WITH_A_VALUE = (
    *("dir", "tag_set", "signature_def", "outdir", "worker", "op_denylist"),
    *("inputs", "input_exprs", "input_examples"),
)


def saved_model_cli(argv: Sequence[str]) -> int:
    commands = _commands()
    place = _place_of_command(argv, (*commands, *_ELSEWHERE))
    name = "" if place is None else argv[place]
    if name in _ELSEWHERE:
        made, instead = _ELSEWHERE[name]
        raise ParameterError(
            f"saved_model_cli {name} is not here: it makes {made}",
            hint=instead.format(_folder(argv) or "DIR"),
        )
    if name in commands:
        rest = [word for i, word in enumerate(argv) if i != place]
        return _run_command(name, rest, *commands[name])
    first = argv[0] if argv else ""
    if first in ("--version", "-v"):
        # The version that the original says of itself.
        print("0.1.0")
        return 0
    if first.lstrip("-") in ("help", "h", "helpfull", "helpshort") and first.startswith("-"):
        print(f"{_USAGE}\nexamples:{EXAMPLES}", end="")
        return 0
    if first:
        print(f"there is no command '{one_line(first)}'", file=sys.stderr)
    if near := closest(first, (*commands, *_ELSEWHERE)):
        print(f"hint: {near}", file=sys.stderr)
    print(_USAGE, file=sys.stderr)
    return USAGE_EXIT


def _place_of_command(argv: Sequence[str], known: Sequence[str]) -> int | None:
    """Where the subcommand stands; flags may come before it. None if there is none."""
    # A first word that is neither flag nor command is a mistake, though a command may follow.
    if not argv or (not argv[0].startswith("-") and argv[0] not in known):
        return None
    # A folder, or a key, may be called like a command.
    is_value = [False, *map(_takes_the_next_word, argv)]
    return next((i for i, word in enumerate(argv) if word in known and not is_value[i]), None)


def _takes_the_next_word(word: str) -> bool:
    """Whether it is a flag, or the beginning of one, whose value stands apart."""
    name = word.lstrip("-")
    return word.startswith("-") and bool(name) and any(flag.startswith(name) for flag in _WITH_A_VALUE)


def _folder(argv: Sequence[str]) -> str:
    """What `--dir` names, as the shell would read it back."""
    import shlex

    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == "dir":
            return shlex.quote(value if equals else after)
    return ""


def _commands() -> dict[str, _Command]:
    """What adds the flags of each command, and what runs it."""
    return {
        "show": (_show_arguments, _show),
        "run": (_run_arguments, _run),
        "scan": (_scan_arguments, _scan),
    }


def subparsers() -> dict[str, ArgumentParser]:
    """The parser of each command."""
    return {name: _parser(name, *parts) for name, parts in _commands().items()}


def _parser(name: str, add_arguments: _Adds, run: _Runs) -> ArgumentParser:
    from thinflow.cli._parser import Parser

    own = "\n".join(line for line in EXAMPLES.splitlines() if f" {name} " in line)
    parser = Parser(f"saved_model_cli {name}", (run.__doc__ or "").strip().splitlines()[0], own)
    # The original took the beginning of a flag for the flag.
    parser.allow_abbrev = True
    parser.add_argument("--dir", required=True, help="the SavedModel's folder")
    add_arguments(parser)
    return parser


def _run_command(name: str, argv: Sequence[str], add_arguments: _Adds, run: _Runs) -> int:
    parser = _parser(name, add_arguments, run)
    spelt = [_two_dashes(word) for word in argv]
    args, unknown = parser.parse_known_args(spelt)
    if unknown:
        flags = [flag for action in parser._actions for flag in action.option_strings]
        near = closest(unknown[0].partition("=")[0], flags) or f"'{parser.prog} --help' lists the options"
        print(f"error: unrecognized arguments: {one_line(' '.join(unknown))}\nhint: {near}", file=sys.stderr)
        return USAGE_EXIT
    args.dir = os.path.expanduser(args.dir)
    return run(args)


def _two_dashes(word: str) -> str:
    """`-flag` as `--flag`; numbers and `-h` as they are."""
    is_flag = word.startswith("-") and not word.startswith("--") and len(word) > 2 and word[1].isalpha()
    return f"-{word}" if is_flag else word


def _add_switch(p: ArgumentParser, name: str, text: str) -> None:
    """`--name`, `--name=false` and `--noname`: the original's releases differ in which they take."""
    p.add_argument(f"--{name}", nargs="?", const=True, default=False, type=_switch, metavar="BOOL", help=text)
    p.add_argument(
        f"--no{name}", dest=name, action="store_false", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def _switch(word: str) -> bool:
    from thinflow.cli._oldflags import as_switch

    setting = as_switch(word)
    if setting is None:
        raise argparse.ArgumentTypeError(f"'{word}' is neither true nor false")
    return setting


# --- show ---------------------------------------------------------------------------------------------------


def _show_arguments(p: ArgumentParser) -> None:
    _add_switch(p, "all", "everything")
    p.add_argument("--tag_set", help="tags of a graph, comma-separated")
    p.add_argument("--signature_def", metavar="KEY", help="key of a signature")
    _add_switch(p, "list_ops", "with --tag_set: the ops of the graph")
    p.add_argument("--json", action="store_true", help="everything, for machines")


def _show(args: Namespace) -> int:
    """Show the graphs, signatures and functions of a SavedModel."""
    import json

    from thinflow.cli.compat._saved_models import all_lines, data, ops_line, signature_lines
    from thinflow.compat.saved_models import meta_graph, meta_graphs, signature_message, tags_of

    lines: list[str] = []
    if args.json:
        print(json.dumps([data(meta) for meta in meta_graphs(args.dir)], indent=2))
        return 0
    if args.all:
        lines = all_lines(meta_graphs(args.dir))
    elif args.tag_set is None:
        sets = sorted(tags_of(meta) for meta in meta_graphs(args.dir))
        lines = ["--list_ops must be paired with a tag-set or with --all."] if args.list_ops else []
        lines.append("The given SavedModel contains the following tag-sets:")
        lines += [repr(", ".join(sorted(tags))) for tags in sets]
    else:
        meta = meta_graph(args.dir, args.tag_set)
        lines = [ops_line(meta)] if args.list_ops else []
        if args.signature_def is None:
            lines += _key_lines(meta)
        else:
            lines += signature_lines(signature_message(meta, args.signature_def), 0)
    print("\n".join(map(one_line, lines)))
    return 0


def _key_lines(meta: MetaGraph) -> list[str]:
    lines = ["The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:"]
    return lines + [f'SignatureDef key: "{key}"' for key in sorted(meta.message.signature_def)]


# --- run ----------------------------------------------------------------------------------------------------


_IGNORED = ("tf_debug", "init_tpu", "use_tfrt", "worker")


def _run_arguments(p: ArgumentParser) -> None:
    p.add_argument("--tag_set", required=True, help="tags of the graph, comma-separated")
    p.add_argument("--signature_def", required=True, metavar="KEY", help="key of the signature")
    p.add_argument("--inputs", default="", help="'k=file.npy;k2=file.npz[var]'")
    p.add_argument("--input_exprs", default="", help="'k=[[1, 2]];k2=np.ones((2, 3))'")
    p.add_argument("--input_examples", default="", help="'k=[{\"feature\": [1.0]}]', as tf.Example messages")
    p.add_argument("--outdir", metavar="DIR", help="write each output to DIR/KEY.npy")
    _add_switch(p, "overwrite", "replace files in --outdir")
    _add_switch(p, "allow_pickle", "read pickles, which may run any program")
    for ignored in _IGNORED[:-1]:
        _add_switch(p, ignored, "ignored")
    p.add_argument("--worker", help="ignored")


def _run(args: Namespace) -> int:
    """Compute the outputs of a signature."""
    from thinflow.compat.saved_models import run_signature

    for name in filter(vars(args).get, _IGNORED):
        print(f"warning: --{name} changes nothing: the model runs in this process", file=sys.stderr)
    feeds = _feeds(args)
    results = run_signature(args.dir, args.tag_set, args.signature_def, feeds)
    paths = _paths(args, list(results)) if args.outdir else {}
    for key, array in results.items():
        print_lines([f"Result for output key {key}:"])
        print(array)
        if key in paths:
            _save(paths[key], array)
            print_lines([f"Output {key} is saved to {paths[key]}"])
    return 0


def _feeds(args: Namespace) -> dict[str, Any]:
    from thinflow.compat.input_texts import from_examples, from_expressions, from_files

    if not (args.inputs or args.input_exprs or args.input_examples):
        raise ParameterError(
            "no inputs are given", hint="give at least one of --inputs, --input_exprs and --input_examples"
        )
    feeds, warnings = from_files(args.inputs, allow_pickle=args.allow_pickle)
    for source in (from_expressions(args.input_exprs), from_examples(args.input_examples)):
        warnings += [f"'{name}' is given twice; the later one counts" for name in source if name in feeds]
        feeds |= source
    for text in warnings:
        print_lines([f"warning: {text}"], sys.stderr)
    return feeds


def _paths(args: Namespace, keys: Sequence[str]) -> dict[str, str]:
    """Output -> file, all checked before anything is written."""
    names = file_names(keys)
    paths = {key: os.path.join(args.outdir, f"{name}.npy") for key, name in names.items()}
    for path in paths.values():
        if os.path.exists(path) and not args.overwrite:
            raise WriteError("this file exists", path, hint="add --overwrite to replace it")
    return paths


def _save(path: str, array: Any) -> None:
    import numpy as np

    os.makedirs(os.path.dirname(path), exist_ok=True)
    # numpy writes objects only by pickling; texts become byte strings of one length.
    np.save(path, array.astype("S") if array.dtype.hasobject else array, allow_pickle=False)


# --- scan ---------------------------------------------------------------------------------------------------


def _scan_arguments(p: ArgumentParser) -> None:
    p.add_argument("--tag_set", help="tags of a graph, comma-separated; default: every graph")
    p.add_argument("--op_denylist", default="", help="ops to look for, comma-separated")
    p.add_argument("--json", action="store_true", help="print the same content for machines")


def _scan(args: Namespace) -> int:
    """Look for ops that touch the machine a model runs on."""
    import json

    from thinflow.cli._options import names
    from thinflow.cli.compat._saved_models import set_text
    from thinflow.compat.saved_models import RISKY_OPS, meta_graph, meta_graphs, op_counts, tags_of

    listed = names(args.op_denylist)
    metas = meta_graphs(args.dir) if args.tag_set is None else [meta_graph(args.dir, args.tag_set)]
    found = []
    for meta in metas:
        ops = op_counts(meta)
        found.append((tags_of(meta), {op: ops[op] for op in sorted(listed or RISKY_OPS) if op in ops}))
    if args.json:
        print(json.dumps([{"tags": tags, "ops": ops} for tags, ops in found], indent=2))
        return 0
    which = "denylisted" if listed else "default denylisted"
    for tags, ops in found:
        verb, shown = ("contains", ops) if ops else ("does not contain", listed or RISKY_OPS)
        print(
            one_line(
                f"MetaGraph with tag set {tags} {verb} the {'following' if ops else which} "
                f"{'denylisted ops' if ops else 'ops'}: {set_text(shown)}"
            )
        )
    return 0
