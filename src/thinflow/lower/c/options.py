"""What can be chosen about the C that is written."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import ParameterError, closest
from thinflow.lower.c.layouts import LAYOUTS
from thinflow.lower.c.processors import PROCESSORS

ROUNDINGS = ("litert", "xnnpack")
SOUNDS = ("float", "int16")


@dataclass(frozen=True)
class Options:
    """How a network becomes C.

    Attributes:
        rounding: whose answers to give, to the last bit: "litert", those of LiteRT's reference kernels, which
            need integers only; "xnnpack", those of LiteRT on phones and computers, which need a float
            multiplication for every value.
        cpu: the processor that kernels are chosen for, see `processors`.
        sound: how sound comes in that goes into a spectrogram: "float", in -1..1, or "int16", as from
            a microphone.
        layout: how the files are arranged, see `layouts`.
        stream: whether a network over time hears a few rows a run, and keeps what it computed before.
        keep_all: whether every value of the network has memory of its own, to look at after a run.

    Raises:
        ParameterError: there is no such rounding, processor or layout.
    """

    rounding: str = "litert"
    cpu: str = "generic"
    sound: str = "float"
    layout: str = "files"
    stream: bool = False
    keep_all: bool = False

    def __post_init__(self) -> None:
        # The same words come from flags, so that both are told alike.
        for what, given, known in (
            ("rounding", self.rounding, ROUNDINGS),
            ("processor", self.cpu, PROCESSORS),
            ("kind of sound", self.sound, SOUNDS),
            ("layout", self.layout, LAYOUTS),
        ):
            if given not in known:
                raise ParameterError(
                    f"there is no {what} '{given}'",
                    hint=closest(given, known) or f"there are: {', '.join(known)}",
                )
