"""`thinflow optimize`: the main job."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._options import (
    add_effort,
    add_interface,
    add_json,
    add_layouts,
    add_scaling,
    add_state,
    add_strict,
    interface,
)

EXAMPLES = """
  thinflow optimize model.pb out
  thinflow optimize model.pb out --calibration samples/   # a folder of .npy, .npz, .jpg, .png or .wav
  thinflow optimize model.pb out --scheme float16
  thinflow optimize model.pb out --calibration samples/ --max-drop 0.5% --max-size 100KB
  thinflow optimize model.pb again --calibration samples/ --recipe out/recipe.toml
  thinflow optimize pose.pb out --shape image=1,184,184,3 --calibration frames.npz
  thinflow optimize net.pb out --inputs input --outputs softmax --labels labels.txt --test test.npz
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("model", help="any model: GraphDef, SavedModel, .meta, .onnx, .tflite, .h5, .keras, .json")
    p.add_argument("out_dir", help="folder for the results; made if it is missing")
    add_interface(p)
    add_layouts(p)
    p.add_argument(
        "--scheme",
        metavar="NAME",
        help="of the smaller model: int8 (default), int16x8, dynamic, float16, int8_weights, int4_weights;"
        " auto, and with a budget: the best of all",
    )
    add_effort(p)
    p.add_argument(
        "--calibration",
        metavar="FOLDER|FILE",
        help="samples for the eight-bit ranges; without it inputs are made up",
    )
    p.add_argument(
        "--test",
        metavar="FOLDER|FILE",
        help="samples to judge the models on (default: the calibration samples)",
    )
    p.add_argument(
        "--labels",
        metavar="FILE",
        help="class names, one a line (default: those in the model's file, else a labels file beside it)",
    )
    p.add_argument(
        "--samples", type=int, metavar="N", help="use N samples only, spread evenly over classes and files"
    )
    add_scaling(p)
    p.add_argument("--threads", default="1,2", metavar="1,2", help="thread counts to measure (default 1,2)")
    p.add_argument("--seconds", type=float, default=4.0, help="time for each measurement (default 4)")
    _add_budget(p)
    p.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="skip running the graph around each transform",
    )
    p.add_argument("--onnx", action="store_true", help="also write both models as .onnx, for ONNX Runtime")
    p.add_argument("--no-benchmark", dest="measure", action="store_false", help="skip measuring latency")
    add_state(p)
    add_strict(p)
    add_json(p)


def _add_budget(p: ArgumentParser) -> None:
    """`--max-drop` and the like."""
    bounds = {
        "--max-drop": (
            "POINTS",
            "0.5%%: of accuracy, without labels of equal answers, that may be lost (1.5)",
        ),
        "--max-size": ("BYTES", "100KB or 64KiB: of the file"),
        "--max-latency": ("TIME", "20ms or 500us: of a run on this machine, with the first of --threads"),
        "--max-ram": ("BYTES", "64KB: of activations, all in one arena"),
    }
    for flag, (unit, what) in bounds.items():
        p.add_argument(flag, metavar=unit, help=f"budget, as {what}")


def run(args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.api import optimize_lines, picture_scaling
    from thinflow.cli._console import progress
    from thinflow.errors import ParameterError

    try:
        threads = [int(t) for t in args.threads.split(",") if t.strip()]
    except ValueError:
        raise ParameterError(
            f"--threads {args.threads} is not a list of numbers", hint="write --threads 1,2"
        ) from None
    report = thinflow.optimize(
        args.model,
        args.out_dir,
        scheme=args.scheme,
        recipe=args.recipe,
        effort=args.effort,
        calibration=args.calibration,
        test=args.test,
        labels=args.labels,
        samples=args.samples,
        scaling=picture_scaling(args.mean, args.std),
        threads=threads,
        seconds=args.seconds,
        max_drop=args.max_drop,
        max_size=args.max_size,
        max_latency=args.max_latency,
        max_ram=args.max_ram,
        verify=args.verify,
        measure=args.measure,
        onnx=args.onnx,
        strict=args.strict,
        progress=progress(),
        **interface(args),
    )
    if args.json:
        # Paths and numpy's numbers as text.
        print(json.dumps(report.data(), indent=2, default=str))
    else:
        print_lines(optimize_lines(report))
    # What is best is written all the same; whoever asked for a bound learns that it is not kept.
    return int(report.misses_budget)
