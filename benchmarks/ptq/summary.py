"""What a comparison comes to, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.ptq.compare import Row

BETTER_DB = 1.0
LOST_POINTS, LEAST_AGREEMENT = 0.005, 0.99
AS_FAST = 1.00


def summaries(rows: Sequence[Row]) -> list[str]:
    """Lines for each setting of ours: beside the best peer's best setting, beside float, and the time."""
    kinds = dict.fromkeys((row.made_by, row.form) for row in rows if row.is_ours)
    found = []
    for made_by, form in kinds:
        mine = [row for row in rows if (row.made_by, row.form) == (made_by, form)]
        told = [*_beside_peers(mine, rows), *_beside_float(mine, rows), *_times(mine)]
        found.append(f"{made_by} {form}: {'; '.join(told)}")
    return found


def _beside_peers(mine: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    best = {
        row.network: max(_peers(row.network, rows), key=lambda r: r.quality.sqnr_db)
        for row in mine
        if _peers(row.network, rows)
    }
    if not best:
        return
    gains = {
        row.network: row.quality.sqnr_db - best[row.network].quality.sqnr_db
        for row in mine
        if row.network in best
    }
    won = sum(gain >= BETTER_DB for gain in gains.values())
    worst = min(gains, key=lambda name: gains[name])
    yield f"SQNR >= best peer + {BETTER_DB:.0f} dB on {won} of {len(gains)} networks"
    yield f"worst {gains[worst]:+.1f} dB on {worst} ({best[worst].made_by})"


def _peers(network: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.network == network and not row.is_ours and not row.is_float]


def _beside_float(mine: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    plain = {row.network: row.quality for row in rows if row.is_float}
    lost: dict[str, str] = {}
    for row in mine:
        right, before = row.quality.right, plain[row.network].right
        points = 0.0 if right is None or before is None else before - right
        same = 1.0 if row.quality.agreement is None else row.quality.agreement
        if points > LOST_POINTS or same < LEAST_AGREEMENT:
            lost[row.network] = f"{row.network} ({-100 * points:+.1f} points, {same:.1%} the same)"
    kept = len(mine) - len(lost)
    whole = (
        f"at most {LOST_POINTS:.1%} and {1 - LEAST_AGREEMENT:.0%} of answers lost on {kept} of {len(mine)}"
    )
    yield whole + (f", not on {', '.join(lost.values())}" if lost else "")


def _times(mine: Sequence[Row]) -> Iterator[str]:
    for whom, ratios in (
        ("float", {row.network: row.times_float for row in mine}),
        ("the peer's eight bits", {row.network: row.times_peer for row in mine}),
    ):
        known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
        if known:
            fast = sum(round(ratio, 2) <= AS_FAST for ratio in known.values())
            worst = max(known, key=lambda name: known[name])
            yield f"{fast} of {len(known)} as fast as {whom}, worst {known[worst]:.2f}x on {worst}"
