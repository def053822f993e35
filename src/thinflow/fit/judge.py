"""Judging a network on processors and chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from thinflow.errors import ParameterError
from thinflow.fit.chips import Chip, chip_of, chips
from thinflow.fit.footprint import Footprint, footprint
from thinflow.fit.instructions import Costs
from thinflow.fit.latency import clock_mhz, latency, pace_of
from thinflow.fit.report import ChipFit, Fit
from thinflow.lower.c.convert import Network, TooLittleMemory
from thinflow.lower.c.options import Options
from thinflow.lower.c.processors import PROCESSORS

Maker = Callable[[Options], Network]
"""Makes a network for options, anew each time: making one changes the program it is made of."""
DEFAULT_CPU = "cortex-m4"
_DEFAULT_CLOCK = 100.0


@dataclass(frozen=True)
class Place:
    """Where a network is to run.

    Attributes:
        cpu: see `PROCESSORS`.
        clock_mhz: of it.
        ram_bytes, flash_bytes: that may be taken; None for any.
        chip: of the table, if one was named.
    """

    cpu: str
    clock_mhz: float
    ram_bytes: float | None = None
    flash_bytes: float | None = None
    chip: Chip | None = None


def place_of(
    cpu: str | None = None,
    clock: float | str | None = None,
    ram_bytes: float | None = None,
    flash_bytes: float | None = None,
    chip: str | None = None,
) -> Place:
    """Where a network is to run, by what is given; the rest as the chip has it.

    Raises:
        ParameterError: there is no such processor or chip, or the chip has another processor.
    """
    found = None if chip is None else chip_of(chip)
    if found is not None and cpu not in (None, found.cpu):
        raise ParameterError(
            f"{found.name} has a {found.cpu}, not a {cpu}", hint="leave out one of --chip and --cpu"
        )
    name = cpu or (found.cpu if found is not None else DEFAULT_CPU)
    # Refuses what does not exist, and tells what does.
    Options(cpu=name)
    pace = pace_of(name)
    usual = pace.clock_mhz if pace is not None else _DEFAULT_CLOCK
    if found is not None:
        usual = found.clock_mhz
        ram_bytes = found.ram_bytes if ram_bytes is None else ram_bytes
        flash_bytes = found.flash_bytes if flash_bytes is None else flash_bytes
    return Place(name, clock_mhz(usual if clock is None else clock), ram_bytes, flash_bytes, found)


def judge(make: Maker, place: Place, *, model: str = "", compile: bool = True) -> Fit:
    """What a network takes, and which chips hold it.

    Args:
        make: makes it.
        place: where it is to run.
        model: its path.
        compile: whether to ask the processor's compiler, where it is here.
    """
    fitting = fitted(make, place.cpu, place.ram_bytes, compile=compile)
    network, it = fitting.network, fitting.footprint
    costs = Costs.of(place.cpu)
    error = None if costs is None or it.instructions is None else costs.error
    found = Fit(
        model,
        _kind(network),
        place.cpu,
        place.clock_mhz,
        it,
        error,
        None if it.instructions is None else latency(it.instructions, error or 0, place.cpu, place.clock_mhz),
        place.chip,
        place.ram_bytes,
        place.flash_bytes,
        whole=fitting.whole,
        notes=() if fitting.refusal is None else (fitting.refusal.problem,),
    )
    return replace(found, chips=_on_chips(make, place.cpu, it))


@dataclass(frozen=True)
class Fitted:
    """A network in a limit of memory.

    Attributes:
        network: with whole layers if it fits so, or does not fit at all; else with layers in bands.
        footprint: of it.
        whole: what it would take with whole layers, if its layers are in bands.
        refusal: what the least is, if nothing fits.
    """

    network: Network
    footprint: Footprint
    whole: Footprint | None = None
    refusal: TooLittleMemory | None = None


def fitted(make: Maker, cpu: str, ram: float | None, *, compile: bool = True) -> Fitted:
    """A network in so many bytes of memory, the stack included; None for any.

    Args:
        make: makes it.
        cpu: the processor.
        ram: the limit.
        compile: whether to ask the processor's compiler.
    """
    network = make(Options(cpu=cpu))
    it = footprint(network, compile=compile)
    if ram is None or it.ram_bytes + it.stack_bytes <= ram:
        return Fitted(network, it)
    stack = it.stack_bytes
    # Loops around layers may take a little more of the stack than was left for it: it is left the next time.
    while True:
        refusal = None
        try:
            parts = make(Options(cpu=cpu, ram=int(ram), stack=stack))
        except TooLittleMemory as error:
            parts, refusal = error.least, error
        found = footprint(parts, compile=compile)
        if found.ram_bytes + found.stack_bytes <= ram:
            return Fitted(parts, found, it)
        # The least that is told is to be enough, with the stack that it takes.
        if refusal is not None and found.stack_bytes <= stack:
            return Fitted(network, it, refusal=refusal)
        stack = found.stack_bytes


def _kind(network: Network) -> str:
    """The element type that most products are of."""
    heaviest = max(network.layers, key=lambda layer: layer.macs, default=None)
    return "" if heaviest is None else heaviest.operator.outputs[0].dtype.name


def _on_chips(make: Maker, cpu: str, known: Footprint) -> tuple[ChipFit, ...]:
    """The chips of the table, each with the kernels of its processor."""
    by_features = {PROCESSORS[cpu].features: known}
    found = []
    for chip in chips():
        features = PROCESSORS[chip.cpu].features
        if features not in by_features:
            # Compiled once for the one that was asked for; for the others estimates tell enough.
            by_features[features] = footprint(make(Options(cpu=chip.cpu)), compile=False)
        it = by_features[features]
        costs = Costs.of(chip.cpu)
        time = None
        if costs is not None and it.instructions is not None:
            time = latency(it.instructions, costs.error, chip.cpu, chip.clock_mhz)
        found.append(ChipFit(chip, it.flash_bytes, it.ram_bytes + it.stack_bytes, time))
    return tuple(found)
