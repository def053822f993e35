"""`thinflow verify`: do two models compute the same?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import progress
from thinflow.cli._device import add_device, device, device_flags
from thinflow.cli._feeds import add_feed, read_feed_flags
from thinflow.cli._options import (
    add_engine,
    add_interface,
    add_json,
    add_seed,
    add_state,
    add_tolerance,
    model_flags,
    model_options,
    names,
    shape_flags,
    shapes,
)
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow verify model.pb optimised.pb
  thinflow verify model.pb model.tflite
  thinflow verify model.pb optimised.pb --outputs softmax --tolerance 1e-5
  thinflow verify network.pb backbone.tflite --outputs features/Relu=features
  thinflow verify model.pb optimised.pb --feed input=photo.npy
  thinflow verify model.pb optimised.pb --seed 0,1,2 --runs 4
  thinflow verify model.tflite --device ssh:pi@board                  # the same answers there as here?
  thinflow verify model.pb model_int8.tflite --device adb --binary benchmark_model
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("a", help="the model to trust: a GraphDef, .tflite or .onnx file")
    p.add_argument("b", nargs="?", help="the model to check; with --device the same one, if none is named")
    add_interface(p)
    add_feed(p, "by name in the first model")
    add_engine(p, "reference")
    add_device(p, "the model to check does; the other one runs here")
    add_tolerance(p)
    add_seed(p, several=True)
    p.add_argument("--runs", type=int, default=2, metavar="N", help="made-up inputs per seed (default 2)")
    add_state(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    found = thinflow.verify(
        args.a,
        args.b,
        read_feed_flags(args, args.a),
        inputs=names(args.inputs),
        outputs=names(args.outputs),
        shapes=shapes(args.shape) or None,
        engine=args.engine,
        device=device(args),
        tolerance=args.tolerance,
        runs=args.runs,
        seed=_seeds(args.seed),
        progress=progress(),
        **model_options(args),
    )
    if args.json:
        print(json.dumps(_data(found), indent=2))
    else:
        print(found)
        if found.ok:
            flags = _flags_of_second(args) + device_flags(args)
            print(f"next: thinflow benchmark {shlex.quote(args.b or args.a)}{flags}")
        else:
            print(f"next: thinflow inspect {shlex.quote(args.b or args.a)}{_flags_of_second(args)}")
    return 0 if found.ok else 1


def _flags_of_second(args: Namespace) -> str:
    """The flags that also open the second model alone: a folder's tags, and shapes of a graph."""
    import os

    from thinflow.api import runtime_format

    # A file for a runtime has sizes and signatures of its own.
    second = args.b or args.a
    if runtime_format(second):
        return ""

    return (model_flags(args) if os.path.isdir(second) else "") + shape_flags(args.shape)


def _data(found: Any) -> dict[str, Any]:
    place = found.divergence
    return {
        "ok": found.ok,
        "worst": found.worst,
        "worst_output": found.worst_output,
        "tolerance": found.tolerance,
        "runs": found.runs,
        "first_divergence": found.first_divergence,
        "divergence": None
        if place is None
        else {
            "a": place.name,
            "a_op": place.op,
            "b": place.twin,
            "b_op": place.twin_op,
            "index": list(place.index),
            # As text: it may be a string, a shape or a number of numpy's.
            "before": str(place.before),
            "after": str(place.after),
            "relative": place.relative,
        },
        "outputs": [{"name": o.name, "largest": o.largest, "relative": o.relative} for o in found.outputs],
        "notes": found.notes,
    }


def _seeds(text: str) -> list[int]:
    """The seeds of a comma-separated list.

    Raises:
        ParameterError: something else than whole numbers.
    """
    try:
        return [int(item) for item in text.split(",") if item.strip()] or [0]
    except ValueError:
        raise ParameterError(f"--seed {text}: not a whole number", hint="write --seed 0,1,2") from None
