"""`thinflow sample`: writes a bundled or generated model, and images to go with it."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import add_json, add_list, add_output, add_seed
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow sample
  thinflow sample resnet_v2_50 resnet.pb
  thinflow sample digits digits.pb --calibration calibration.npz --test test.npz
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("name", nargs="?", metavar="SAMPLE", help="which model; without one, list them")
    add_output(p, "where to write it; .pbtxt means text", needed=False)
    add_list(p)
    add_seed(p, type=_count)
    p.add_argument(
        "--calibration", metavar="FILE.npz", help="also write images to calibrate with, by input name"
    )
    p.add_argument(
        "--count", type=_count, metavar="N", help="how many of them (default: all there are, else 8)"
    )
    p.add_argument(
        "--test", metavar="FILE.npz", help="also write held-out images and their `labels` (trained models)"
    )
    add_json(p)


def run(args: Namespace) -> int:
    if args.list or args.name is None:
        return _list(args.json)
    if args.output is None:
        raise ParameterError(
            "it is not said where to write",
            hint=f"thinflow sample {shlex.quote(args.name)} {shlex.quote(args.name)}.pb",
        )
    if args.count is not None and args.calibration is None:
        raise ParameterError(
            "--count counts calibration images, and none are asked for", hint="add --calibration FILE.npz"
        )
    from thinflow import zoo

    # Asked for first: a wrong count or a model without test images must not leave a model behind.
    images = zoo.calibration(args.name, args.count, args.seed) if args.calibration else {}
    test = zoo.test_set(args.name) if args.test else {}
    graph = zoo.write(args.name, args.output, args.seed)
    written: dict[str, Any] = {
        "model": args.output,
        "name": args.name,
        "seed": args.seed,
        "nodes": len(graph),
        "parameters": sum(n.tensor.size for n in graph if n.tensor is not None),
        "inputs": [v.name for v in graph.inputs],
        "outputs": [v.name for v in graph.outputs],
    }
    if args.calibration:
        written["calibration"] = _write_arrays(args.calibration, images)
    if args.test:
        written["test"] = _write_arrays(args.test, test)
    _print(written, args.json)
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ParameterError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def _list(as_json: bool) -> int:
    from thinflow import zoo

    summaries = {name: zoo.describe(name) for name in zoo.names()}
    if as_json:
        import json

        print(json.dumps(summaries, indent=2))
        return 0
    width = max(map(len, summaries))
    print(f"{len(summaries)} models can be written:")
    for name, summary in summaries.items():
        print(f"  {name:{width}}  {summary}")
    print("next: thinflow sample digits digits.pb")
    return 0


def _write_arrays(path: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Write an .npz file; what is in it, by name."""
    from thinflow.api import write_arrays

    write_arrays(path, arrays)
    return {"file": path, "arrays": {key: list(array.shape) for key, array in arrays.items()}}


def _print(written: dict[str, Any], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(written, indent=2))
        return
    from thinflow.cli._console import human_count

    model, parameters = written["model"], human_count(written["parameters"])
    print(f"wrote {model}: {written['name']}, {written['nodes']} nodes, {parameters} parameters")
    print(f"  input {', '.join(written['inputs'])}, output {', '.join(written['outputs'])}")
    for use in ("calibration", "test"):
        if use in written:
            shapes = ", ".join(f"{key} {shape}" for key, shape in written[use]["arrays"].items())
            print(f"wrote {written[use]['file']}: {shapes}")
    print(f"next: thinflow inspect {shlex.quote(model)}")
