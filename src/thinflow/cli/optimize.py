"""`thinflow optimize`: the main job."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines
from thinflow.cli._device import add_device, devices
from thinflow.cli._hints import in_flags
from thinflow.cli._making import add_samples, add_scheme, add_verify
from thinflow.cli._options import (
    add_alias,
    add_cluster,
    add_effort,
    add_interface,
    add_json,
    add_layouts,
    add_model,
    add_output,
    add_state,
    add_strict,
    add_threads,
    interface,
    scaling_options,
)

EXAMPLES = """
  thinflow optimize model.pb out
  thinflow optimize model.pb out --calibration samples/   # a folder of .npy, .npz, .jpg, .png or .wav
  thinflow optimize model.pb out --scheme float16
  thinflow optimize model.pb out --calibration samples/ --max-drop 0.5% --max-size 100KB
  thinflow optimize model.pb again --calibration samples/ --recipe out/recipe.toml
  thinflow optimize model.pb out --calibration samples/ --device ssh:pi@board --max-latency 20ms
  thinflow optimize model.pb out --calibration samples/ --engines litert,onnx,openvino
  thinflow optimize pose.pb out --shape image=1,184,184,3 --calibration frames.npz
  thinflow optimize net.pb out --inputs input --outputs softmax --labels labels.txt --test test.npz
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    add_output(p, "folder for the results; made if it is missing", word="out_dir")
    add_interface(p)
    add_layouts(p)
    add_scheme(p, "; auto, and with a budget: the best of all")
    add_effort(p)
    add_samples(p)
    add_threads(p, "1,2", several=True)
    p.add_argument(
        "--seconds",
        type=float,
        default=4.0,
        metavar="S",
        help="seconds to measure for, all together (default 4)",
    )
    add_device(p, "the LiteRT models, to be timed and compared on each; the first decides")
    _add_budget(p)
    add_verify(p)
    p.add_argument("--onnx", action="store_true", help="also write both models as .onnx, for ONNX Runtime")
    made = p.add_argument(
        "--engine",
        dest="engines",
        metavar="ENGINE[,ENGINE...]",
        help="compare engines on this machine and ship what wins: litert, onnx, openvino",
    )
    add_alias(p, made, "--engines")
    p.add_argument("--no-benchmark", dest="measure", action="store_false", help="skip measuring latency")
    add_cluster(p, "look at the samples, and make what a budget chooses from")
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
        "--max-latency": ("TIME", "20ms or 500us: of a run here or on --device, with the first of --threads"),
        "--max-ram": ("BYTES", "64KB: of activations, all in one arena"),
    }
    for flag, (unit, what) in bounds.items():
        made = p.add_argument(flag, metavar=unit, help=f"budget, as {what}")
        # On a processor these are the words for it.
        add_alias(p, made, *{"--max-size": ("--flash",), "--max-ram": ("--ram",)}.get(flag, ()))
    p.add_argument(
        "--target",
        metavar="CPU",
        help="judge size and memory as flash and RAM of the model's C on it: --target cortex-m4 --ram 64KB",
    )


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
        scaling=picture_scaling(**scaling_options(args)),
        threads=threads,
        seconds=args.seconds,
        device=devices(args),
        max_drop=args.max_drop,
        max_size=args.max_size,
        max_latency=args.max_latency,
        max_ram=args.max_ram,
        target=args.target,
        verify=args.verify,
        measure=args.measure,
        onnx=args.onnx,
        engines=args.engines,
        strict=args.strict,
        cluster=args.cluster,
        store=args.store,
        progress=progress(),
        **interface(args),
    )
    if args.json:
        # Paths and numpy's numbers as text.
        print(json.dumps(report.data(), indent=2, default=str))
    else:
        print_lines(in_flags(line, "optimize") for line in optimize_lines(report))
    # What is best is written all the same; whoever asked for a bound learns that it is not kept.
    return int(report.misses_budget)
