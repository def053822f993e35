"""What can be chosen about the C that is written."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import ParameterError, closest
from thinflow.lower.c.layouts import LAYOUTS
from thinflow.lower.c.processors import PROCESSORS

ROUNDINGS = ("litert", "xnnpack")
SOUNDS = ("float", "int16", "fixed")


@dataclass(frozen=True)
class Bands:
    """A chain of operators that runs a few rows at a time.

    Attributes:
        start, end: the operators of a network, from the first to before the last.
        rows: that the last of them makes in a turn.
        is_eager: whether each operator makes all the rows it can as soon as it can: the first turns are
            smaller then, and the last ones larger.
    """

    start: int
    end: int
    rows: int
    is_eager: bool = False


@dataclass(frozen=True)
class Options:
    """How a network becomes C.

    Attributes:
        rounding: whose answers to give, to the last bit: "litert", those of LiteRT's reference kernels, which
            need integers only; "xnnpack", those of LiteRT on phones and computers, which need a float
            multiplication for every value.
        cpu: the processor that kernels are chosen for, see `processors`.
        sound: how sound comes in that goes into a spectrogram: "float", in -1..1, or "int16", as from
            a microphone; "fixed" is "int16" with coefficients made of it in fixed point.
        layout: how the files are arranged, see `layouts`.
        stream: whether a network over time hears a few rows a run, and keeps what it computed before.
        keep_all: whether every value of the network has memory of its own, to look at after a run.
        ram: bytes that arena, inputs, outputs, state and stack may take together; None for the fastest
            schedule.
        stack: bytes of these that the stack takes.
        bands: chains that run a few rows at a time, as an earlier network of the same program has them;
            None for what `ram` asks for.

    Raises:
        ParameterError: there is no such rounding, processor or layout.
    """

    rounding: str = "litert"
    cpu: str = "generic"
    sound: str = "float"
    layout: str = "files"
    stream: bool = False
    keep_all: bool = False
    ram: int | None = None
    stack: int = 0
    bands: tuple[Bands, ...] | None = None

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
