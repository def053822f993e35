"""`thinflow view`: a page to explore a model in, or a picture of it."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_alias, add_json, add_model, add_output

EXAMPLES = """
  thinflow view model.pb
  thinflow view model.tflite -o model.html --values
  thinflow view before.pb after.pb -o both.html
  thinflow view model.pb int8.tflite --error -o noise.html
  thinflow view model.tflite --profile --placement
  thinflow view model.pb --transforms "fold_constants fold_batch_norms"
  thinflow view export_dir --model-explorer -o graph.json
  thinflow view model.pb -o model.svg --depth 1
  thinflow view export_dir -o model.dot --constants
"""

_WRITTEN = (".html", ".htm", ".svg", ".png", ".dot")


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    p.add_argument("others", nargs="*", metavar="MODEL_B", help="a second one to compare with")
    add_output(
        p,
        "an .html file, a page to explore (default MODEL.html), or a picture: .svg, .png or .dot",
        word="",
        needed=False,
    )
    p.add_argument("--tabs", action="store_true", help="page: the models as tabs, without a comparison")
    p.add_argument("--lifted", action="store_true", help="page: TensorFlow's ops, on which transforms work")
    p.add_argument(
        "--no-weights", dest="weights", action="store_false", help="page: do not look into constants"
    )
    p.add_argument(
        "--values", action="store_true", help="page: hold all numbers of the constants; a large file"
    )
    for flag, what in (
        ("--profile", "page: time of each node, by the engine's profiler (default engine: the usual one)"),
        ("--placement", "page: which nodes the engine runs, and why not the others (default: auto)"),
    ):
        p.add_argument(flag, nargs="?", const="auto", metavar="ENGINE", help=what)
    p.add_argument(
        "--error",
        nargs="?",
        const=True,
        metavar="MODEL",
        help="page: noise of each tensor against another model (default: MODEL_B)",
    )
    p.add_argument("--ranges", metavar="FOLDER|FILE", help="page: ranges of activations over these samples")
    p.add_argument(
        "--transforms",
        "-t",
        metavar="TRANSFORMS",
        help="a transform string; page: the model before and after, with what each left",
    )
    p.add_argument(
        "--calibration",
        metavar="FOLDER|FILE",
        help="real samples; up to eight are fed, and without them inputs are made up",
    )
    p.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="threads that share the work of a node; page: of --profile (default 1)",
    )
    p.add_argument(
        "--model-explorer",
        action="store_true",
        help="JSON for Google's Model Explorer, in place of a page (default MODEL.json)",
    )
    p.add_argument("--tags", metavar="TAGS", help="of a SavedModel, the graph with these tags (serve)")
    p.add_argument("--constants", action="store_true", help="picture: draw constants as boxes of their own")
    p.add_argument(
        "--depth",
        type=int,
        metavar="N",
        help="picture: draw scopes below N levels as one box each (default: all levels up to 1000 boxes)",
    )
    p.add_argument(
        "--no-functions", dest="functions", action="store_false", help="picture: draw the main graph only"
    )
    placed = p.add_argument(
        "--layout",
        dest="engine",
        choices=("graphviz", "thinflow"),
        help="picture: who places the boxes (default: Graphviz for .svg and .png where it is installed)",
    )
    add_alias(p, placed, "--engine")
    add_json(p)


def run(args: Namespace) -> int:
    from thinflow.api.viewing import default_output

    _require_models(args.others)
    if args.model_explorer:
        return _model_explorer(args)
    output = args.output or default_output(args.model)
    if output.lower().endswith((".html", ".htm")):
        return _page(args, output)
    return _picture(args, output)


def _require_models(others: list[str]) -> None:
    """Refuse what was meant to be written.

    Raises:
        FormatError: there is no such file, and it would be a page or a picture.
    """
    import os

    from thinflow.errors import FormatError

    for name in others:
        if name.lower().endswith(_WRITTEN) and not os.path.exists(name):
            raise FormatError(
                "there is no such file, and it is the name of a page or a picture, not of a second model",
                name,
                hint=f"write to it by -o {shlex.quote(name)}",
            )


def _page(args: Namespace, output: str) -> int:
    import thinflow
    from thinflow.cli._console import human_bytes, progress

    other = args.others[0] if args.others and not args.tabs else None
    tabs = args.others if args.tabs else args.others[1:]
    made = thinflow.view(
        args.model,
        other,
        output,
        tabs=tabs,
        lifted=args.lifted,
        weights=args.weights,
        values=args.values,
        profile=args.profile,
        placement=args.placement,
        error=args.error,
        ranges=args.ranges,
        transforms=args.transforms,
        calibration=args.calibration,
        threads=args.threads,
        tags=args.tags,
        progress=progress(),
    )
    if args.json:
        import json

        told = {"path": made.path, "size_bytes": made.size_bytes, "nodes": made.nodes, "notes": made.notes}
        print(json.dumps(told, indent=2))
        return 0
    nodes = " and ".join(str(count) for count in made.nodes)
    print(f"wrote {made.path}: {nodes} nodes, {human_bytes(made.size_bytes)}; open it in a browser")
    print_lines([f"  {note}" for note in made.notes])
    print(f"next: thinflow inspect {shlex.quote(args.model)}")
    return 0


def _model_explorer(args: Namespace) -> int:
    from thinflow.api.viewing import default_output, write_model_explorer
    from thinflow.errors import ParameterError

    if args.others:
        raise ParameterError("--model-explorer writes one model", hint="write a file for each")
    output = args.output or f"{default_output(args.model).removesuffix('.html')}.json"
    if not output.lower().endswith(".json"):
        raise ParameterError(f"{output}: Model Explorer reads JSON", hint="end the name in .json")
    written = write_model_explorer(args.model, output, tags=args.tags)
    if args.json:
        import json

        print(json.dumps({"files": written}, indent=2))
        return 0
    print(f"wrote {written[0]}: a graph for Model Explorer; open it with model-explorer")
    print_lines([f"  {path}: node data" for path in written[1:]])
    print(f"next: thinflow view {shlex.quote(args.model)}")
    return 0


def _picture(args: Namespace, output: str) -> int:
    import json

    from thinflow.api.pictures.draw import draw
    from thinflow.cli._console import human_bytes

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
    print_lines([f"  {note}" for note in drawn.notes])
    print(f"next: thinflow inspect {shlex.quote(args.model)}")
    return 0
