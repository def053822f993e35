"""Noise layer by layer in a program of fewer bits: a list, a sentence, and a chart."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from thinflow.errors.plain_text import markdown_code
from thinflow.ir.brief import brief_repr
from thinflow.optimize.quality import LOUDEST

APART_DB = 20.0
"""Below it a tensor has more than a hundredth of its power in noise: a tenth of its amplitude."""
_WIDTH = 24
"""Characters of the longest bar."""
_LOUD_DB = 60.0
"""A bar that is full: 10 bits."""


@dataclass(frozen=True)
class LayerError:
    """Noise in the output of one layer, with all that came before it in fewer bits, too.

    Attributes:
        name: by which `skip_nodes` finds it.
        code: op.
        sqnr_db: signal to noise at its output, in decibels.
        before_db: the same at the worst of its inputs; None where these are all exact.
        is_float: whether it computes in float itself.
    """

    name: str
    code: str
    sqnr_db: float
    before_db: float | None = None
    is_float: bool = False

    @property
    def added(self) -> float:
        """The part of its output's power that is noise and was none in its inputs."""
        return _share(self.sqnr_db) - (0.0 if self.before_db is None else _share(self.before_db))

    @property
    def change(self) -> str:
        """`48.2 to 37.0 dB`: from its inputs to its output."""
        before = "" if self.before_db is None else f"{self.before_db:.1f} to "
        return f"{before}{self.sqnr_db:.1f} dB"


@brief_repr
@dataclass
class LayerErrors:
    """Of all layers, in running order.

    Attributes:
        samples: how many were run.
        sizes: of each tensor of the float program, for one sample.
    """

    layers: list[LayerError] = field(default_factory=list)
    samples: int = 0
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def first_apart(self) -> LayerError | None:
        """The first layer that is nearer to noise than `APART_DB`."""
        return next((layer for layer in self.layers if layer.sqnr_db < APART_DB), None)

    @property
    def sentence(self) -> str:
        """Where both part ways; "" if nothing was measured."""
        if not self.layers:
            return ""
        first = self.first_apart
        if first is not None:
            return f"float and fewer bits part ways at {first.code} {first.name} ({first.change})"
        # What stayed float only hands on, or makes louder, what came before it.
        rounding = [layer for layer in self.layers if not layer.is_float] or self.layers
        worst = max(rounding, key=lambda layer: layer.added)
        return (
            f"no layer falls below {APART_DB:.0f} dB; most noise comes in at {worst.code} {worst.name}"
            f" ({worst.change})"
        )

    def data(self) -> dict[str, Any]:
        """For machines."""
        first = self.first_apart
        return {
            "sentence": self.sentence,
            "samples": self.samples,
            "first_apart": None if first is None else first.name,
            "layers": [
                asdict(layer) | {"sqnr_db": _rounded(layer.sqnr_db), "before_db": _rounded(layer.before_db)}
                for layer in self.layers
            ],
        }

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Name, op, decibels before and behind, and a bar for each layer."""
        return [
            (
                markdown_code(layer.name),
                f"{layer.code}, float" if layer.is_float else layer.code,
                "" if layer.before_db is None else f"{layer.before_db:.1f}",
                f"{layer.sqnr_db:.1f}",
                "█" * max(1, round(_WIDTH * min(max(layer.sqnr_db, 0.0) / _LOUD_DB, 1.0))),
            )
            for layer in self.layers
        ]


def _rounded(decibels: float | None) -> float | None:
    return None if decibels is None else round(decibels, 2)


def _share(decibels: float) -> float:
    return float(10 ** (-min(max(decibels, -LOUDEST), LOUDEST) / 10))


def chart(found: LayerErrors, most: int = 60) -> list[str]:
    """A table in Markdown; of many layers the worst ones."""
    rows = found.rows()
    if len(rows) > most:
        worst = sorted(range(len(rows)), key=lambda n: found.layers[n].sqnr_db)[:most]
        rows = [rows[n] for n in sorted(worst)]
    if not rows:
        return []
    return [
        "| layer | op | inputs, dB | output, dB | |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
