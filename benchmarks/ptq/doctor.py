"""What the calibration doctor says of right samples and of mistakes: `python -m benchmarks ptq_doctor`.

A row for each trained network and keyword network here, a column for each mistake: the checks that warn.
The first column, of right samples, has to be empty.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.ptq import data
from benchmarks.ptq.cases import MODELS, Array, keyword_case, keywords, trained
from thinflow.ir.graph import Graph
from thinflow.load.graphs import load_for_inference
from thinflow.optimize.examination import examine
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.samples import doubts_of, rebind, samples_for
from thinflow.quantize.doctor.findings import Finding
from thinflow.quantize.recipe import Recipe

COUNT = 64
_MEAN, _STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def noise(x: Array) -> Array:
    """Numbers of the same span that have nothing to do with each other."""
    return np.random.default_rng(0).uniform(x.min(), x.max(), x.shape)


def flat(x: Array) -> Array:
    """Each sample its own mean everywhere."""
    return np.broadcast_to(x.mean(tuple(range(1, x.ndim)), keepdims=True), x.shape)


def alike(x: Array) -> Array:
    """The same sample with next to no difference."""
    return x[:1] + 1e-4 * np.random.default_rng(0).normal(size=x.shape) * x.std()


def half(x: Array) -> Array:
    """0..1 in place of -1..1, or the other way round."""
    return x * 2 - 1 if x.min() >= 0 else (x + 1) / 2


def loud(x: Array) -> Array:
    """One sample fifty times as large."""
    return np.concatenate([x[:3], x[3:4] * 50, x[4:]])


def not_numbers(x: Array) -> Array:
    """Three samples with a NaN."""
    spoilt = x.copy()
    spoilt.reshape(len(x), -1)[:3, 5] = np.nan
    return spoilt


MISTAKES: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "x255": lambda x: x * 255,
    "/255": lambda x: x / 255,
    "as pixels": lambda x: x / 127.5 - 1,
    "half": half,
    "ImageNet": lambda x: ((x + 1) / 2 - _MEAN) / _STD,
    "BGR": lambda x: x[..., ::-1],
    "constant": flat,
    "noise": noise,
    "alike": alike,
    "loud": loud,
    "NaN": not_numbers,
}
"""What users do to samples, and what that makes of them."""
_OF_COLOURS = ("ImageNet", "BGR")


def warnings(graph: Graph, x: Array) -> list[Finding]:
    """What warns of samples for a network as it was opened, before anything is quantized."""
    graph = graph.clone()
    samples = samples_for(graph, {graph.inputs[0].name: x.astype(np.float32)})
    prepared = float_graph(graph, samples=samples, runtime="litert", verify=False).graph
    bound = rebind(samples, graph, prepared)
    model = float_model(prepared, bound)
    found = [f for f in examine(model, graph, (samples, bound), bound, Recipe()) if f.warns]
    return [*found, *(Finding(text, "", check="left out") for text in doubts_of(samples, samples))]


def cases(names: list[str]) -> Iterator[tuple[str, Graph, Array, Array]]:
    """Networks with right samples, and with those of one class."""
    for name in trained():
        if names and name not in names:
            continue
        graph = load_for_inference(thinflow.load(MODELS / f"{name}.keras"))[0]
        drawn = data.drawn_for(name, 10 * COUNT, data.CALIBRATION)
        one = drawn.x[drawn.y == 1][:COUNT] if drawn.y.ndim == 1 else drawn.x[:0]
        yield name, graph, drawn.x[:COUNT], one
    with tempfile.TemporaryDirectory() as folder:
        for name in keywords():
            if names and name not in names:
                continue
            case = keyword_case(name, Path(folder))
            order = np.random.default_rng(0).permutation(len(case.x))
            yield name, case.graph, case.x[order][:COUNT], case.x[case.y == case.y[0]]


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 if right samples are warned of."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ptq_doctor", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="which networks; default all")
    names = parser.parse_args(argv).names
    columns = [*MISTAKES, "one class"]
    print("| network |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    false, missed, made = 0, 0, 0
    for name, graph, x, one in cases(names):
        cells = []
        for mistake in columns:
            if (mistake in _OF_COLOURS and x.shape[-1] != 3) or (mistake == "one class" and not len(one)):
                cells.append("")
                continue
            found = warnings(graph, one if mistake == "one class" else MISTAKES[mistake](x))
            cells.append(", ".join(dict.fromkeys(f.check for f in found)) or "-")
            false += mistake == "none" and bool(found)
            missed += mistake != "none" and not found
            made += mistake != "none"
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
    print(f"\n{made - missed} of {made} mistakes are told, {false} right samples are warned of")
    return int(false > 0)
