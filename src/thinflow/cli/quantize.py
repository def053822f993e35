"""`thinflow quantize`: an eight-bit LiteRT model."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace

from thinflow.cli._options import add_interface, add_json, interface

EXAMPLES = """
  thinflow quantize model.pb model_int8.tflite --calibration samples/
  thinflow quantize model.pb model_int8.tflite --calibration images.npz --samples 200
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("model", help="a frozen GraphDef file")
    p.add_argument("output", help="the .tflite file to write")
    p.add_argument(
        "--calibration", metavar="FOLDER|FILE", help="samples for the ranges; without it inputs are made up"
    )
    p.add_argument("--samples", type=int, metavar="N", help="use the first N samples only")
    p.add_argument("--mean", type=float, default=0.0, help="pictures: (pixel - mean) / std; default 0")
    p.add_argument("--std", type=float, default=1.0, help="see --mean; default 1")
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    from thinflow.api import picture_scaling, quantize_to_file
    from thinflow.cli._console import human_bytes, progress

    report = quantize_to_file(
        args.model,
        args.output,
        args.calibration,
        samples=args.samples,
        scaling=picture_scaling(args.mean, args.std),
        progress=progress(),
        **interface(args),
    )
    if args.json:
        print(json.dumps(report, indent=2, default=str))
        return 0
    smaller = report["float_bytes"] / max(report["size_bytes"], 1)
    sizes = f"{human_bytes(report['size_bytes'])}, {smaller:.1f}x smaller than float"
    print(f"wrote {args.output}: {sizes}; {report['quality']}")
    print(f"  samples: {report['samples']}")
    for code, node, why in report["float_operators"][:8]:
        print(f"  float: {code} {node}: {why}")
    for warning in report["warnings"]:
        print(f"  warning: {warning}")
    print(f"next: thinflow benchmark {shlex.quote(args.output)}")
    return 0
