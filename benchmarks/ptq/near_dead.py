"""What goes with channels of trained networks that hardly tell anything, and what is left of the answers.

    python -m benchmarks ptq_prune [NETWORK ...] [--at DB ...] [--effort default]

Judged as by `python -m benchmarks ptq`, on samples that nothing was made with: the float network without
these channels, and int8 files with and without them, all beside the whole float network.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.ptq.cases import Case, trained, trained_case
from benchmarks.ptq.judging import Judge, opened
from thinflow.api.optimizing import quantize_to_file
from thinflow.optimize.climb import EFFORTS, spread
from thinflow.optimize.litert import float_model
from thinflow.optimize.samples import samples_for
from thinflow.quantize.pruning import prune
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.writer import to_bytes

LEVELS = (40.0, 25.0)
"""Decibels below a layer's sum: the first and the last that `thinflow optimize` tries."""
NONE = "none"
HEAD = "| network | went at, dB | channels | float, kB | float, dB | int8, kB | int8, dB |"


@dataclass(frozen=True)
class Row:
    """A line of the table: a network, or what is left of it at a level."""

    at: str
    channels: str
    float_file: str
    int8_file: str

    def line(self, name: str) -> str:
        return f"| {name} | {self.at} | {self.channels} | {self.float_file} | {self.int8_file} |"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_prune", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all trained here")
    parser.add_argument("--at", type=float, action="append", metavar="DB", help="default: 40 and 25")
    parser.add_argument("--effort", default="default", choices=("none", "fast", "default", "best"))
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(trained())
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(trained())}")
    print(HEAD + "\n" + "|---" * (HEAD.count("|") - 1) + "|")
    for name in args.names or trained():
        for row in rows(trained_case(name), args.at or LEVELS, args.effort):
            print(row.line(name), flush=True)
    return 0


def rows(case: Case, levels: Sequence[float], effort: str) -> Iterator[Row]:
    """The whole network, and what is left of it at each level at which something goes."""
    (fed,) = case.graph.inputs
    samples = samples_for(case.graph, {fed.name: case.calibration})
    model = float_model(case.graph, samples)
    # As many as the climb looks at, so that the same channels go.
    most = EFFORTS[effort].most_samples(model.program) if EFFORTS[effort].samples else Recipe().looked_at
    few = spread(model.feeds(samples), most)
    with tempfile.TemporaryDirectory(prefix="thinflow-prune-") as folder:
        path = Path(folder) / "made.tflite"
        path.write_bytes(model.content)
        judge = Judge(case.x, case.y, np.concatenate([opened(path)(sample[None]) for sample in case.x]))

        def int8(recipe: Recipe) -> str:
            quantize_to_file(case.graph, path, {fed.name: case.calibration}, recipe=recipe, effort=effort)
            return _size_and_noise(path, judge)

        yield Row("-", "", f"{len(model.content) / 1000:.1f} | ", int8(Recipe()))
        for level in levels:
            made = prune(model.program, level, few)
            channels = f"{made.removed or NONE} of {made.channels}"
            if not made.removed:
                yield Row(f"{level:g}", channels, " | ", " | ")
                continue
            path.write_bytes(to_bytes(made.program))
            left = _size_and_noise(path, judge)
            yield Row(f"{level:g}", channels, left, int8(Recipe(prune=level)))


def _size_and_noise(path: Path, judge: Judge) -> str:
    """The cells of a file."""
    return f"{path.stat().st_size / 1000:.1f} | {judge.quality(path).sqnr_db:.1f}"
