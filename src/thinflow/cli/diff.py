"""`thinflow diff`: what changed from one graph to another?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, BooleanOptionalAction, Namespace

from thinflow.cli._console import print_lines, progress
from thinflow.cli._feeds import add_feed, read_feed_flags
from thinflow.cli._options import (
    add_all,
    add_ends,
    add_html,
    add_json,
    add_model_options,
    add_seed,
    add_tolerance,
    check_html,
    ends_flags,
    html_lines,
    model_flags,
    model_options,
    names,
)

EXAMPLES = """
  thinflow diff model.pb optimised.pb
  thinflow diff before.pb after.pb --all --no-numerics
  thinflow diff model.pb model.tflite                 # what became of each node, layer by layer
  thinflow diff model.tflite model_int8.tflite --all
  thinflow diff model.pb optimised.pb --json
  thinflow diff model.pb model_int8.tflite --html diff.html    # a page to show
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("a", help="a GraphDef, SavedModel or whatever else opens")
    p.add_argument("b", help="what became of it")
    add_ends(p)
    add_feed(p, "by name in the first model")
    add_model_options(p)
    add_all(p)
    p.add_argument(
        "--numerics",
        action=BooleanOptionalAction,
        default=None,
        help="run both and compare the outputs (default: unless the graphs are huge)",
    )
    add_tolerance(p, 1e-4)
    add_seed(p)
    add_html(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    check_html(args)
    found = thinflow.diff(
        args.a,
        args.b,
        read_feed_flags(args, args.a),
        inputs=names(args.inputs),
        outputs=names(args.outputs),
        numerics=args.numerics,
        tolerance=args.tolerance,
        seed=args.seed,
        progress=progress(),
        **model_options(args),
    )
    if args.json:
        print(json.dumps(found.data(), indent=2))
    else:
        print_lines(found.lines(everything=args.all))
        print_lines([*html_lines(args), f"next: {_next(args)}"])
    if args.html is not None:
        found.save_html(args.html, [_next(args)])
    # As diff of Unix does.
    return 0 if found.is_equal else 1


def _next(args: Namespace) -> str:
    pair = f"{shlex.quote(args.a)} {shlex.quote(args.b)}"
    return f"thinflow verify {pair}{ends_flags(args)}{model_flags(args)}"
