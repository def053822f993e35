"""Counts what a detector of make_detector.py finds in scenes that it was not fitted to.

python examples/score_detector.py MODEL...

Averages of all outputs say little about a detector: what counts is which boxes come out.
"""

from __future__ import annotations

import sys

import numpy as np
from make_detector import SIZE, STRIDE, boxes, scenes

import thinflow

OUTPUTS = ["detection_boxes", "num_detections"]


def main(models: list[str]) -> None:
    pictures, cells = scenes(60, seed=2)
    for model in models:
        session = thinflow.Session(model)
        found = right = there = 0
        for picture, centred in zip(pictures, cells, strict=True):
            given, count = session.run(OUTPUTS, {"image": picture[None]})
            kept, truth = given[: int(count)], boxes()[centred.reshape(-1) > 0]
            found, there = found + len(kept), there + len(truth)
            right += sum(bool((np.abs(kept - box).max(1) <= STRIDE / SIZE + 1e-6).any()) for box in truth)
        print(f"{model}: {right} of {there} squares found, {found - right} other boxes")


if __name__ == "__main__":
    main(sys.argv[1:])
