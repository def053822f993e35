"""Looks into a graph, transforms it, and tells what each step did and what it left alone.

python examples/inspect_and_transform.py OUT_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import thinflow
from thinflow import zoo
from thinflow.api import transform_with_ledger

STEPS = "strip_unused_nodes remove_nodes(op=Identity) fold_old_batch_norms quantize_weights(minimum_size=256)"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model, smaller = folder / "digits.pb", folder / "smaller.pb"
    zoo.write("digits", model)

    summary = thinflow.summarize(model)
    cost = summary.cost.total
    print(f"{len(summary.graph)} nodes, {summary.parameters.count} parameters, {cost.macs} multiply-adds")
    for candidate in summary.interface.outputs:
        print(f"output {candidate}")

    result = transform_with_ledger(model, STEPS)
    for step in result.steps:
        print(f"{step.transform}: {step.changes} changes, difference {step.difference:.2g}")
        for reason, count, node in step.trace.reasons():
            print(f"  left {count}, first '{node}': {reason}")
    thinflow.save(result.graph, smaller)

    verification = thinflow.verify(model, smaller, tolerance=0.05)
    print(f"{model.stat().st_size} -> {smaller.stat().st_size} bytes, agree within 5 %: {verification.ok}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
