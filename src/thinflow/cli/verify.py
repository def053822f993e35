"""`thinflow verify`: do two models compute the same?"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from thinflow.cli._console import print_lines, print_table, progress
from thinflow.cli._device import add_device, device_flags, devices
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
  thinflow verify model.tflite --device ssh:pi@board,adb:R5CW30ABCDE  # on each of them, in one table
  thinflow verify model.pb model_int8.tflite --device adb --binary benchmark_model
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("a", help="the model to trust: a GraphDef, .tflite or .onnx file")
    p.add_argument("b", nargs="?", help="the model to check; with --device the same one, if none is named")
    add_interface(p)
    add_feed(p, "by name in the first model")
    add_engine(p, "reference")
    add_device(p, "the model to check does, on each of them; the other one runs here")
    add_tolerance(p)
    add_seed(p, several=True)
    p.add_argument("--runs", type=int, default=2, metavar="N", help="made-up inputs per seed (default 2)")
    add_state(p)
    add_json(p)


def run(args: Namespace) -> int:
    places = devices(args) or [None]
    if len(places) > 1:
        return _verify_each(args, places)
    found = _verified(args, places[0])
    if args.json:
        import json

        print(json.dumps(_data(found), indent=2))
    else:
        print(found)
        print_lines([_next(args, found.ok)])
    return 0 if found.ok else 1


def _verified(args: Namespace, place: Any) -> Any:
    import thinflow

    return thinflow.verify(
        args.a,
        args.b,
        read_feed_flags(args, args.a),
        inputs=names(args.inputs),
        outputs=names(args.outputs),
        shapes=shapes(args.shape) or None,
        engine=args.engine,
        device=place,
        tolerance=args.tolerance,
        runs=args.runs,
        seed=_seeds(args.seed),
        progress=progress(),
        **model_options(args),
    )


def _verify_each(args: Namespace, places: Sequence[Any]) -> int:
    """The same on each of several devices; one that is lost does not keep the others from being asked."""
    from thinflow.errors import EngineUnavailable

    found: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for place in places:
        try:
            found[place.name] = _verified(args, place)
        except EngineUnavailable as error:
            if place is places[-1] and not found:
                raise
            lost[place.name] = error.problem
    agree = [name for name, one in found.items() if one.ok]
    is_ok = len(agree) == len(places)
    if args.json:
        import json

        told = {"ok": is_ok, "devices": {n: _data(one) for n, one in found.items()}, "lost": lost}
        print(json.dumps(told, indent=2))
        return 0 if is_ok else 1
    worst = max(one.worst for one in found.values())
    tolerance = next(iter(found.values())).tolerance
    print_lines(
        [
            f"{len(agree)} of {len(places)} devices agree: largest relative difference {worst:.3g}"
            f" (tolerance {tolerance:g})"
        ]
    )
    rows = [
        [name, "agrees" if one.ok else "DIFFERS", o.name, f"{o.largest:.3g}", f"{o.relative:.3g}"]
        for name, one in found.items()
        for o in one.outputs
    ]
    print_table(rows, ["device", "", "output", "absolute", "relative"])
    print_lines(f"{name}: not asked: {why}" for name, why in lost.items())
    # What is said of all devices alike is said once.
    print_lines(dict.fromkeys(note for one in found.values() for note in one.notes))
    print_lines([_next(args, len(agree) == len(found))])
    return 0 if is_ok else 1


def _next(args: Namespace, is_ok: bool) -> str:
    second = shlex.quote(args.b or args.a)
    if is_ok:
        return f"next: thinflow benchmark {second}{_flags_of_second(args)}{device_flags(args)}"
    return f"next: thinflow inspect {second}{_flags_of_second(args)}"


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
