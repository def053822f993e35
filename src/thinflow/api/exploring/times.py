"""Time of each node, by the engine's own profiler."""

from __future__ import annotations

from typing import Any

from thinflow.api.exploring.finding import Finder
from thinflow.bench.profile import profile
from thinflow.explorer.building import Built
from thinflow.explorer.document import Overlay, Texts


def time_overlay(
    built: Built, source: Any, texts: Texts, *, engine: str, threads: int = 1, runs: int = 20, **options: Any
) -> tuple[Overlay, list[str]]:
    """Milliseconds of a run, node by node.

    Args:
        built: where the nodes are.
        source: the model, as it is run.
        texts: of the page.
        engine: "litert", "onnxruntime" or "reference".
        threads, runs: as for `benchmark`.
        options: how to open the model, and what to feed it.

    Returns:
        The overlay, and notes on time that belongs to no node that is shown.

    Raises:
        EngineUnavailable: the engine is missing, or does not run the model.
    """
    found = profile(source, engine=engine, threads=threads, runs=runs, **options)
    finder = Finder(built)
    values: list[float | None] = [None] * len(built.boxes)
    reasons: dict[int, int] = {}
    # LiteRT tells the kernels of its delegate alone; its own bear the names of the operators.
    where = " in the XNNPACK delegate" if found.engine == "litert" else ""
    lost = total = 0.0
    for row in found.stats.rows.values():
        took = row.micros.total / max(found.stats.micros.count, 1) / 1000
        total += took
        place = finder.find(row.name)
        if place is None:
            lost += took
            continue
        # Operators that an engine added around a node's own count for the node.
        values[place] = (values[place] or 0.0) + took
        kernel = found.kernels.get(row.name, "")
        if kernel:
            reasons[place] = texts.of(f"{row.op}{where}: {kernel}")
    values = [None if v is None else round(v, 6) for v in values]
    about = (
        f"Mean of {found.stats.micros.count} runs on {found.engine}, {found.threads} thread(s): "
        f"{found.method}; fed {found.fed}. "
        "What an engine fused counts for the node that it named."
    )
    if found.whole_micros:
        # A delegate whose kernels take less than the clock's tick leaves most of a run to no operator.
        whole = sum(found.whole_micros) / len(found.whole_micros) / 1000
        share = min(1.0, total / (whole or 1))
        about += f" A run took {whole:.3g} ms, of which {share:.0%} are told apart by operator."
    notes = []
    if lost > total / 100:
        share = 100 * lost / total
        notes.append(f"{share:.0f} % of the time belongs to operators under names that are not shown")
    overlay = Overlay("time", "time", about, values, unit="ms", worse="high", adds=True, reasons=reasons)
    return overlay, notes
