"""The report on whether a network fits a microcontroller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from thinflow.errors.plain_text import one_line
from thinflow.fit.chips import Chip
from thinflow.fit.footprint import Footprint, LayerFit
from thinflow.fit.latency import Latency
from thinflow.fit.micro import MicroFit
from thinflow.fit.text import command, row, shortened, table, wrapped
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html
from thinflow.program.amounts import bytes_text, ms_text

_LAYERS, _CHIPS = 12, 8
"""Rows that are shown unless all are asked for."""


@brief_repr
@dataclass(frozen=True)
class Remedy:
    """What would make a network smaller, and what it takes then.

    Attributes:
        what: in a few words.
        flash_bytes, ram_bytes: with the stack; None where it is not known.
        instructions: None where they are not known.
        command: that does it; "" if it is done by hand.
    """

    what: str
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    instructions: float | None = None
    command: str = ""


@brief_repr
@dataclass(frozen=True)
class ChipFit:
    """A chip of the table.

    Attributes:
        chip: see there.
        flash_bytes, ram_bytes: that the network takes on it, the stack included.
        latency: of a run; None where no processor of the kind was timed.
    """

    chip: Chip
    flash_bytes: int
    ram_bytes: int
    latency: Latency | None

    @property
    def misses(self) -> list[str]:
        """What is too little on it, in a word each."""
        found = ["flash"] if self.flash_bytes > self.chip.flash_bytes else []
        return [*found, *(["RAM"] if self.ram_bytes > self.chip.ram_bytes else [])]


@brief_repr
@dataclass(frozen=True)
class Fit:
    """What a network takes as C on a processor, and where that is to be had.

    Attributes:
        model: path of the model; "" for a graph in memory.
        kind: element type that most products are of.
        cpu: the processor.
        clock_mhz: its clock.
        footprint: flash, memory, stack and instructions, layer by layer.
        error: of the instructions, relative; None where none were counted.
        latency: of a run; None where no processor of the kind was timed.
        chip: that was asked for.
        ram_limit, flash_limit: bytes that may be taken; None for any.
        chips: the table.
        micro: what TFLite Micro takes.
        remedies: what would make it smaller.
        notes: on how it was opened and estimated.
        whole: what it takes with whole layers, where they have to run a few rows at a time to fit.
    """

    model: str
    kind: str
    cpu: str
    clock_mhz: float
    footprint: Footprint
    error: float | None = None
    latency: Latency | None = None
    chip: Chip | None = None
    ram_limit: float | None = None
    flash_limit: float | None = None
    chips: tuple[ChipFit, ...] = ()
    micro: MicroFit | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = field(default=())
    whole: Footprint | None = None

    @property
    def flash_bytes(self) -> int:
        """Code and constants."""
        return self.footprint.flash_bytes

    @property
    def ram_bytes(self) -> int:
        """All memory: arena, inputs, outputs, state and stack."""
        return self.footprint.ram_bytes + self.footprint.stack_bytes

    @property
    def instructions(self) -> float | None:
        """Of a run."""
        return self.footprint.instructions

    @property
    def misses(self) -> list[str]:
        """What is more than may be taken, in words; empty if it fits."""
        found = []
        weights = self.footprint.weights_bytes
        if self.flash_limit is not None and self.flash_bytes > self.flash_limit:
            # What no kernel and no compiler could mend is told apart.
            what = "weights alone" if weights > self.flash_limit else "flash"
            need = weights if weights > self.flash_limit else self.flash_bytes
            found.append(f"{what} {bytes_text(need)} of {bytes_text(self.flash_limit)}")
        if self.ram_limit is not None and self.ram_bytes > self.ram_limit:
            found.append(f"RAM {bytes_text(self.ram_bytes)} of {bytes_text(self.ram_limit)}")
        return found

    @property
    def fits(self) -> bool:
        """Whether it keeps what was given; without limits, whether any chip of the table holds it."""
        if self.ram_limit is None and self.flash_limit is None:
            return bool(self.holding)
        return not self.misses

    @property
    def holding(self) -> list[ChipFit]:
        """The chips that hold it, the smallest memory first."""
        return [one for one in self.chips if not one.misses]

    @property
    def verdict(self) -> str:
        """One sentence."""
        flash, ram = bytes_text(self.flash_bytes), bytes_text(self.ram_bytes)
        needs = f"{flash} of flash, {ram} of RAM"
        where = self.chip.name if self.chip is not None else self.cpu
        if self.whole is not None:
            where += " with --ram"
            needs += f" instead of {bytes_text(self.whole.ram_bytes + self.whole.stack_bytes)}"
        if self.latency is not None:
            needs += f", {ms_text(self.latency.ms)}"
        if self.whole is not None and self.instructions is not None and self.whole.instructions:
            needs += f", {self.instructions / self.whole.instructions - 1:.1%} more instructions"
        if self.misses:
            return f"does not fit {where}: {'; '.join(self.misses)}"
        if self.ram_limit is not None or self.flash_limit is not None:
            return f"fits {where}: {needs}"
        return f"fits {len(self.holding)} of {len(self.chips)} chips; {where}: {needs}"

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, then what it takes, layer by layer.

        Args:
            everything: all layers and all chips, not only the first.
        """
        return [*_lines(self, everything)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "model": self.model,
            "verdict": self.verdict,
            "fits": self.fits,
            "misses": self.misses,
            "kind": self.kind,
            "cpu": self.cpu,
            "clock_mhz": self.clock_mhz,
            "chip": None if self.chip is None else self.chip.name,
            "ram_limit": self.ram_limit,
            "flash_limit": self.flash_limit,
            "flash_bytes": self.flash_bytes,
            "weights_bytes": self.footprint.weights_bytes,
            "ram_bytes": self.ram_bytes,
            "arena_bytes": self.footprint.arena_bytes,
            "stack_bytes": self.footprint.stack_bytes,
            "is_compiled": self.footprint.is_compiled,
            "macs": self.footprint.macs,
            "instructions": self.instructions,
            "instructions_error": self.error,
            "latency": None if self.latency is None else asdict(self.latency),
            "layers": [asdict(layer) for layer in self.footprint.layers],
            "chips": [self._chip_data(one) for one in self.chips],
            "tflite_micro": None if self.micro is None else asdict(self.micro),
            "remedies": [asdict(remedy) for remedy in self.remedies],
            "notes": list(self.notes),
            "in_bands": self.whole is not None,
            "whole_ram_bytes": None if self.whole is None else self.whole.ram_bytes + self.whole.stack_bytes,
            "whole_instructions": None if self.whole is None else self.whole.instructions,
        }

    @staticmethod
    def _chip_data(one: ChipFit) -> dict[str, Any]:
        latency = None if one.latency is None else asdict(one.latency)
        needs = {"needs_flash_bytes": one.flash_bytes, "needs_ram_bytes": one.ram_bytes}
        return {**asdict(one.chip), **needs, "misses": one.misses, "latency": latency}


