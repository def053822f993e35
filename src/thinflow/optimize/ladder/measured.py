"""What was measured of one candidate: size, memory, time, and how good its answers are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from thinflow.ir.brief import brief_repr
from thinflow.optimize.ladder.candidates import FLOAT
from thinflow.optimize.quality import LOUDEST, Judged, Quality, Score, decibels
from thinflow.optimize.trials import Trial
from thinflow.quantize.recipe import Recipe


@dataclass(frozen=True)
class Latency:
    """The time of a run, taken in turns with the float model's.

    Attributes:
        ms: median.
        float_ms: the float model's, in the same rounds.
        low, high: 95 % interval of the ratio.
    """

    ms: float
    float_ms: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Time beside the float model's: below 1 it is faster."""
        return self.ms / self.float_ms if self.float_ms else 1.0


@brief_repr
@dataclass(frozen=True)
class Measured:
    """One candidate, made and measured.

    Attributes:
        name, scheme, effort: see `Candidate`.
        recipe: that the effort found.
        digest: of the file.
        size_bytes: of the file.
        ram_bytes: of its activations, see `arena_bytes`.
        quality: beside the original graph, on samples that made no ranges.
        latency: None if it was not measured.
        failure: why it cannot be shipped, or not even be made; "" if it can.
        seconds: that making and measuring took.
        trials: of the climb.
        warnings: of the model.
        note: of the climb.
        same_as: name of the candidate before it with the very same file; "" if there is none.
    """

    name: str
    scheme: str
    effort: str
    recipe: Recipe = field(default_factory=Recipe, repr=False)
    digest: str = ""
    size_bytes: int = 0
    ram_bytes: int = 0
    quality: Quality = field(default_factory=Quality)
    latency: Latency | None = None
    failure: str = ""
    seconds: float = 0.0
    trials: list[Trial] = field(default_factory=list, repr=False)
    warnings: list[str] = field(default_factory=list, repr=False)
    note: str = ""
    same_as: str = ""

    @property
    def is_float(self) -> bool:
        """True for the model that nothing was taken from."""
        return self.scheme == FLOAT

    @property
    def is_own(self) -> bool:
        """True if it was made, and is no copy of another."""
        return not self.failure and not self.same_as

    @property
    def exactness_db(self) -> float:
        """Signal to noise of the logits if there are some, else of the outputs; finite."""
        logits = self.quality.logits
        found = self.quality.sqnr_db if logits is None else logits.sqnr_db
        return max(-LOUDEST, min(LOUDEST, found))

    @property
    def loss(self) -> float:
        """Points of accuracy or of equal answers that it loses; with neither, decibels below no noise."""
        drop = self.quality.drop
        # Rounding teaches a model nothing: answers that it gains are luck.
        return LOUDEST - self.exactness_db if drop is None else max(drop, 0.0)

    def too_wrong(self, max_drop: float) -> str:
        """The loss where it is more than allowed, in words; "" if it is not."""
        return "" if self.is_float else too_much_lost(self.scheme, self.quality, max_drop)

    def kept(self) -> dict[str, Any]:
        """As plain data to be read again by `read_measured`; without the recipe, which is a file."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name != "recipe"}

    def data(self) -> dict[str, Any]:
        """For JSON reports."""
        found, quality = self.latency, self.quality
        return {
            "name": self.name,
            "scheme": self.scheme,
            "effort": self.effort,
            "size_bytes": self.size_bytes,
            "ram_bytes": self.ram_bytes,
            "latency": None
            if found is None
            else {"ms": found.ms, "ratio_to_float": found.ratio, "interval": [found.low, found.high]},
            "drop": quality.drop,
            "drop_interval": quality.drop_interval,
            "accuracy": quality.accuracy,
            "same_answer": quality.same_answer,
            "samples": quality.samples,
            "sqnr_db": round(self.exactness_db, 2),
            "failure": self.failure,
            "same_as": self.same_as,
            "seconds": round(self.seconds, 2),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return asdict(value) if isinstance(value, Quality | Latency | Trial) else value


def read_measured(data: Mapping[str, Any], recipe: Recipe) -> Measured:
    """The record that `Measured.kept` made plain.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: it is none.
    """
    known = {f.name for f in fields(Measured)} - {"recipe"}
    if set(data) != known:
        raise ValueError("fields are missing, or unknown")
    named = dict(data)
    quality = dict(named.pop("quality"))
    # JSON knows lists alone.
    quality["outputs"] = tuple(quality["outputs"])
    quality["logits"] = None if quality["logits"] is None else Score(*quality["logits"])
    quality["judged"] = [Judged(*one) for one in quality.get("judged", ())]
    latency = named.pop("latency")
    trials = [_trial(trial) for trial in named.pop("trials")]
    found = Measured(
        **named,
        recipe=recipe,
        quality=Quality(**quality),
        latency=None if latency is None else Latency(**latency),
        trials=trials,
    )
    numbers = (found.size_bytes, found.ram_bytes, found.seconds)
    if not all(isinstance(n, int | float) and math.isfinite(n) and n >= 0 for n in numbers):
        raise ValueError("a number is none")
    return found


def _trial(data: Mapping[str, Any]) -> Trial:
    named: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Trial(**named)


def on_one_clock(found: Mapping[str, Measured]) -> dict[str, Measured]:
    """The same with times as if the float model had taken equally long beside each of them.

    A machine is not equally fast all the time; how much faster one model is than the other stays.
    """
    floats = sorted(m.latency.float_ms for m in found.values() if m.latency is not None)
    if not floats:
        return dict(found)
    middle = floats[len(floats) // 2]
    return {
        name: m
        if m.latency is None
        else replace(m, latency=replace(m.latency, ms=m.latency.ratio * middle, float_ms=middle))
        for name, m in found.items()
    }


# An SQNR of 20 dB is a noise power of 1 % of the signal's, which is an amplitude of a tenth of it: eight
# rounded bits alone leave about 50 dB (6.02 dB a bit), so something besides rounding is wrong below this.
POOR_SQNR_DB = 20.0


def too_much_lost(name: str, quality: Quality, max_drop: float) -> str:
    """The loss of a smaller model where it is more than allowed, or may be; empty if it is not.

    Args:
        name: what to call it.
        max_drop: points that it may lose.
    """
    if quality.not_finite:
        return f"{name} gives NaN or infinity where the model gives numbers"
    if quality.drop is None:
        poor = quality.sqnr_db < POOR_SQNR_DB
        return f"the {name} output is poor (SQNR {decibels(quality.sqnr_db)})" if poor else ""
    if quality.drop <= max_drop:
        return ""
    what = "accuracy" if quality.accuracy is not None else "answers"
    if not quality.surely_drops(max_drop):
        points = f"{max_drop:g} points of {what}"
        return f"whether {name} loses more than {points} takes more samples to tell"
    return f"{name} loses {quality.drop:.1f} points of {what}, more than {max_drop:g}"
