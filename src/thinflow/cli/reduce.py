"""`thinflow reduce`: the smallest graph that still fails."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_interface, add_json, interface
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow reduce model.pb small.pb --transforms 'fold_constants fold_batch_norms'
  thinflow reduce model.pb small.pb --engine litert --feeds inputs.npz
  thinflow reduce model.pb small.pb --command './my_test {}'
  thinflow reduce small.pb --check --engine litert --feeds small.npz      # does it fail?
"""
_SHOWN_NODES = 30
"""A graph of more is in its file only."""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("model", help="a GraphDef, SavedModel or whatever else opens")
    p.add_argument("output", nargs="?", help="where to write the result: a .pb file; its feeds go beside it")
    p.add_argument(
        "-t", "--transforms", metavar="TRANSFORMS", help="transforms that fail, or change what is computed"
    )
    p.add_argument("--engine", help="an engine that fails, or disagrees with the reference")
    p.add_argument(
        "--command",
        help="a program that ends with a code other than 0; {} is the .pb file, {feeds} an .npz of inputs",
    )
    p.add_argument("--feeds", metavar="FILE.npz", help="the inputs by name (default: made up)")
    p.add_argument(
        "--tolerance", type=float, help="largest relative difference that is no failure (default: it depends)"
    )
    p.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for one trial (default 60)")
    p.add_argument("--trials", type=int, default=1000, metavar="N", help="at most so many (default 1000)")
    p.add_argument("--check", action="store_true", help="do not reduce, only tell whether it fails")
    p.add_argument("--seed", type=int, default=0, help="for made-up inputs")
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    import thinflow
    from thinflow.api import failure, save_reduction
    from thinflow.cli._console import progress

    options = _options(args)
    if args.check:
        return _told(args, failure(args.model, **options))
    if args.output is None:
        raise ParameterError(
            "no output file was given", hint=f"name it behind {shlex.quote(args.model)}, or add --check"
        )
    found = thinflow.reduce(args.model, **options, trials=args.trials, progress=progress())
    _print_found(args, found, save_reduction(found, args.output))
    return 0


def _options(args: Namespace) -> dict[str, Any]:
    """What both looking for a failure and reducing it need to know."""
    from thinflow.api import read_arrays

    ends = interface(args)
    return {
        "transforms": args.transforms,
        "engine": args.engine,
        "command": args.command,
        "tolerance": args.tolerance,
        "timeout": args.timeout,
        "seed": args.seed,
        "feeds": None if args.feeds is None else read_arrays(args.feeds),
        **{key: ends[key] for key in ("inputs", "outputs", "shapes")},
    }


def _print_found(args: Namespace, found: Any, command: str) -> None:
    """The reduction, and the command that shows the failure again."""
    import json

    if args.json:
        data = {
            "outcome": found.outcome,
            "nodes": list(found.nodes),
            "trials": found.trials,
            "output": args.output,
            "command": command,
        }
        print(json.dumps(data, indent=2))
        return
    print(found if found.nodes[1] <= _SHOWN_NODES else found.verdict)
    print(f"next: {command}")


def _told(args: Namespace, outcome: str) -> int:
    import json

    if args.json:
        print(json.dumps({"fails": bool(outcome), "outcome": outcome}))
    else:
        print_lines([f"it fails: {outcome}" if outcome else "it does not fail"])
    # As a test: failing is what the code says.
    return 1 if outcome else 0
