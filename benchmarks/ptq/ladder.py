"""What a budget chooses on each trained network: all schemes and efforts, measured, and how long that takes.

python -m benchmarks ptq_ladder [NETWORK ...] [--max-drop 0.5%] [--max-size 100KB] [--effort default]
"""

from __future__ import annotations

import argparse
import tempfile
import time

from benchmarks.ptq.cases import trained, trained_case
from thinflow import optimize
from thinflow.optimize.report import OptimizeReport

JUDGES = 200
"""Unseen samples that judge."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_ladder", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all")
    parser.add_argument("--max-drop", default="0.5%")
    parser.add_argument("--max-size")
    parser.add_argument("--max-ram")
    parser.add_argument("--effort", default="default")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each time that is taken")
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(trained())
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(trained())}")
    for name in args.names or trained():
        print("\n".join([f"## {name}", "", *_lines(name, args), ""]), flush=True)
    return 0


def _lines(name: str, args: argparse.Namespace) -> list[str]:
    """The table of a network, and what was chosen."""
    case = trained_case(name)
    (fed,) = case.graph.inputs
    test = {fed.name: case.x[:JUDGES]}
    # Maps, as of joints, are no labels.
    labelled = test | {"labels": case.y[:JUDGES]} if case.y.ndim == 1 else test
    words = {key: getattr(args, key) for key in ("max_drop", "max_size", "max_ram", "effort", "seconds")}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        report = optimize(
            case.source, out, calibration={fed.name: case.calibration}, test=labelled, threads=[1], **words
        )
    took = time.monotonic() - started
    assert isinstance(report, OptimizeReport)
    assert report.ladder is not None
    table = ["```text", *report.ladder.table(), "```"]
    return [f"{report.verdict}; {took:.0f} s in all", "", *table]


if __name__ == "__main__":
    raise SystemExit(main())
