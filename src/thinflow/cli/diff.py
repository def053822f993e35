"""`thinflow diff`: what changed from one graph to another?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, BooleanOptionalAction, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import (
    add_feed,
    add_json,
    add_model_options,
    ends_flags,
    model_flags,
    model_options,
    names,
    read_feed_flags,
)

EXAMPLES = """
  thinflow diff model.pb optimised.pb
  thinflow diff before.pb after.pb --all --no-numerics
  thinflow diff model.pb model.tflite                 # what became of each node, layer by layer
  thinflow diff model.tflite model_int8.tflite --all
  thinflow diff model.pb optimised.pb --json
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("a", help="a GraphDef, SavedModel or whatever else opens")
    p.add_argument("b", help="what became of it")
    p.add_argument("--inputs", metavar="NAMES", help="comma-separated input names; default: the best guess")
    p.add_argument("--outputs", metavar="NAMES", help="comma-separated output names; default: the best guess")
    add_feed(p)
    add_model_options(p)
    p.add_argument("--all", action="store_true", help="list every difference")
    p.add_argument(
        "--numerics",
        action=BooleanOptionalAction,
        default=None,
        help="run both and compare the outputs (default: unless the graphs are huge)",
    )
    p.add_argument(
        "--tolerance", type=float, default=1e-4, help="largest relative difference of outputs (default 1e-4)"
    )
    p.add_argument("--seed", type=int, default=0, help="for made-up inputs")
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    found = thinflow.diff(
        args.a,
        args.b,
        read_feed_flags(args),
        inputs=names(args.inputs),
        outputs=names(args.outputs),
        numerics=args.numerics,
        tolerance=args.tolerance,
        seed=args.seed,
        **model_options(args),
    )
    if args.json:
        print(json.dumps(found.data(), indent=2))
    else:
        print_lines(found.lines(everything=args.all))
        pair = f"{shlex.quote(args.a)} {shlex.quote(args.b)}"
        print(f"next: thinflow verify {pair}{ends_flags(args)}{model_flags(args)}")
    # As diff of Unix does.
    return 0 if found.is_equal else 1