def _lines(fit: Fit, everything: bool) -> Iterator[str]:
    yield from wrapped(f"{fit.model or 'graph'}: {fit.verdict}")
    yield from _needs(fit)
    yield ""
    yield from _layer_table(fit.footprint.layers, everything)
    if fit.chips:
        yield ""
        yield from _chip_table(fit, everything)
    if fit.micro is not None:
        yield ""
        yield from _micro_lines(fit)
    if fit.remedies:
        yield ""
        yield from _remedy_lines(fit)
    for note in fit.notes:
        yield from wrapped(f"note: {note}")


def _needs(fit: Fit) -> Iterator[str]:
    """What it takes, each with how it is known."""
    it = fit.footprint
    known = "compiled" if it.is_compiled else "estimated"
    yield from row("flash", f"{it.flash_bytes:,} bytes, {it.weights_bytes:,} of them weights ({known})")
    peak = f", most at {one_line(it.peak.name)}" if it.peak is not None else ""
    outside = it.ram_bytes - it.arena_bytes
    yield from row(
        "RAM",
        f"{it.ram_bytes:,} bytes: arena {it.arena_bytes:,}, inputs, outputs and state {outside:,}{peak}",
    )
    yield from row("stack", f"{it.stack_bytes:,} bytes ({'compiled' if it.is_compiled else 'estimated'})")
    if it.instructions is None:
        yield from row("work", f"{it.macs:,} multiplications; no instructions were counted on {fit.cpu}")
        return
    error = f", to within {fit.error:.0%} for three networks in four" if fit.error else ""
    yield from row("work", f"{it.macs:,} multiplications, {it.instructions:,.0f} instructions{error}")
    if fit.latency is not None:
        low, high = ms_text(fit.latency.low_ms), ms_text(fit.latency.high_ms)
        yield from row(
            "latency", f"{ms_text(fit.latency.ms)} at {fit.clock_mhz:g} MHz, between {low} and {high}"
        )


