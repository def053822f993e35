"""`thinflow deploy`: a folder that builds, for a phone, a board or a page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from thinflow.cli._console import print_lines, progress
from thinflow.cli._making import add_cpu, add_labels, add_ram, add_rounding, add_sound
from thinflow.cli._options import (
    add_interface,
    add_json,
    add_list,
    add_model,
    add_output,
    add_scaling,
    interface,
    scaling_options,
)
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow deploy mobilenet.tflite app --target linux --labels labels.txt --mean 127.5 --std 127.5
  thinflow deploy photos.pb package --target python --resize 256 --crop center --test
  thinflow deploy keywords.pb package --target raspberrypi --labels words.txt
  thinflow deploy digits.tflite firmware --target cortex-m --cpu cortex-m7 --test
  thinflow deploy app --test                    # build it, and run its self-test
  thinflow deploy --list
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p, "with --test alone, a folder that was made before", needed=False)
    add_output(p, "the folder to make", needed=False)
    p.add_argument("--target", metavar="PLATFORM", help="what to make it for; --list tells all")
    add_list(p)
    p.add_argument("--test", action="store_true", help="build the folder and run its self-test")
    add_labels(p)
    add_scaling(p)
    p.add_argument(
        "--sample",
        metavar="FILE",
        help="the self-test's sample: a picture, .wav, .npy or .npz (default: made up)",
    )
    p.add_argument("--name", metavar="NAME", help="of the program or package (default: after the model)")
    p.add_argument("--top", type=int, default=5, metavar="K", help="how many classes to show (default 5)")
    add_cpu(p, "cortex-m4 for cortex-m, else cortex-m3")
    add_ram(p)
    add_rounding(p)
    add_sound(p, "int16")
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.api import deploy_targets, open_deployment, picture_scaling

    if args.list:
        found = deploy_targets()
        if args.json:
            print(json.dumps(dict(found), indent=2))
        else:
            print_lines([f"{name:12} {title}" for name, title in found])
        return 0
    if args.model is None:
        raise ParameterError(
            "it is not said which model", hint="write: thinflow deploy MODEL OUT --target linux"
        )
    if args.output is None:
        if not args.test or args.target is not None:
            raise ParameterError(
                "it is not said where to",
                hint="name a folder behind the model, or give --test and a folder of deploy",
            )
        made = open_deployment(args.model)
    else:
        made = thinflow.deploy(
            args.model,
            args.output,
            _target(args),
            labels=args.labels,
            scaling=picture_scaling(**scaling_options(args)),
            sample=args.sample,
            name=args.name or "",
            top=args.top,
            sample_rate=args.sample_rate,
            cpu=args.cpu,
            ram=args.ram,
            rounding=args.rounding,
            sound=args.sound,
            progress=progress(),
            **interface(args),
        )
    printed = made.test() if args.test else ""
    if args.json:
        print(json.dumps({**made.data(), "test": printed} if args.test else made.data(), indent=2))
        return 0
    if args.output is not None:
        print_lines(made.lines())
    if args.test:
        print_lines(printed.strip().splitlines()[-3:])
    print(f"next: {made.next}" if not args.test else f"next: {made.after_test}")
    return 0


def _target(args: Namespace) -> str:
    if args.target is None:
        from thinflow.api import deploy_targets

        names = ", ".join(name for name, _ in deploy_targets())
        raise ParameterError("it is not said what for", hint=f"give --target: {names}")
    return str(args.target)
