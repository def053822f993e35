"""The main job's report as a document: the verdict and its evidence, and how to ship what came of it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thinflow.bench.report_page import how, latency_blocks, profile_blocks
from thinflow.ir.ledger import Entry, reasons
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.ladder.plot import ladder_blocks
from thinflow.optimize.quality_page import quality_blocks, quality_facts, samples_blocks
from thinflow.optimize.quantized_page import examined, integer_facts, layer_blocks, made_blocks
from thinflow.optimize.shipping import in_a_program
from thinflow.optimize.verdict import (
    GraphResults,
    JobResults,
    PairResults,
    is_short,
    ratio_of,
    shipped,
    span_text,
    times_smaller,
    verdict_of,
)
from thinflow.pages.report import (
    Bar,
    Bars,
    Block,
    Column,
    Command,
    Commands,
    Fact,
    Facts,
    Ledger,
    Reason,
    ReportDocument,
    Section,
    Step,
    Table,
    Text,
    Tone,
    notes,
    section,
    title_of,
)
from thinflow.program.amounts import ms_text
from thinflow.rewrite.runner import Result

_SHOWN = 8


def job_document(results: JobResults, data: Mapping[str, Any]) -> ReportDocument:
    """The document of a job.

    Args:
        data: of the report, for machines.
    """
    if isinstance(results, PairResults):
        sections = list(_pair_sections(results))
    else:
        assert isinstance(results, GraphResults)
        sections = list(_graph_sections(results))
    title = title_of(results.source, "a graph")
    return ReportDocument(title, verdict_of(results), sections, data, _tone(results))


def _tone(results: JobResults) -> Tone:
    if isinstance(results, GraphResults):
        return "bad"
    assert isinstance(results, PairResults)
    if results.is_part or results.misses_budget:
        return "bad"
    return "good" if shipped(results) != results.files["fp32"] else "warn"


# --- both models --------------------------------------------------------------------------------------------


def _pair_sections(results: PairResults) -> Iterator[Section]:
    names, found = model_names(results), results.latency
    yield section("Result", Facts(list(_facts(results))))
    yield section("What to know", notes(results.warnings, "warn"), examined(results.int8))
    for ladder in results.ladders:
        yield section(f"Candidates for {ladder.runtime}", *ladder_blocks(ladder))
    yield section("Size and memory", *_sizes(results, names))
    if found is not None:
        called = {found.paths.get(str(results.files[role]), role): name for role, name in names.items()}
        yield section("Latency", *latency_blocks(found, called), Text(how(found)), Text(results.alike))
        yield section("Operators", *profile_blocks(results.profiles, called))
    yield section("Quality", *_quality(results, names))
    yield section("Samples", *samples_blocks(results.int8_quality, results.shown, ["float", names["int8"]]))
    yield section("Layers", *layer_blocks(results.int8.layers), *made_blocks(results.int8))
    if results.onnx is not None:
        other = results.onnx.quantized
        yield section("Layers in ONNX", *layer_blocks(other.layers), *made_blocks(other))
    yield section("Coverage", *_coverage(results))
    yield section("Transforms", ledger_block(results.ledger), *_not_fused(results.left))
    yield section("How to ship", *_ship(results, shipped(results)))


def model_names(results: PairResults) -> dict[str, str]:
    """How each model is called, by the role of its file; float first."""
    schemes = {"fp32": "float32", "int8": results.recipe.scheme}
    if results.openvino is not None:
        smaller = f"{results.openvino.scheme} in OpenVINO"
        schemes |= {"openvino_fp32": "float32 in OpenVINO", "openvino_int8": smaller}
    if results.onnx is not None:
        schemes |= {"onnx_fp32": "float32 in ONNX", "onnx_int8": f"{results.onnx.scheme} in ONNX"}
    return {role: name for role, name in schemes.items() if role in results.files}


def _facts(results: PairResults) -> Iterator[Fact]:
    """Size, time and quality of the smaller model beside float."""
    times = times_smaller(results)
    size = f"{results.sizes['int8'] / 1000:,.1f} kB"
    yield Fact("size", size, f"{times:.1f}× smaller than float", "good" if times > 1.1 else "warn")
    ratio = ratio_of(results)
    if ratio is not None:
        tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
        beside = {
            "faster": f"{ratio.value:.2f}× as fast as float",
            "slower": f"{1 / ratio.value:.2f}× SLOWER than float",
            "even": "as fast as float within what was measured",
        }.get(ratio.outcome, "too few runs to compare it with float")
        # What is short enough is neither good nor bad.
        tone = "" if is_short(ratio) else tones.get(ratio.outcome, "")
        told = ratio.interval.inverse() if ratio.outcome == "slower" else ratio.interval
        span = f" ({span_text(told)})" if told.known else ""
        yield Fact("time of a run", ms_text(ratio.b.median_ms), f"{beside}{span}, {ratio.b.setting}", tone)
    yield from quality_facts(results.int8_quality)
    yield from integer_facts(results.int8)


def _sizes(results: PairResults, names: Mapping[str, str]) -> Iterator[Block]:
    rows = [Bar(name, [float(results.sizes[role])]) for role, name in names.items()]
    yield Bars("Size of the file", "bytes", ["file"], rows)
    if results.latency is not None:
        peaks = {role: results.latency.peak_bytes(results.files[role]) for role in names}
        known = [Bar(names[role], [float(peak)]) for role, peak in peaks.items() if peak]
        yield Bars("Peak memory", "bytes", ["memory"], known, "Of a process that does nothing but run it.")


def _quality(results: PairResults, names: Mapping[str, str]) -> Iterator[Block]:
    judged = {names[role]: q for role, q in results.qualities.items() if role.endswith("int8")}
    yield Text(f"Samples: {results.samples}. Judged on: {results.tested_on}.")
    yield from quality_blocks(judged, "the original")
    part = "The part in LiteRT" if results.is_part else "LiteRT float"
    yield Text(f"{part} beside the reference interpreter: {results.float_difference:.3g} relative at most.")


# --- the graph alone ----------------------------------------------------------------------------------------


def _graph_sections(results: GraphResults) -> Iterator[Section]:
    steps, found = results.ledger.steps, results.latency
    before, after = steps[0].nodes[0], steps[-1].nodes[1]
    hint = results.obstacle.hint
    facts = [Fact("nodes", str(after), f"{before} before")]
    facts += [
        Fact(f"size of {results.files[role].name}", f"{n / 1000:,.1f} kB")
        for role, n in results.sizes.items()
    ]
    yield section("Result", Facts(facts), Text(f"What helps: {hint}." if hint else "", "warn"))
    yield section("What to know", notes(results.warnings, "warn"))
    if found is not None:
        yield section("Latency", *latency_blocks(found), Text(how(found)))
    coverages = [] if results.model is None else [results.model.coverage]
    ends = {"graph input": results.inputs, "graph output": results.outputs}
    yield section("Coverage", *map(_covered, coverages), _interface(ends))
    yield section("Transforms", ledger_block(results.ledger))
    yield section("How to ship", *_ship(results, None))


# --- what all reports have ----------------------------------------------------------------------------------


def _coverage(results: PairResults) -> Iterator[Block]:
    yield from map(_covered, results.coverages)
    counts = Counter(results.outside.values()).most_common(_SHOWN)
    rows: list[list[str | float | None]] = [[why, float(count)] for why, count in counts]
    yield Table([Column("not in the LiteRT models, because"), Column("nodes")], rows)
    yield _interface(
        {
            "graph input": results.inputs,
            "graph output": results.outputs,
            "LiteRT input": results.model_inputs,
            "LiteRT output": results.model_outputs,
        }
    )


def _covered(coverage: Coverage) -> Text:
    told = {"whole": "hold the whole model", "part": f"hold only a part: {coverage.sentence}"}
    text = told.get(coverage.kind, f"hold all but the front: {coverage.note}")
    return Text(f"The {coverage.runtime} files {text}.", "bad" if coverage.is_part else "")


def _interface(ends: Mapping[str, Sequence[tuple[str, str]]]) -> Table:
    rows = [[role, name, spec] for role, values in ends.items() for name, spec in values]
    return Table([Column("role"), Column("name", code=True), Column("type and shape", code=True)], rows)


def ledger_block(ledger: Result) -> Ledger:
    """What each transform did."""
    return Ledger(
        [
            Step(
                s.transform,
                s.changes,
                len(s.trace.left),
                s.nodes,
                s.size_bytes,
                s.difference,
                [Reason(text, count, node) for text, count, node in s.trace.reasons()],
            )
            for s in ledger.steps
        ]
    )


def _not_fused(left: Mapping[str, Sequence[Entry]]) -> Iterator[Block]:
    rows: list[list[str | float | None]] = [
        [runtime, float(count), text, node]
        for runtime, entries in left.items()
        for text, count, node in reasons(entries)
    ]
    columns = [Column("runtime"), Column("how many"), Column("why"), Column("first", code=True)]
    yield Table(columns, rows, "Not fused into one operator", folded=True)


def _ship(results: JobResults, file: Path | None) -> Iterator[Block]:
    """Commands, and what was written."""
    ways = [] if file is None else [_try_out(file)]
    # The file that the model came from takes and gives codes.
    is_made = file is not None and file in results.files.values()
    if file is not None and is_made and file.suffix == ".tflite" and isinstance(results, PairResults):
        ways.append(in_a_program(file, results.model_inputs, results.model_outputs))
    names = model_names(results) if isinstance(results, PairResults) else {}
    yield Text("Paths are those of the folder in which the job was run.")
    yield Commands([*ways, *(Command(text) for text in results.next_steps)])
    rows: list[list[str | float | None]] = []
    for role, path in results.files.items():
        size = results.sizes.get(role)
        rows.append([path.name, names.get(role, role), None if size is None else float(size)])
    columns = [Column("file", code=True), Column("what it is"), Column("size", "bytes")]
    yield Table(columns, rows, f"Written to {results.files['json'].parent}")


def _try_out(file: Path) -> Command:
    return Command(f"thinflow run {shlex.quote(str(file))}", f"Ship {file.name}; see what it answers:")
