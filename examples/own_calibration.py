"""Calibrates on samples that a function of yours makes, one at a time, so that they never fill the memory.

python examples/own_calibration.py OUT_FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow import zoo


def samples() -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """One dict per sample: input name -> array. Put your own reading and preprocessing here.

    thinflow calls this once for every walk over the data, so hand over the function, not what it returns.
    """
    for picture in zoo.calibration("digits")["image"]:
        brighter = np.clip(picture * 1.1, 0, 16)
        yield {"image": brighter[np.newaxis]}  # [1,8,8,1], as the model takes it


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "digits.pb"
    zoo.write("digits", model)
    report = thinflow.optimize(
        model, folder / "out", calibration=samples, test=zoo.test_set("digits"), measure=False
    )
    print(report.verdict)
    for decision in report.int8.quantized.decisions:
        if decision.observer in ("minmax", "mse"):  # seen in the samples; weights and constants need none
            low, high = decision.range
            print(f"{decision.tensor}: {low:.4g} to {high:.4g} in steps of {float(decision.scale[0]):.4g}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
