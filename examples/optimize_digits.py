"""Makes the bundled digit classifier small and fast, and says what came of it.

python examples/optimize_digits.py OUT_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import thinflow
from thinflow import zoo


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "digits.pb"
    zoo.write("digits", model)
    report = thinflow.optimize(
        model,
        folder / "out",
        calibration=zoo.calibration("digits"),  # input name -> samples along the first axis
        test=zoo.test_set("digits"),  # the same, with `labels`
        seconds=1.0,  # of measuring; more gives narrower spreads
    )
    print(report.verdict)
    for key in ("fp32", "int8"):
        print(f"{report.files[key].name}: {report.sizes[key]} bytes")
    for step in report.ledger.steps:
        if step.changes:
            name, (before, after) = step.transform.partition("(")[0], step.nodes
            print(f"{name}: {step.changes} changes, {before} -> {after} nodes")
    for operator, why in report.int8.quantized.float_operators:
        print(f"stays float: {operator.code}: {why}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
