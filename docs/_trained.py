"""Writes a trained network of benchmarks/ptq and samples for it, for commands of pages.

python docs/_trained.py NETWORK [FOLDER]

Beside NETWORK.keras come calibration.npz, and test.npz with `labels`; both are drawn from seeds.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

import thinflow

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.ptq import cases, data


def main(network: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(cases.MODELS / f"{network}.keras", folder)
    takes = thinflow.load(cases.MODELS / f"{network}.keras").inputs[0].name
    for name, count, seed in (("calibration", 200, data.CALIBRATION), ("test", 400, data.TEST)):
        drawn = data.drawn_for(network, count, seed)
        labels = {"labels": drawn.y} if name == "test" else {}
        np.savez(folder / f"{name}.npz", **{takes: drawn.x}, **labels)


if __name__ == "__main__":
    main(sys.argv[1], Path(*sys.argv[2:3]))
