"""A smaller model as a page: how good it is, how it was made, the noise in its layers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thinflow.optimize.layer_errors import APART_DB, LayerErrors
from thinflow.optimize.quality import Quality
from thinflow.optimize.quality_page import Shown, quality_blocks, quality_facts, samples_blocks
from thinflow.optimize.quantized import SmallerModel
from thinflow.pages.report import (
    Bar,
    Bars,
    Block,
    Column,
    Command,
    Commands,
    Fact,
    Facts,
    Layer,
    Layers,
    Note,
    Notes,
    ReportDocument,
    Table,
    Text,
    Tone,
    notes,
    section,
    title_of,
)

_SHOWN, _LOSSES = 8, 12


def integer_facts(model: SmallerModel[Any]) -> Iterator[Fact]:
    """The share of it that is computed in integers, if there is some."""
    shares = model.shares
    integers = sum(n for kind, n in shares.computed.items() if "int" in kind)
    if integers:
        yield Fact("computed in integers", f"{shares.percent(integers):.1f} %", "of all multiplications")


def examined(model: SmallerModel[Any]) -> Notes:
    """What the calibration doctor found that no warning says already."""
    said = [finding for finding in model.findings if finding.text not in model.warnings]
    return Notes([Note(finding.text, "warn" if finding.warns else "") for finding in said])


def made_blocks(model: SmallerModel[Any]) -> Iterator[Block]:
    """How the smaller model was made: what computes it, what stays float, what was tried."""
    shares, quantized = model.shares, model.quantized
    yield Text(f"Computed: {shares.sentence}.")
    floats = [[o.code, o.origin, why] for o, why in quantized.float_operators]
    columns = [Column("op", code=True), Column("node", code=True), Column("why")]
    yield Table(columns, floats, "Operators that stay float", folded=len(floats) > _SHOWN)
    tried = [
        [t.what, round(t.sqnr_db, 2), t.gain_db, "kept" if t.kept else "", round(t.seconds, 1)]
        for t in model.way.trials
    ]
    figures = [Column("signal to noise", "dB"), Column("gain", "dB")]
    heads = [Column("tried"), *figures, Column(""), Column("seconds")]
    yield Table(heads, tried, "What was tried, judged on samples that made no ranges")
    cells = [
        [
            d.tensor,
            float(d.scale[0]) if len(d.scale) == 1 else f"{len(d.scale)} channels",
            float(d.zero_point),
            float(d.range[0]),
            float(d.range[1]),
            d.observer,
            d.reason,
        ]
        for d in quantized.decisions
    ]
    titles = ("tensor", "scale", "zero point", "from", "to", "observer", "why")
    yield Table([Column(t, code=t == "tensor") for t in titles], cells, "Quantized tensors", folded=True)


def layer_blocks(found: LayerErrors) -> Iterator[Block]:
    """The noise in each layer's output, with all before it in fewer bits."""
    rows = [
        Layer(one.name, one.code, _rounded(one.before_db), round(one.sqnr_db, 2), one.is_float)
        for one in found.layers
    ]
    first = None if found.first_apart is None else found.layers.index(found.first_apart)
    count = f"{found.samples} sample{'s' if found.samples != 1 else ''}"
    said = found.sentence
    note = f"{said[:1].upper()}{said[1:]}. On {count}; all layers before it are in fewer bits, too."
    if any(row.is_float for row in rows):
        note += " Blue ones are computed in float."
    yield Layers("Signal to noise layer by layer", "dB", APART_DB, rows, first, note)


def _rounded(decibels: float | None) -> float | None:
    return None if decibels is None else round(decibels, 2)


def sensitivity_blocks(losses: Sequence[Mapping[str, Any]], spare: str = "") -> Iterator[Block]:
    """What rounding a layer alone makes of the model's output, the worst first.

    Args:
        losses: as `LayerLoss` has them.
        spare: a flag that leaves the first in float.
    """
    rows = [Bar(loss["name"], [loss["weights_db"], loss["output_db"]]) for loss in losses[:_LOSSES]]
    note = "Signal to noise of the model's output with one layer rounded alone: a short bar is a loss."
    series = ["its weights rounded", "its output rounded"]
    yield Bars("Layers that lose most", "dB", series, rows, note)
    names = ("name", "code", "weights_db", "output_db")
    columns = [Column("layer", code=True), Column("op", code=True), Column(series[0], "dB")]
    cells = [[loss[name] for name in names] for loss in losses]
    yield Table([*columns, Column(series[1], "dB")], cells, "All layers, rounded alone", folded=True)
    if spare and losses:
        yield Commands([Command(spare, "To spare the first:")])


def quantize_document(
    account: Mapping[str, Any], source: str, made: SmallerModel[Any], quality: Quality, shown: Shown
) -> ReportDocument:
    """The document of a file in fewer bits.

    Args:
        account: of the file, for machines.
        source: path of the model.
        made: the smaller model.
        quality: of it, beside the original.
    """
    scheme, path = account["scheme"], account["path"]
    sizes = [Bar("float32", [float(account["float_bytes"])]), Bar(scheme, [float(account["size_bytes"])])]
    spare = _spare(account["sensitivity"])
    sections = [
        section("Result", Facts(list(_facts(account, made, quality))), notes(account["origin"])),
        section("What to know", notes(account["warnings"], "warn"), examined(made)),
        section("Size", Bars("Size of the file", "bytes", ["file"], sizes)),
        section(
            "Quality",
            Text(f"Samples: {account['samples']}. Judged on: {account['tested_on']}."),
            *quality_blocks({scheme: quality}, "the original"),
        ),
        section("Samples", *samples_blocks(quality, shown, ["float", scheme])),
        section("Layers", *layer_blocks(made.layers), *sensitivity_blocks(account["sensitivity"], spare)),
        section("How it was made", *made_blocks(made)),
        section("Try next", Commands(list(_next(account)))),
    ]
    verdict = account["verdict"] if account["partial"] else _verdict(account)
    tone: Tone = "bad" if account["partial"] else "warn" if account["synthetic"] else "good"
    return ReportDocument(
        f"{title_of(source, 'a graph')} as {title_of(path, path)}", verdict, sections, account, tone
    )


def _verdict(account: Mapping[str, Any]) -> str:
    times = account["float_bytes"] / max(account["size_bytes"], 1)
    return f"{account['scheme']} is {times:.1f}x smaller than float; {account['quality']}"


def _facts(account: Mapping[str, Any], made: SmallerModel[Any], quality: Quality) -> Iterator[Fact]:
    times = account["float_bytes"] / max(account["size_bytes"], 1)
    tone: Tone = "good" if times > 1.1 else "warn"
    yield Fact("size", f"{account['size_bytes'] / 1000:,.1f} kB", f"{times:.1f}× smaller than float", tone)
    yield from quality_facts(quality)
    yield from integer_facts(made)


def _spare(losses: Any) -> str:
    return " ".join(f"--keep-float {shlex.quote(name)}" for name in losses[0]["keep"]) if losses else ""


def _next(account: Mapping[str, Any]) -> Iterator[Command]:
    path = shlex.quote(account["path"])
    # A part has inputs or outputs of its own, which nobody has samples of.
    if not account["partial"]:
        yield Command(f"thinflow benchmark {path}")
    yield Command(f"thinflow inspect {path}")