def _layer_table(layers: Sequence[LayerFit], everything: bool) -> Iterator[str]:
    """The layers; of many, those that take most."""
    shown = list(enumerate(layers, 1))
    if not everything and len(shown) > _LAYERS:
        heaviest = sorted(shown, key=lambda item: -(item[1].instructions or item[1].macs))[:_LAYERS]
        shown = sorted(heaviest)
    total = sum(layer.instructions or 0 for layer in layers) or 1
    rows = []
    for number, layer in shown:
        count = layer.instructions
        took = ["", ""] if count is None else [f"{count:,.0f}", f"{count / total:.0%}"]
        star = "" if layer.is_counted or count is None else "~"
        rows.append(
            [
                str(number),
                layer.operator.lower()[:20],
                shortened(one_line(layer.name), 20),
                f"{layer.weights_bytes:,}",
                f"{layer.ram_bytes:,}",
                star + took[0],
                took[1],
            ]
        )
    yield from table(rows, ["", "layer", "output", "weights", "RAM", "instructions", ""], "rll")
    left = len(layers) - len(shown)
    if left:
        yield f"  and {left} more: --all"


def _chip_table(fit: Fit, everything: bool) -> Iterator[str]:
    holding, most = fit.holding, len(fit.chips)
    yield f"chips that hold it: {len(holding)} of {most}, the smallest memory first"
    shown = fit.chips if everything else tuple(holding[:_CHIPS])
    yield from table(
        [_chip_row(one) for one in shown], ["chip", "cpu", "MHz", "flash", "RAM", "a run", ""], "ll"
    )
    left = most - len(shown)
    if left:
        yield f"  and {left} more, with those that do not: --all"


def _chip_row(one: ChipFit) -> list[str]:
    chip = one.chip
    flash, ram = one.flash_bytes / chip.flash_bytes, one.ram_bytes / chip.ram_bytes
    missing = f"too little {' and '.join(one.misses)}" if one.misses else ""
    return [
        chip.name,
        chip.cpu,
        f"{chip.clock_mhz:g}",
        f"{chip.flash_bytes // 1024}K {flash:.0%}",
        f"{chip.ram_bytes // 1024}K {ram:.0%}",
        ms_text(one.latency.ms) if one.latency is not None else "-",
        missing,
    ]


def _micro_lines(fit: Fit) -> Iterator[str]:
    it = fit.micro
    assert it is not None
    parts = [f"{bytes_text(it.flash_bytes)} of flash", f"{bytes_text(it.ram_bytes + it.stack_bytes)} of RAM"]
    if it.instructions is not None and fit.instructions:
        parts.append(f"{it.instructions:,.0f} instructions ({it.instructions / fit.instructions:.1f}x)")
    unknown = f"; {', '.join(it.unknown)} guessed" if it.unknown else ""
    kernels = "reference kernels" if fit.kind == "float" else "CMSIS-NN"
    yield from wrapped(f"TFLite Micro with {kernels} would take {', '.join(parts)}{unknown}")


def _remedy_lines(fit: Fit) -> Iterator[str]:
    yield "what would make it smaller:"
    for remedy in fit.remedies:
        yield from wrapped(f"  {remedy.what}{_figures(remedy, fit)}", "    ")
        if remedy.command:
            yield from command(remedy.command)


def _figures(remedy: Remedy, fit: Fit) -> str:
    parts = []
    if remedy.flash_bytes is not None:
        parts.append(f"flash {bytes_text(remedy.flash_bytes)}")
    if remedy.ram_bytes is not None:
        parts.append(f"RAM {bytes_text(remedy.ram_bytes)}")
    if remedy.instructions is not None and fit.instructions:
        parts.append(f"{remedy.instructions / fit.instructions:.2g}x the instructions")
    keeps_ram = fit.ram_limit is None or (remedy.ram_bytes or 0) <= fit.ram_limit
    keeps = keeps_ram and (fit.flash_limit is None or (remedy.flash_bytes or 0) <= fit.flash_limit)
    if parts and (fit.ram_limit is not None or fit.flash_limit is not None):
        parts.append("fits" if keeps else "still does not fit")
    return f": {', '.join(parts)}" if parts else ""
