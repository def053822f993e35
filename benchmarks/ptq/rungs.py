"""What each rung of a climb brings by itself on each trained network, over samples that nobody has seen.

    python -m benchmarks ptq_rungs [NETWORK ...]

All ranges, roundings and biases are made from all calibration samples; shown is the mean gain in decibels
over the unseen ones, beside the plain recipe, or beside GPTQ for what goes with it. The last lines are what
`usual_db` and `USUAL_SPREAD_DB` state.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.ptq.cases import trained, trained_case
from thinflow.optimize.climb import Goal
from thinflow.optimize.gains import Gain
from thinflow.optimize.litert import float_model
from thinflow.optimize.quality import Score
from thinflow.optimize.rungs import Best, rungs
from thinflow.optimize.samples import samples_for
from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe

MENDED_DB = 6.0
"""More than that mends a collapse, and is not what is usual."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_rungs", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all")
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(trained())
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(trained())}")
    found: dict[str, list[float]] = {}
    print("| network | rung | gain, dB |\n|---|---|---|")
    for name in args.names or trained():
        for what, gain in gains(name):
            print(f"| {name} | {what} | {gain.mean_db:+.1f} ± {gain.error_db:.1f} |", flush=True)
            found.setdefault(what, []).append(gain.mean_db)
    for what, all_of in found.items():
        usual = [g for g in all_of if abs(g) < MENDED_DB]
        spread = statistics.stdev(usual) if len(usual) > 1 else 0.0
        mean = statistics.fmean(usual) if usual else 0.0
        print(f"| usual, of {len(usual)} | {what} | {mean:+.1f}, spread {spread:.1f} |")
    return 0


def gains(name: str) -> Iterator[tuple[str, Gain]]:
    """Each rung by itself, and its gain."""
    case = trained_case(name)
    (fed,) = case.graph.inputs
    samples, unseen = (samples_for(case.graph, {fed.name: x}) for x in (case.calibration, case.x))
    model = float_model(case.graph, samples)
    feeds = list(model.feeds(samples))
    fit = Goal(model.program, {}).fit(feeds, feeds)
    names = [t.name for t in main_block(model.program).inputs]
    rows = ([feed[n] for n in names] for feed in model.feeds(unseen))
    meter = SqnrMeter(before_squashing(model.program), rows)
    plain = Recipe()
    rounded = replace(plain, rounding="gptq")

    def scores(recipe: Recipe) -> list[Score]:
        return meter.scores(fit.quantized(recipe, before_squashing).program)

    before, best = scores(plain), Best(plain, plain, fit)
    for rung in rungs():
        for what, recipe in rung.candidates(best):
            # What goes with rounding by GPTQ comes behind it.
            is_second = recipe.rounding == rounded.rounding and recipe != rounded
            base, more = (scores(rounded), ", over GPTQ alone") if is_second else (before, "")
            yield what + more, Gain.between(base, scores(recipe))


if __name__ == "__main__":
    raise SystemExit(main())
