"""`thinflow view`: a picture of a graph."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_json

EXAMPLES = """
  thinflow view model.pb -o model.svg
  thinflow view model.pb -o model.html --depth 1
  thinflow view export_dir -o model.dot --constants
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("model", help="a model of any kind")
    p.add_argument(
        "-o", "--output", metavar="FILE", help="what to write: .svg, .html, .png or .dot (default MODEL.html)"
    )
    p.add_argument("--constants", action="store_true", help="draw constants as boxes of their own")
    p.add_argument(
        "--depth",
        type=int,
        metavar="N",
        help="draw scopes below N levels as one box each (default: all levels up to 1000 boxes)",
    )
    p.add_argument("--no-functions", dest="functions", action="store_false", help="draw the main graph only")
    p.add_argument("--tags", metavar="TAGS", help="of a SavedModel, the graph with these tags (serve)")
    p.add_argument(
        "--engine",
        choices=("graphviz", "thinflow"),
        help="who places the boxes (default: Graphviz for .svg and .png where it is installed)",
    )
    add_json(p)


def run(args: Namespace) -> int:
    import json
    from pathlib import Path

    from thinflow.api.pictures.draw import draw
    from thinflow.cli._console import human_bytes

    output = args.output or f"{Path(args.model).resolve().name.split('.')[0]}.html"
    drawn = draw(
        args.model,
        output,
        constants=args.constants,
        depth=args.depth,
        functions=args.functions,
        tags=args.tags,
        engine=args.engine,
    )
    if args.json:
        print(json.dumps(vars(drawn), indent=2))
        return 0
    print(f"wrote {drawn.path}: {drawn.boxes} boxes, {drawn.arrows} arrows, {human_bytes(drawn.size_bytes)}")
    for note in drawn.notes:
        print_lines([f"  {note}"])
    print(f"next: thinflow inspect {shlex.quote(args.model)}")
    return 0
