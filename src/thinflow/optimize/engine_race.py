"""The engines of a job beside each other: whose file is the fastest on this machine and fit to be shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.bench.report import BenchmarkReport
from thinflow.ir.brief import brief_repr
from thinflow.optimize.engine_names import PREFIXES
from thinflow.optimize.ladder.measured import too_much_lost
from thinflow.optimize.maker import ModelPair
from thinflow.optimize.quality import Quality

if TYPE_CHECKING:
    from thinflow.bench.rows import Row


@brief_repr
@dataclass(frozen=True)
class EngineStanding:
    """One engine in a race.

    Attributes:
        engine: its name.
        file: the faster of its files that are fit to be shipped; None if there is none.
        row: how that was timed.
        why: why it is passed over; "" for the one that won.
        remark: what else to know, such as why its smaller file was no candidate.
    """

    engine: str
    file: Path | None = None
    row: Row | None = None
    why: str = ""
    remark: str = ""

    @property
    def median_ms(self) -> float | None:
        return None if self.row is None else self.row.median_ms


@brief_repr
@dataclass(frozen=True)
class EngineRace:
    """All engines that were asked for, the fastest first; those without a file behind them.

    Attributes:
        standings: of each.
        threads: that all had.
        ratio: by how much the second is slower, in words; "" without a second.
    """

    standings: tuple[EngineStanding, ...]
    threads: int
    ratio: str = ""

    @property
    def winner(self) -> EngineStanding | None:
        """The fastest; None if none could be timed."""
        first = self.standings[0]
        return first if first.row is not None else None

    @property
    def sentence(self) -> str:
        """Which engine is the fastest, and by how much; up to the file."""
        if self.winner is None:
            return "no engine could be timed"
        on = f"on {self.threads} thread{'s' if self.threads != 1 else ''} of this machine"
        if not self.ratio:
            return (
                f"{self.winner.engine} is the only one of {len(self.standings)} engines that was timed {on}"
            )
        return f"{self.winner.engine} is the fastest {on}, {self.ratio}"

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "threads": self.threads,
            "engines": [
                {
                    "engine": one.engine,
                    "file": None if one.file is None else str(one.file),
                    "latency_ms": None if one.row is None else one.row.latency.data(),
                    "passed_over": one.why or None,
                    "remark": one.remark or None,
                }
                for one in self.standings
            ],
        }


def race(
    engines: Sequence[str],
    pairs: Mapping[str, ModelPair[Any, Any]],
    files: Mapping[str, Path],
    latency: BenchmarkReport | None,
    *,
    threads: int,
    max_drop: float,
    synthetic: bool,
    missing: Mapping[str, str],
) -> EngineRace:
    """The race of some engines.

    Args:
        engines: names.
        pairs: the models that were made for them.
        files: by role.
        latency: of the files, in turns.
        threads: whose times decide.
        max_drop: points of accuracy that fewer bits may cost.
        synthetic: whether samples were made up, by which nobody can judge fewer bits.
        missing: engine -> why there are no models for it.
    """
    found = []
    for engine in engines:
        pair = pairs.get(engine)
        if pair is None:
            found.append(
                EngineStanding(engine, why=f"not made: {missing.get(engine) or 'no reason is known'}")
            )
        elif pair.plain.coverage.is_part:
            found.append(EngineStanding(engine, why="its files hold only a part of the model"))
        else:
            found.append(_standing(engine, pair, files, latency, threads, max_drop, synthetic))
    found.sort(key=lambda one: (one.row is None, one.median_ms or 0.0))
    timed = [one for one in found if one.row is not None]
    if not timed or latency is None:
        return EngineRace(tuple(found), threads)
    best = timed[0]
    placed = [best, *(_behind(one, best, latency) for one in timed[1:]), *found[len(timed) :]]
    ratio = ""
    if len(timed) > 1:
        ratio = str(latency.ratio(timed[1].row, best.row).interval) if timed[1].row and best.row else ""
        ratio = f"{ratio} times as fast as {timed[1].engine}"
    return EngineRace(tuple(placed), threads, ratio)


def _standing(
    engine: str,
    pair: ModelPair[Any, Any],
    files: Mapping[str, Path],
    latency: BenchmarkReport | None,
    threads: int,
    max_drop: float,
    synthetic: bool,
) -> EngineStanding:
    """The faster of an engine's two files that are fit to be shipped."""
    plain, smaller = (files[f"{PREFIXES[engine]}{kind}"] for kind in ("fp32", "int8"))
    against = _against(pair, max_drop, synthetic)
    fit = [plain] if against else [plain, smaller]
    rows = [(file, latency.timing(file, threads=threads)) for file in fit] if latency is not None else []
    timed = [(row.median_ms, file, row) for file, row in rows if row is not None]
    if not timed:
        skipped = () if latency is None else latency.skipped
        names = {} if latency is None else {latency.paths.get(str(f), f.stem) for f in fit}
        why = next((s.why for s in skipped if s.subject in names), "it was not timed")
        return EngineStanding(engine, plain, why=f"not timed: {why}")
    _, file, row = min(timed, key=lambda one: one[0])
    if not against and len(timed) > 1 and file == plain:
        against = f"{pair.scheme} is no faster there"
    return EngineStanding(engine, file, row, remark=against)


def _against(pair: ModelPair[Any, Any], max_drop: float, synthetic: bool) -> str:
    """Why the smaller file of an engine is no candidate; "" if it is one."""
    scheme, quality = pair.scheme, _smaller_quality(pair)
    if synthetic:
        return f"{scheme} is no candidate, as samples were made up"
    if pair.ladder is not None:
        return f"{scheme} does not keep the budget" if pair.ladder.choice.best.is_float else ""
    lost = too_much_lost(scheme, quality, max_drop)
    return f"{scheme} is no candidate: {lost}" if lost else ""


def _smaller_quality(pair: ModelPair[Any, Any]) -> Quality:
    return pair.qualities[pair.maker.names[1]]


def _behind(one: EngineStanding, best: EngineStanding, latency: BenchmarkReport) -> EngineStanding:
    """One that is slower than the best, or cannot be told from it."""
    assert one.row is not None
    assert best.row is not None
    ratio = latency.ratio(one.row, best.row)
    close = "" if ratio.outcome == "faster" else ", within what was measured no difference"
    why = f"takes {ratio.interval} times as long as {best.engine}{close}"
    return EngineStanding(one.engine, one.file, one.row, why, one.remark)
