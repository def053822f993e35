"""The time of a run, beside that of a baseline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from thinflow.budgets.baseline import Stored, digest_of, fingerprint, thinned
from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import as_table, place, whole_number
from thinflow.budgets.subject import Subject
from thinflow.lint.words import count
from thinflow.program.amounts import ms_text
from thinflow.settings.table import Table

_KEYS = ("ratio", "engine", "threads", "seconds", "runs", "model", "keep_model", "samples")
_SECONDS = 10.0


@dataclass(frozen=True)
class LatencyLimit:
    """How slow a model may be.

    Attributes:
        ratio: of its time to that of the baseline.
        engine, threads: that run it.
        seconds, runs: of the measurement, as for `thinflow benchmark`.
        model: path of a model that is the baseline; None for stored times.
        keep_model: whether a model is stored with its times.
        samples: path of what runs take in turns, as for `thinflow benchmark`; None: inputs are made up.
    """

    ratio: float
    engine: str = "auto"
    threads: int = 1
    seconds: float = _SECONDS
    runs: int | None = None
    model: str | None = None
    keep_model: bool = False
    samples: str | None = None


def _read(table: Table, key: str) -> LatencyLimit:
    inner = as_table(table, key, "ratio", _KEYS)
    ratio, seconds = inner.number("ratio", "1.1"), inner.number("seconds", "10")
    if ratio is None or not 0 < ratio < float("inf"):
        raise inner.error(f"'{key}' has no ratio above 0", f"write {key} = 1.1, or ratio = 1.1 in its table")
    if seconds is not None and not seconds > 0:
        raise inner.error("'seconds' is not above 0", "write seconds = 10")
    return LatencyLimit(
        ratio,
        inner.text("engine", "litert") or "auto",
        whole_number(inner, "threads", 1) if "threads" in inner else 1,
        seconds or _SECONDS,
        whole_number(inner, "runs", 50) if "runs" in inner else None,
        place(inner, "model", "released.tflite"),
        bool(inner.flag("keep_model")),
        place(inner, "samples", "clips/"),
    )


@budget("latency", read=_read)
def latency(model: Subject, limit: LatencyLimit) -> BudgetItem:
    """Time of a run over that of a baseline, on the same machine: at most so many times as long."""
    # A model that the budget names needs no stored times.
    if model.baselines.is_new and limit.model is None:
        return _store(model, limit)
    beside = limit.model or model.baselines.kept(model.path)
    if beside:
        return _in_turns(model, limit, beside)
    stored = model.baselines.of(model.path)
    renew = "add --update-baseline to this command"
    if stored is None:
        return BudgetItem(Status.NOT_COMPARED, "not compared: no baseline is stored", mend=renew)
    # Before anything is measured, which would be for nothing.
    if stored.machine != fingerprint():
        told = f"not compared: baseline from another machine ({stored.cpu})"
        return BudgetItem(
            Status.NOT_COMPARED, told, mend=f"{renew}; with keep_model = true it holds on other machines"
        )
    # Times of other inputs would say nothing of the model.
    then, now = (fed or "made-up inputs" for fed in (stored.fed, _fed(limit, model)))
    if then != now:
        told = f"not compared: the baseline ran with {then}, this budget with {now}"
        return BudgetItem(Status.NOT_COMPARED, told, mend=renew)
    report = _measured({"model": model.source}, model, limit)
    row = report.rows[0]
    if (stored.engine, stored.threads) != (row.engine, row.threads or 0):
        told = f"not compared: the baseline ran on {stored.engine} with {count(stored.threads, 'thread')}"
        return BudgetItem(Status.NOT_COMPARED, told, mend=renew)
    from thinflow.analysis.stats import ratio_of_medians
    from thinflow.bench.rows import PLACEMENT

    found = ratio_of_medians(row.samples_ns, stored.times_ns).widened(PLACEMENT)
    told = f"stored: {_median_text(stored)}; now {ms_text(row.median_ms)}{_input_text(report)}"
    return _item(found, limit, told)


def _in_turns(model: Subject, limit: LatencyLimit, beside: str) -> BudgetItem:
    """Beside the model that is the baseline, in turns with it."""
    if model.path and os.path.exists(beside) and digest_of(beside) == digest_of(model.path) != "":
        told = f"1 of {limit.ratio:g} times the baseline's: it is the same file"
        return BudgetItem(Status.WITHIN, told, 1.0, limit.ratio, "times")
    report = _measured({"baseline": beside, "model": model.source}, model, limit)
    found = report.ratio("model", "baseline")
    before, now = (ms_text(report.row(name).median_ms) for name in ("baseline", "model"))
    told = f"in turns with {os.path.basename(beside)}: {before}; now {now}{_input_text(report)}"
    return _item(found.interval, limit, told)


def _fed(limit: LatencyLimit, model: Subject) -> str:
    """Which samples, as it is stored; "" for inputs that are made up."""
    # From the folder of the baseline, as paths of models are: it may be read from anywhere.
    return model.baselines.key(limit.samples) if limit.samples else ""


def _input_text(report: Any) -> str:
    """What was fed, where somebody gave it."""
    return "" if any(fed.is_made_up for fed in report.inputs.values()) else f", on {report.fed}"


def _measured(sources: dict[str, Any], model: Subject, limit: LatencyLimit) -> Any:
    from thinflow.bench.latency import benchmark
    from thinflow.optimize.fed_samples import SampleFeeds

    return benchmark(
        sources,
        feeds=SampleFeeds(limit.samples) if limit.samples else None,
        threads=limit.threads,
        engines=limit.engine,
        seconds=limit.seconds,
        runs=limit.runs,
        memory=False,
        peaks=False,
        shapes=model.shapes,
        progress=model.progress,
        **model.opening,
    )


def _item(found: Any, limit: LatencyLimit, told: str) -> BudgetItem:
    text = f"{found} of {limit.ratio:g} times the baseline's time ({told})"
    # Over only if the interval says so as well: machines are never quite still.
    status = Status.WITHIN
    if found.value > limit.ratio:
        status = Status.OVER if found.low > limit.ratio else Status.UNSURE
    mend = "" if status is Status.WITHIN else "thinflow benchmark MODEL --profile"
    return BudgetItem(status, text, found.value, limit.ratio, "times", mend=mend)


def _store(model: Subject, limit: LatencyLimit) -> BudgetItem:
    """Measure, and remember."""
    from thinflow.bench.machine import this_machine

    if not model.path:
        return BudgetItem(Status.NOT_COMPARED, "not stored: a graph in memory has no name")
    row = _measured({"model": model.source}, model, limit).rows[0]
    entry = Stored(
        digest_of(model.path),
        row.engine,
        row.threads or 0,
        _fed(limit, model),
        fingerprint(),
        this_machine().cpu,
        thinned(row.samples_ns),
    )
    kept = model.baselines.store(model.path, entry, keep_model=limit.keep_model)
    with_model = f", and the model in {kept.kept}" if kept.kept else ""
    return BudgetItem(Status.WITHIN, f"stored: {_median_text(kept)} on {kept.cpu}{with_model}")


def _median_text(stored: Stored) -> str:
    from thinflow.analysis.stats import describe

    return ms_text(describe(stored.times_ns).median / 1e6)
