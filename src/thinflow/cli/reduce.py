"""`thinflow reduce`: the smallest graph that still fails."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines
from thinflow.cli._feeds import add_feed, read_feed_flags
from thinflow.cli._making import add_transforms
from thinflow.cli._options import (
    add_engine,
    add_interface,
    add_json,
    add_model,
    add_output,
    add_seed,
    add_timeout,
    add_tolerance,
    interface,
)
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow reduce model.pb small.pb --transforms 'fold_constants fold_batch_norms'
  thinflow reduce model.pb small.pb --engine litert --feed inputs.npz
  thinflow reduce model.pb small.pb --command './my_test {}'
  thinflow reduce small.pb --check --engine litert --feed small.npz      # does it fail?
"""
_SHOWN_NODES = 30
"""A graph of more is in its file only."""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    add_output(p, "where to write the result: a .pb file; its feeds go beside it", needed=False)
    add_transforms(p)
    add_engine(p, None)
    p.add_argument(
        "--command",
        help="a program that ends with a code other than 0; {} is the .pb file, {feeds} an .npz of inputs",
    )
    add_feed(p)
    add_tolerance(p)
    add_timeout(p, 60.0)
    p.add_argument("--trials", type=int, default=1000, metavar="N", help="at most so many (default 1000)")
    p.add_argument("--check", action="store_true", help="do not reduce, only tell whether it fails")
    add_seed(p)
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
    ends = interface(args)
    return {
        "transforms": " ".join(args.transforms) if args.transforms else None,
        "engine": args.engine,
        "command": args.command,
        "tolerance": args.tolerance,
        "timeout": args.timeout,
        "seed": args.seed,
        "feeds": read_feed_flags(args, args.model),
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
