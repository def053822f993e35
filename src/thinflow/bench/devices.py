"""What is known of the devices that rows were measured on, and how they fared over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinflow.analysis.stats import Interval
from thinflow.bench.machine import Machine
from thinflow.ir.brief import brief_repr
from thinflow.program.amounts import ms_text


@brief_repr
@dataclass(frozen=True)
class State:
    """What a device was doing at a moment; what it does not tell is None or empty.

    Attributes:
        governor: of the frequency, such as "ondemand"; several if its CPUs have several.
        mhz: frequency of the quickest of its CPUs.
        celsius: of the hottest place that it knows.
        throttled: what slows it down now or did since it was started, in words: "under-voltage now".
        battery: percent.
        throttle_count: how often its CPUs were slowed down since it was started, for heat.
    """

    governor: str = ""
    mhz: float | None = None
    celsius: float | None = None
    throttled: tuple[str, ...] = ()
    battery: float | None = None
    throttle_count: int | None = None

    def __str__(self) -> str:
        told = [f"governor {self.governor}"] if self.governor else []
        told += [f"{self.mhz:.0f} MHz"] if self.mhz is not None else []
        told += [f"{self.celsius:.0f} °C"] if self.celsius is not None else []
        told += [f"battery at {self.battery:.0f} %"] if self.battery is not None else []
        return ", ".join([*told, *self.throttled])

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "throttled": list(self.throttled)}


@brief_repr
@dataclass(frozen=True)
class Facts:
    """What a device is.

    Attributes:
        machine: its CPU, cores and system.
        runtime: what runs models there, with its version: "LiteRT 2.1.0".
        memory_bytes: of the whole device; None if it does not tell.
        model: what the device itself is called, such as "Raspberry Pi 5 Model B"; "" if it does not tell.
    """

    machine: Machine
    runtime: str
    memory_bytes: int | None = None
    model: str = ""

    def __str__(self) -> str:
        known = [self.model] if self.model else []
        return ", ".join([*known, str(self.machine), self.runtime])

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "machine": self.machine.data()}


@brief_repr
@dataclass(frozen=True)
class Soak:
    """A row at the beginning and at the end of a long measurement.

    Attributes:
        subject: the model, with its setting.
        seconds: between the beginning of the first part and the end of the last.
        part: seconds that each of the two takes.
        first_ms, last_ms: medians there.
        ratio: time at the end over that at the beginning.
    """

    subject: str
    seconds: float
    part: float
    first_ms: float
    last_ms: float
    ratio: Interval

    def __str__(self) -> str:
        parts = "minute" if round(self.part) == 60 else f"{self.part:.3g} s"
        times = f"{ms_text(self.first_ms)} in the first {parts}, {ms_text(self.last_ms)} in the last"
        if not self.ratio.known:
            return (
                f"{self.subject}: too few runs to compare the end of {self.seconds:.0f} s with the beginning"
            )
        if 1.0 in self.ratio:
            return f"{self.subject}: as fast at the end of {self.seconds:.0f} s as at the beginning ({times})"
        percent = 100 * abs(self.ratio.value - 1)
        how = "slower" if self.ratio.value > 1 else "faster"
        return f"{self.subject}: {percent:.0f} % {how} at the end of {self.seconds:.0f} s ({times})"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "ratio": self.ratio.data()}


@brief_repr
@dataclass(frozen=True)
class MeasuredDevice:
    """A device that models were measured on.

    Attributes:
        name: as in the rows.
        facts: what it is.
        before, after: its state when the measurement began and when it was over.
        soak: how its rows fared, if they were run for long.
        failure: why it answered no longer; "" if it did to the end.
    """

    name: str
    facts: Facts
    before: State
    after: State
    soak: tuple[Soak, ...] = ()
    failure: str = ""

    # What was so since it was started may be older than the measurement, and is told all the same.
    def slowed(self) -> Iterator[str]:
        """What slows it down, or came to slow it down meanwhile, in words."""
        yield from self.after.throttled
        counts = self.before.throttle_count, self.after.throttle_count
        if counts[0] is not None and counts[1] is not None and counts[1] > counts[0]:
            yield f"its CPUs were slowed down for heat {counts[1] - counts[0]} times"

    def changes(self) -> str:
        """Temperature and frequency from the beginning to the end, in words; empty if it tells neither."""
        found = []
        for before, after, unit in (
            (self.before.celsius, self.after.celsius, "°C"),
            (self.before.mhz, self.after.mhz, "MHz"),
        ):
            if before is not None and after is not None and round(before) != round(after):
                found.append(f"from {before:.0f} to {after:.0f} {unit}")
        return ", ".join(found)

    def sentences(self) -> Iterator[str]:
        """How it fared in a long run, with what it tells of the cause."""
        # Beside a row that got slower only: for the others there is nothing to explain.
        causes = "; ".join([*([self.changes()] if self.changes() else []), *self.slowed()])
        for one in self.soak:
            yield f"{one}{f': {causes}' if causes and 1.0 not in one.ratio else ''}"

    def caveats(self) -> Iterator[str]:
        """What a reader of its numbers should know."""
        if self.failure:
            yield f"{self.failure}; these are its runs up to then"
        for what in self.slowed():
            yield f"{self.name}: {what}: it can do better"

    def line(self) -> str:
        """What it is and how it was, in a line."""
        state = str(self.after)
        return f"{self.name}: {self.facts}{f'; {state}' if state else ''}"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "facts": self.facts.data(),
            "before": self.before.data(),
            "after": self.after.data(),
            "soak": [one.data() for one in self.soak],
            "failure": self.failure,
        }
