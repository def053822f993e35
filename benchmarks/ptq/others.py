"""The eight-bit files of other tools, made in a Python of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import NeedsOracle
from benchmarks.ptq.cases import Case

VENVS = (".venv-oracle-peers", ".venv-oracle")
REFERENCE = {".tflite": "TFLiteConverter", ".onnx": "ONNX Runtime, MinMax"}
"""Whose file of a form is the one that times are compared with; settings begin with it."""


def others(case: Case, folder: Path) -> Iterator[tuple[str, Path, float]]:
    """Setting, file and seconds of each tool that is installed; why others have none goes to stderr."""
    onnx, samples = folder / "float.onnx", folder / "samples.npz"
    thinflow.save(case.graph, onnx)
    np.savez(samples, x=case.calibration)
    ends = [case.graph.inputs[0].name, case.graph.outputs[0].name]
    try:
        command = Bench(quick=False, folder=folder, venvs=VENVS).oracle(
            "quantize_peers", case.source, onnx, samples, folder, *ends
        )
    except NeedsOracle:
        print("others: `make oracle-peers`, or set THINFLOW_ORACLE_PYTHON", file=sys.stderr)
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        setting, *made = line.split("\t")
        if made:
            path, took = made
            yield setting, Path(path), float(took)
        elif line.startswith("failed: "):
            print(f"{case.name}: {line}", file=sys.stderr)
    if done.returncode:
        print(f"{case.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
