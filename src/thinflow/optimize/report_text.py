"""The main job's report as text: what the command prints, and the page for people in `report.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.bench.rows import pipes
from thinflow.errors.plain_text import markdown, markdown_code
from thinflow.ir.brief import short_number
from thinflow.ir.ledger import Entry, reasons
from thinflow.optimize.ladder.result import aligned
from thinflow.optimize.layer_errors import chart
from thinflow.optimize.quality_text import quality_lines
from thinflow.optimize.trials import trial_table
from thinflow.optimize.verdict import GraphResults, JobResults, PairResults, verdict_of

if TYPE_CHECKING:
    from thinflow.bench.rows import Row
    from thinflow.optimize.engine_race import EngineRace
    from thinflow.optimize.ladder.result import Ladder
    from thinflow.optimize.quantized import SmallerModel
    from thinflow.rewrite.runner import Result

_SHOWN_WARNINGS = 5


def lines_of(results: JobResults) -> list[str]:
    """Lines that the command prints: the verdict first, the next command last."""
    lines = [verdict_of(results), "", *_model_lines(results)]
    if isinstance(results, PairResults):
        lines += _cut_lines(results)
        what = "the part in LiteRT" if results.is_part else "LiteRT"
        lines += _transform_lines(results.ledger, f"; {what} float {results.float_difference:.2g}")
        lines += [f"samples    {results.samples}", *_table_lines(results)]
        lines += [] if results.race is None else ["", *_race_lines(results.race), ""]
        # Of made-up samples the table tells more than enough.
        told = [] if results.synthetic else quality_lines(results.int8_quality)
        lines += [f"{results.recipe.scheme:10} {line}" for line in told]
        lines.append(f"computed   {results.int8.shares.sentence}")
        lines += [f"layers     {results.int8.layers.sentence}"] if results.int8.layers.layers else []
        lines += [line for ladder in results.ladders for line in ("", *ladder.lines(), "")]
    elif isinstance(results, GraphResults):
        lines += _transform_lines(results.ledger)
        lines += [f"help       {results.obstacle.hint}"] if results.obstacle.hint else []
        lines.append(f"samples    {results.samples}")
        if results.latency is not None:
            shown = (f"{r.subject} {duration(r)} on {r.setting}" for r in results.latency.rows)
            lines.append(f"latency    {', '.join(shown)}")
    return [*lines, *_closing_lines(results), "", f"next: {results.next_steps[0]}"]


def markdown_of(results: JobResults) -> str:
    """The page of a job."""
    # The stem of the graph's file: the model itself may have come from memory.
    name = results.files["fp32_pb"].stem.removesuffix("_fp32")
    parts = [f"# {markdown(name)}", "", f"**{markdown(verdict_of(results))}**", ""]
    parts += [f"{markdown(line)}.\n" for line in results.origin]
    ends = [("graph input", results.inputs), ("graph output", results.outputs)]
    if isinstance(results, PairResults):
        ends += [("LiteRT input", results.model_inputs), ("LiteRT output", results.model_outputs)]
        parts += [*_models(results), *_race(results.race), *_ladders(results.ladders)]
        parts += [*_warnings(results.warnings), *_interface(ends)]
        parts += [*_outside(results.outside), *_transforms(results.ledger)]
        parts += [*_not_fused(results.left), *_scheme(results)]
    elif isinstance(results, GraphResults):
        hint = results.obstacle.hint
        parts += [f"What helps: {markdown(hint)}.", ""] if hint else []
        parts += [f"Samples: {markdown(results.samples)}.", ""]
        parts += [*_warnings(results.warnings), *_interface(ends), *_transforms(results.ledger)]
    if results.latency is not None:
        exact = not isinstance(results, PairResults)
        parts += ["", "## Latency", "", results.latency.markdown(exact=exact)]
        if isinstance(results, PairResults) and results.alike:
            parts += [f"- {markdown(results.alike)}"]
    return "\n".join([*parts, "", f"Next: {markdown_code(results.next_steps[0])}", ""])


def _cut_lines(results: PairResults) -> list[str]:
    """The ends of the .tflite if the graph has others."""
    if not results.outside:
        return []
    kinds = Counter(results.outside.values()).most_common(2)
    names = ", ".join(f"{n} {s}" for n, s in results.model_inputs)
    ends = ", ".join(f"{n} {s}" for n, s in results.model_outputs)
    end = f" and ends at {ends}" if results.is_part else ""
    count = len(results.outside)
    nodes, are, run = ("node", "is", "runs") if count == 1 else ("nodes", "are", "run")
    left = f"{count} {nodes} {are} not in it" if results.is_part else f"{count} {nodes} {run} in the app"
    return [f"cut        the .tflite begins at {names}{end}; {left}: {kinds[0][0]}"]


def _model_lines(results: JobResults) -> list[str]:
    """The model as it was opened, and what goes in and out."""
    summary = results.summary
    # Of open sizes only arithmetic with sizes is counted, which is no work to speak of.
    flops = summary.cost.total.flops if summary.cost.layers_are_counted else 0
    return [
        f"model      {results.source or 'graph'}: {len(summary.graph)} nodes, "
        f"{short_number(summary.parameters.count + summary.parameters.in_functions)} constants"
        + (f", {short_number(flops)} operations a run" if flops else ""),
        *(f"origin     {line}" for line in results.origin),
        *(f"input      {name}  {spec}" for name, spec in results.inputs),
        *(f"output     {name}  {spec}" for name, spec in results.outputs),
    ]


def _transform_lines(ledger: Result, also: str = "") -> list[str]:
    """The transforms' work together, and its proof.

    Args:
        also: another comparison, and what came of it.
    """
    steps = ledger.steps
    changed = ", ".join(f"{s.transform.split('(')[0]} {s.changes}" for s in steps if s.changes)
    result = [f"transforms {steps[0].nodes[0]} -> {steps[-1].nodes[1]} nodes ({changed or 'no changes'})"]
    compared = [s.difference for s in steps if s.difference is not None]
    # Nothing is claimed without a comparison: steps that change nothing have none.
    if compared:
        result.append(f"proof      every step verified, worst difference {max(compared):.2g}{also}")
    return result


def _closing_lines(results: JobResults) -> list[str]:
    """Warnings, and the files that were written."""
    result = [f"warning    {w}" for w in results.warnings[:_SHOWN_WARNINGS]]
    if len(results.warnings) > _SHOWN_WARNINGS:
        result.append(f"warning    ... and {len(results.warnings) - _SHOWN_WARNINGS} more in report.md")
    names = ", ".join(path.name for path in results.files.values())
    found = results.latency
    result += [f"device     {line}" for line in found.device_lines()] if found is not None else []
    if isinstance(results, PairResults) and results.alike:
        result.append(f"device     {results.alike}")
    return [*result, f"written    {names} in {results.files['json'].parent}"]


def _table(results: PairResults) -> list[list[str]]:
    """Rows of the comparison: a header, then float and quantized."""
    rows = [["", "file", "size", "quality", *_latency_headers(results), "peak memory"]]
    for key, quality in results.qualities.items():
        kilobytes = f"{results.sizes[key] / 1000:,.1f} kB"
        shown = "fp32"
        if key.endswith("int8"):
            other = results.openvino if key.startswith("openvino") else results.onnx
            shown = results.recipe.scheme if other is None or key == "int8" else other.scheme
        what = [shown, results.files[key].name, kilobytes, quality.sentence(detailed=True)]
        rows.append([*what, *_latency_cells(results, key), _memory_cell(results, key)])
    return rows


def _latency_headers(results: PairResults) -> list[str]:
    settings = _timed_settings(results)
    is_one_device = len({device for device, _ in settings}) < 2
    threads = (f"{n} thread{'s' if n > 1 else ''}" for _, n in settings)
    return [
        words if is_one_device else f"{device}, {words}"
        for (device, _), words in zip(settings, threads, strict=True)
    ]


def _latency_cells(results: PairResults, key: str) -> list[str]:
    cells = []
    for device, threads in _timed_settings(results):
        assert results.latency is not None
        timing = results.latency.timing(results.files[key], threads=threads, device=device)
        cells.append("-" if timing is None else duration(timing))
    return cells


def _timed_settings(results: PairResults) -> list[tuple[str, int]]:
    """Device ("" for this machine) and number of threads, a column each."""
    rows = () if results.latency is None else results.latency.rows
    return list(dict.fromkeys((row.device, row.threads) for row in rows if row.threads is not None))


def duration(row: Row) -> str:
    """`12.3 ± 0.2 ms`, in microseconds below one millisecond; as many digits as the spread is worth."""
    # Milliseconds would show a quick model as 0.0.
    unit, factor = ("µs", 1000.0) if row.median_ms < 1 else ("ms", 1.0)
    if not row.latency.has_interval:
        return f"{row.median_ms * factor:.3g} ± ? {unit}"
    # Digits below the spread would only show noise.
    spread = row.spread_ms * factor
    digits = 1 if spread >= 0.1 else 2 if spread >= 0.01 else 3
    return f"{row.median_ms * factor:.{digits}f} ± {spread:.{digits}f} {unit}"


def _memory_cell(results: PairResults, key: str) -> str:
    peak = results.latency.peak_bytes(results.files[key]) if results.latency is not None else None
    return "-" if peak is None else f"{peak / 1e6:.1f} MB"


def _race_lines(race: EngineRace) -> list[str]:
    threads = f"{race.threads} thread{'s' if race.threads != 1 else ''}"
    return aligned([["engine", "file", threads, ""], *race_rows(race)])


def race_rows(race: EngineRace) -> list[list[str]]:
    """Engine, file, latency, and what became of it."""
    return [
        [
            one.engine,
            "-" if one.file is None else one.file.name,
            "-" if one.row is None else duration(one.row),
            "; ".join(filter(None, [one.why or "shipped", one.remark])),
        ]
        for one in race.standings
    ]


def _race(race: EngineRace | None) -> list[str]:
    """The engines beside each other, as a table."""
    if race is None:
        return []
    threads = f"{race.threads} thread{'s' if race.threads != 1 else ''}"
    header = ["engine", "file", threads, "what became of it"]
    rows = [pipes(list(map(markdown, row))) for row in race_rows(race)]
    return ["## Engines", "", pipes(header), "|" + "---|" * len(header), *rows, ""]


def _table_lines(results: PairResults) -> list[str]:
    rows = _table(results)
    return aligned(rows)


def _models(results: PairResults) -> list[str]:
    """The comparison, and what it was made on."""
    header, *rows = _table(results)
    return [
        pipes(header),
        "|" + "---|" * len(header),
        *map(pipes, rows),
        "",
        f"Samples: {markdown(results.samples)}. Judged on: {markdown(results.tested_on)}.",
        *_judged(results),
        f"{'The part in ' if results.is_part else ''}LiteRT float beside the reference interpreter: "
        f"largest relative difference {results.float_difference:.3g}.",
        "",
    ]


def _judged(results: PairResults) -> list[str]:
    """What was counted and measured of the smaller models, each with its interval."""
    smaller = {key: quality for key, quality in results.qualities.items() if key.endswith("int8")}
    # A line for each as one list would not tell which file it is about.
    return [
        line
        for key, quality in smaller.items()
        for line in (
            "",
            f"{markdown_code(results.files[key].name)}, in brackets 95 % intervals:",
            "",
            *(f"- {markdown(text)}" for text in quality_lines(quality)),
            "",
        )
    ]


def _ladders(ladders: Sequence[Ladder]) -> list[str]:
    """All candidates under a budget, for each runtime."""
    parts: list[str] = []
    for ladder in ladders:
        title = f"## Candidates for {ladder.runtime}"
        remarks = [f"- {markdown(line)}" for line in ladder.remarks()]
        picture = f"![size and quality]({ladder.plot_name})"
        parts += [title, "", f"{markdown(ladder.sentence)}: {markdown(ladder.choice.best.name)}.", ""]
        parts += ["```text", *ladder.table(), "```", "", *remarks, "", picture, ""]
    return parts


def _warnings(warnings: Sequence[str]) -> list[str]:
    return ["## What to know", "", *(f"- {markdown(w)}" for w in warnings), ""] if warnings else []


def _interface(ends: Sequence[tuple[str, list[tuple[str, str]]]]) -> list[str]:
    """A table of inputs and outputs.

    Args:
        ends: role, and (name, type and shape) of each value that has it.
    """
    rows = [
        f"| {role} | {markdown_code(name)} | {markdown(str(spec))} |"
        for role, values in ends
        for name, spec in values
    ]
    return ["## Interface", "", "| role | name | type and shape |", "|---|---|---|", *rows]


def _outside(reasons: dict[str, str]) -> list[str]:
    """Nodes that the LiteRT models leave to the app, by reason."""
    if not reasons:
        return []
    counts = Counter(reasons.values()).most_common(10)
    return [
        "",
        "Not in the LiteRT models:",
        "",
        *(f"- {count} nodes: {markdown(why)}" for why, count in counts),
    ]


def _scheme(results: PairResults) -> list[str]:
    """The quantized tensors, and why the rest is float."""
    name, parts = results.recipe.scheme, ["", f"## Scheme {results.recipe.scheme}", *_smaller(results.int8)]
    if results.onnx is not None:
        parts += ["", f"## Scheme {name} in ONNX", *_smaller(results.onnx.quantized)]
    return parts


def _smaller(model: SmallerModel[Any]) -> list[str]:
    """What became of one smaller model, and how."""
    quantized = model.quantized
    floats = quantized.float_operators
    reasons = Counter(why for _, why in floats).most_common(10)
    return [
        "",
        f"Computed: {markdown(model.shares.sentence)}.",
        "",
        f"{len(quantized.decisions)} tensors quantized, {len(floats)} operators stay float.",
        *(f"- {count} × {markdown(why)}" for why, count in reasons),
        *_tried(model),
        *_layers(model),
    ]


def _tried(model: SmallerModel[Any]) -> list[str]:
    """What was tried to make the smaller model better."""
    table = trial_table(model.way.trials)
    return ["", "What was tried, judged on samples that made no ranges:", "", *table] if table else []


def _layers(model: SmallerModel[Any]) -> list[str]:
    """The noise in each layer's output."""
    found = model.layers
    count = f"{found.samples} sample{'s' if found.samples != 1 else ''}"
    told = f"Signal to noise layer by layer on {count}, all before it in fewer bits: {found.sentence}."
    return ["", markdown(told), "", *chart(found)] if found.layers else []


