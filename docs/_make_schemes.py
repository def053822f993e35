"""Writes the table of schemes in docs/quantization.md from real runs of the keyword models.

    python docs/_make_schemes.py                      # takes the models from ../shared, or THINFLOW_SHARED

Every other clip makes ranges; the others, which quantization never saw, are judged. The models are no part of
the project, so the tests do not make the table again.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import thinflow
from thinflow.bench.latency import benchmark
from thinflow.ir.graph import Graph
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.judging import compare_models
from thinflow.optimize.litert import FloatModel, float_model, quantized_model
from thinflow.optimize.quality import Quality, decibels
from thinflow.optimize.samples import Samples, rebind, samples_for
from thinflow.quantize.recipe import SCHEMES, Recipe

PAGE = Path(__file__).with_name("quantization.md")
SHARED = Path(os.environ.get("THINFLOW_SHARED") or Path(__file__).resolve().parents[2] / "shared")
MODELS = ("DS_CNN_S", "CNN_S", "DNN_S", "Basic_LSTM_S")
TUNED = ("int8", "int16x8", "int4_weights")
TABLE = re.compile(r"(<!-- schemes -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = (
    "| scheme | size | 1 thread | right answers | same answer as float | noise |\n|---|---|---|---|---|---|"
)


def contents(model: FloatModel, samples: Samples) -> dict[str, bytes]:
    """Files by row of the table."""
    made = {"float": model.content}
    for scheme in SCHEMES:
        recipe = Recipe(scheme=scheme)
        made[scheme] = quantized_model(model, samples, recipe=recipe, effort="none").content
        if scheme in TUNED:
            made[f"{scheme}, best"] = quantized_model(model, samples, recipe=recipe, effort="best").content
    return made


def times(made: dict[str, bytes], feed: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """Median time of one run on one thread, in milliseconds; all files in turns."""
    paths = {row: folder / f"{number}.tflite" for number, row in enumerate(made)}
    for row, path in paths.items():
        path.write_bytes(made[row])
    report = benchmark(list(paths.values()), threads=(1,), feeds=feed, seconds=20, memory=False)
    return {row: report.timing(path, threads=1).median_ms for row, path in paths.items()}


def rows(graph: Graph) -> Iterator[str]:
    """The table of one model."""
    labels = (SHARED / "models" / "kws_labels.txt").read_text("utf-8").split()
    samples = samples_for(graph, SHARED / "data" / "kws", class_names=labels)
    optimised = float_graph(graph, samples=samples, verify=False).graph
    moved = rebind(samples, graph, optimised)
    model = float_model(optimised, moved)
    made = contents(model, moved.taken(lambda number: number % 2 == 0))
    qualities = compare_models(model, made, graph, moved.taken(lambda number: number % 2 == 1))
    with tempfile.TemporaryDirectory() as folder:
        measured = times(made, next(iter(model.feeds(moved))), Path(folder))
    for row, quality in qualities.items():
        yield f"| {row} | {len(made[row]) / 1000:.1f} kB | {measured[row]:.3f} ms | {_cells(quality)} |"


def _cells(quality: Quality) -> str:
    right = f"{quality.correct} of {quality.samples}"
    return f"{right} | {quality.same_answer} of {quality.samples} | {decibels(quality.sqnr_db)}"


def main() -> None:
    parts = []
    for name in MODELS:
        parts += [f"### {name}\n\n{HEAD}", *rows(thinflow.load(SHARED / "models" / f"kws_{name}.pb")), ""]
        print(f"measured {name}", file=sys.stderr)
    text = PAGE.read_text("utf-8")
    table = "\n".join(parts)
    PAGE.write_text(TABLE.sub(lambda m: m[1] + table + m[2], text), "utf-8")


if __name__ == "__main__":
    main()
