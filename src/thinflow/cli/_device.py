"""`--device`: where a model is run, if not on this machine."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import names
from thinflow.errors import ParameterError

_TEXTS = ("binary", "delegate", "cpus")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_device(p: ArgumentParser, more: str = "") -> None:
    """`--device` and what belongs to it.

    Args:
        p: the parser.
        more: what is special to the command.
    """
    p.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="DEVICE[,DEVICE...]",
        help="where models run: ssh:[user@]host[:port], adb[:serial], local, or the name of a [device.NAME] "
        f"in thinflow.toml{f'; {more}' if more else ''}",
    )
    p.add_argument(
        "--keep", action="store_true", help="with --device: leave there what was sent, for the next run"
    )
    p.add_argument("--binary", metavar="FILE", help="with --device adb: LiteRT's benchmark_model for it")
    p.add_argument("--delegate", metavar="NAME", help="with --device adb: gpu, nnapi, xnnpack and the like")
    p.add_argument("--cpus", metavar="CPUS", help="with --device adb: run on these CPUs: 4-7, or a mask")


def devices(args: Namespace) -> list[Any] | None:
    """The devices that were asked for; None for this machine alone.

    Raises:
        ParameterError: an address cannot be read, or a flag is for devices and there is none.
    """
    # Repeated or with commas, as one likes.
    listed = [item for text in args.device for item in names(text) or []]
    given = {key: getattr(args, key) for key in _TEXTS if getattr(args, key)}
    if not listed:
        if given or args.keep:
            flag = next(iter(given), "keep")
            raise ParameterError(f"--{flag} is for a device, and none is given", hint="add --device ADDRESS")
        return None
    from thinflow.api import open_devices

    # Commands that wait for nothing else have no such flag.
    timeout = getattr(args, "timeout", None)
    return open_devices(listed, keep=args.keep, patience=timeout, **given)


def device_flags(args: Namespace) -> str:
    """The flags of `add_device` again, for the next command."""
    given = [("device", text) for text in args.device]
    given += [(key, getattr(args, key)) for key in _TEXTS if getattr(args, key)]
    return "".join(f" --{key} {shlex.quote(text)}" for key, text in given)


def read_duration(text: str) -> float:
    """Seconds of `600`, `90s`, `10m`, `1h`.

    Raises:
        ParameterError: it is none of these.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.strip())
    if found is None or found[2] not in _UNITS or not float(found[1]):
        raise ParameterError(f"'{text}' is no time", hint="write it like 10m, 90s or 1h")
    return float(found[1]) * _UNITS[found[2]]