def _not_fused(left: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Operators that fusion left alone in the models, and why."""
    lines = [
        f"- {runtime}: {count} × {markdown(text)} (first {markdown_code(node)})"
        for runtime, entries in left.items()
        for text, count, node in reasons(entries)[:5]
    ]
    return ["", "Not fused into one operator, and why:", "", *lines] if lines else []


def _transforms(ledger: Result) -> list[str]:
    """The changes of each transform, and what it left alone."""
    parts = [
        "",
        "## Transforms",
        "",
        "| transform | changed | left | nodes | bytes | difference |",
        "|---|---|---|---|---|---|",
    ]
    for s in ledger.steps:
        shown = "" if s.difference is None else f"{s.difference:.2g}"
        parts.append(
            f"| {markdown_code(s.transform)} | {s.changes} | {len(s.trace.left)} "
            f"| {s.nodes[0]} → {s.nodes[1]} | {s.size_bytes[0]} → {s.size_bytes[1]} | {shown} |"
        )
    left = [
        f"- `{s.transform.split('(')[0]}`: {count} × {markdown(text)} (first {markdown_code(node)})"
        for s in ledger.steps
        for text, count, node in s.trace.reasons()[:5]
    ]
    return [*parts, "", "Left alone, and why:", "", *left] if left else parts
