"""What the reader of a report must know, and what to try next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.analysis.summary import Summary
from thinflow.ir.graph import Graph, Value
from thinflow.optimizing.core import Core
from thinflow.optimizing.finishing import stem_of
from thinflow.optimizing.samples import Samples
from thinflow.quantize.recipe import Recipe

if TYPE_CHECKING:
    from thinflow.optimizing.job import Made, OptimizeReport


def warnings_for(data: Samples, tested: Samples, summary: Summary, made: Made, recipe: Recipe) -> list[str]:
    """What may mislead whoever reads only the figures."""
    warnings: list[str] = []
    if data.synthetic and not recipe.needs_samples:
        warnings.append(
            "SYNTHETIC INPUT: no samples were given, so inputs were made up. Speed and size are real; "
            "agreement says little. Give real samples with --calibration."
        )
    elif data.synthetic:
        warnings.append(
            "SYNTHETIC INPUT: no calibration data was given, so inputs were made up. Speed and size are "
            "real; the eight-bit ranges fit the made-up data only, and agreement says little. "
            "Give real samples with --calibration."
        )
    elif tested is data:
        warnings.append("quality was judged on the calibration samples; --test takes others")
    if summary.training_norms:
        warnings.append(
            f"{len(summary.training_norms)} batch norms are in training mode: they use the statistics of "
            "each batch, were left as they are, and cost speed and eight-bit quality; freeze_batch_norms "
            "freezes them on your data"
        )
    warnings += made.int8.warnings
    if made.ledger.note:
        warnings.append(made.ledger.note)
    return list(dict.fromkeys(warnings))


def settled_notes(inputs: Sequence[Value], core: Core, samples: Samples) -> list[str]:
    """What the models were made for where the graph leaves sizes open, such as the steps of a recurrent net.

    Args:
        inputs: of the graph as it came.
        core: what the models hold, with the sizes they were made for.
        samples: where those sizes are from.
    """
    made = {v.name: v.spec for v in core.inputs}
    notes = []
    for value in inputs:
        before, after = value.spec, made.get(value.name)
        if (
            after is None
            or not after.is_static
            or (before.shape is not None and None not in before.shape[1:])
        ):
            continue
        sizes = ",".join("N" if m is None else str(m) for m in before.shape or after.shape or ())
        origin = "made up" if samples.synthetic else "of the first sample"
        notes.append(
            f"'{value.name}' is {before} in the graph; the models are made for {after}, sizes {origin}: "
            f"choose others with --shape {value.name}={sizes}"
        )
    return notes


def next_steps(
    report: OptimizeReport, graph: Graph, calibration: Any, options: Mapping[str, Any]
) -> list[str]:
    """Commands to try, those that make up for what was missing first."""
    model = shlex.quote(report.source or "MODEL")
    model += "".join(f" --{key} {shlex.quote(str(value))}" for key, value in options.items())
    data = (
        shlex.quote(str(calibration)) if isinstance(calibration, (str, os.PathLike)) else "FOLDER_OF_SAMPLES"
    )
    folder = shlex.quote(str(report.files["int8"].parent))
    fixed = [v for v in graph.inputs if v.shape and None not in v.shape[1:]]
    shapes = "".join(
        " --shape "
        + shlex.quote(f"{v.name}=" + ",".join("1" if d is None else str(d) for d in v.shape or ()))
        for v in fixed
    )
    steps: list[str] = []
    if report.synthetic:
        steps.append(f"thinflow optimize {model} {folder} --calibration {data}{shapes}")
    if report.summary.training_norms:
        frozen = shlex.quote(str(report.files["int8"].parent / f"{stem_of(graph)}_frozen.pb"))
        steps.append(
            f"thinflow transform {model} {frozen} -t freeze_batch_norms --calibration {data}{shapes}"
        )
    files = " ".join(shlex.quote(str(report.files[key])) for key in ("fp32", "int8"))
    steps.append(f"thinflow benchmark {files} --threads 1,2")
    return steps
