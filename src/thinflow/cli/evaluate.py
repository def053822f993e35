"""`thinflow evaluate`: how often is a model right?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import add_interface, add_json, interface, interface_flags, model_flags

EXAMPLES = """
  thinflow evaluate kws.pb clips/ --labels labels.txt        # clips are named LABEL_something.wav
  thinflow evaluate digits.pb test.npz                       # arrays image and labels
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("model", help="a graph, a .tflite or an .onnx file")
    p.add_argument(
        "data", metavar="FOLDER|FILE", help="labelled samples: LABEL_... files, or a 'labels' array"
    )
    p.add_argument(
        "--labels",
        metavar="FILE",
        help="class names, one a line (default: those in the model's file, else a labels file beside it)",
    )
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    found = thinflow.evaluate(args.model, args.data, labels=args.labels, **interface(args))
    if args.json:
        data = {
            "accuracy": found.accuracy,
            "interval": found.intervals.get("accuracy"),
            "correct": found.correct,
            "samples": found.samples,
        }
        print(json.dumps(data | ({"taken": found.taken} if found.taken else {})))
        return 0
    low, high = found.intervals["accuracy"]
    print(
        f"accuracy {found.accuracy:.2f}%: {found.correct} of {found.samples} samples right"
        f" ({low:.1f}% to {high:.1f}%)"
    )
    if found.taken:
        print_lines([found.taken])
    print(f"next: {_next(args)}")
    return 0


def _next(args: Namespace) -> str:
    """Make a smaller one of a graph; see what a file takes that an engine runs as it is."""
    from thinflow.api import runtime_format

    model, data = shlex.quote(args.model), shlex.quote(args.data)
    # A file that engines run as it is cannot be made smaller here.
    if runtime_format(args.model):
        return f"thinflow benchmark {model} --calibration {data}{model_flags(args)}"
    labels = f" --labels {shlex.quote(args.labels)}" if args.labels else ""
    return f"thinflow optimize {model} out --calibration {data}{labels}{interface_flags(args)}"
