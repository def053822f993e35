"""`thinflow fit`: flash, memory and time on a microcontroller, and chips for it."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from thinflow.cli._console import print_lines, progress
from thinflow.cli._making import add_sound, add_stream
from thinflow.cli._options import add_all, add_interface, add_json, add_model, interface, interface_flags

if TYPE_CHECKING:
    from thinflow.fit.report import Fit

EXAMPLES = """
  thinflow fit model.tflite
  thinflow fit model.tflite --cpu cortex-m4 --ram 64KB --flash 256KB --clock 80MHz
  thinflow fit model.pb --chip nRF52840 --all
  thinflow fit keywords.pb --sound int16 --stream --cpu cortex-m4
  thinflow fit model.tflite --cpu cortex-m55 --json
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p)
    p.add_argument(
        "--cpu",
        metavar="CPU",
        help="the processor that kernels of C are chosen for (default cortex-m4, or the chip's)",
    )
    p.add_argument("--chip", metavar="NAME", help="a chip of the table, for its processor, memory and clock")
    p.add_argument(
        "--ram", metavar="BYTES", help="64KB or 64KiB: memory that may be taken, the stack included"
    )
    p.add_argument("--flash", metavar="BYTES", help="256KB or 1MiB: flash that may be taken")
    p.add_argument("--clock", metavar="CLOCK", help="120MHz: of the processor (default: a common board's)")
    p.add_argument(
        "--no-compile", action="store_true", help="estimate flash and stack, even where a compiler is here"
    )
    p.add_argument("--no-remedies", action="store_true", help="do not look for what would make it smaller")
    add_sound(p)
    add_stream(p)
    add_all(p)
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    found = thinflow.fit(
        args.model,
        cpu=args.cpu,
        chip=args.chip,
        ram=args.ram,
        flash=args.flash,
        clock=args.clock,
        compile=not args.no_compile,
        remedies=not args.no_remedies,
        sound=args.sound,
        stream=args.stream,
        sample_rate=args.sample_rate,
        progress=progress(),
        **interface(args),
    )
    if args.json:
        print(json.dumps(found.data(), indent=2))
    else:
        print_lines(found.lines(everything=args.all))
        print(f"next: {_next(args, found)}")
    return 0 if found.fits else 1


def _next(args: Namespace, found: Fit) -> str:
    """The command to try next: what makes it fit, else what writes it."""
    import os

    model = shlex.quote(args.model)
    stem = os.path.basename(os.path.normpath(args.model)).split(".")[0] or "model"
    if not found.fits and found.kind == "float":
        return f"thinflow quantize {model} {shlex.quote(stem)}_int8.tflite{interface_flags(args)}"
    if not found.fits:
        return f"thinflow inspect {model}"
    flags = f" --sound {args.sound}" if args.sound else ""
    flags += f" --sample-rate {args.sample_rate}" if args.sample_rate else ""
    flags += " --stream" if args.stream else ""
    flags += f" --ram {found.ram_limit:.0f}" if found.whole is not None else ""
    return f"thinflow convert {model} {shlex.quote(stem)}.c --cpu {found.cpu}{flags}{interface_flags(args)}"
