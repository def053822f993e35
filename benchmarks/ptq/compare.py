"""How much of a trained network is left in eight bits: ours beside others', on the same samples.

    python -m benchmarks ptq [NETWORK ...] [--ours-only]

Judged are the numbers before the softmax, over samples that calibrated nothing: signal to quantization noise,
the share of samples whose top answer stays what it was in float, and the share of right answers. Others run
in the environment of `make oracle-venv`, where what is installed of TensorFlow (TFLiteConverter), ONNX
Runtime, NNCF and the LiteRT quantizer is tried.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import NeedsOracle
from benchmarks.ptq import data
from thinflow import Graph
from thinflow.api.optimizing import quantize_to_file

Array = np.ndarray[Any, Any]

MODELS = Path(__file__).parent / "models"
CALIBRATION, TEST = 200, 500
_MOST_CLASSES = 12
_EFFORTS = (
    ("thinflow --effort none", "none"),
    ("thinflow", "default"),
    ("thinflow --effort best", "best"),
)


@dataclass(frozen=True)
class Row:
    """How a file does.

    Attributes:
        sqnr_db: of the logits over all samples.
        agreement: share of samples with the same top answer as in float; of maps, of cells.
        right: share of right answers; None where there are no classes.
        seconds: that it took to make; 0 for float.
    """

    setting: str
    sqnr_db: float
    agreement: float | None
    right: float | None
    size: int
    seconds: float = 0.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ptq", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all")
    parser.add_argument("--ours-only", action="store_true", help="without other tools")
    args = parser.parse_args(argv)
    known = sorted(path.stem for path in MODELS.glob("*.keras"))
    unknown = set(args.names) - set(known)
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(known)}")
    print("| network | made by | SQNR, dB | same answer | right | kB | s |")
    print("|---|---|---|---|---|---|---|")
    for name in args.names or known:
        with tempfile.TemporaryDirectory(prefix="thinflow-ptq-") as folder:
            for row in rows(name, Path(folder), ours_only=args.ours_only):
                same, right = ("" if n is None else f"{n:.1%}" for n in (row.agreement, row.right))
                took = f"{row.seconds:.1f}" if row.seconds else ""
                print(
                    f"| {name} | {row.setting} | {row.sqnr_db:.1f} | {same} | {right} |"
                    f" {row.size / 1000:.0f} | {took} |",
                    flush=True,
                )
    return 0


def rows(name: str, folder: Path, *, ours_only: bool) -> Iterator[Row]:
    """Float, ours, and the others'."""
    calibration = data.drawn_for(name, CALIBRATION, data.CALIBRATION)
    test = data.drawn_for(name, TEST, data.TEST)
    graph = up_to_logits(MODELS / f"{name}.keras")
    plain = folder / "float.tflite"
    thinflow.save(graph, plain)
    judge = Judge(test.x, test.y, answers(plain, test.x))
    yield judge.row("float", plain)
    for setting, effort in _EFFORTS:
        path, started = folder / f"ours_{effort}.tflite", time.monotonic()
        made = {graph.inputs[0].name: calibration.x}
        quantize_to_file(graph, path, made, effort=effort)
        yield judge.row(setting, path, time.monotonic() - started)
    if not ours_only:
        yield from others(name, graph, calibration.x, judge, folder)


def up_to_logits(path: Path) -> Graph:
    """A network without its softmax, for one sample."""
    graph = thinflow.load(path)
    (result,) = graph.outputs
    if result.node.op == "Softmax":
        graph.outputs = [result.node.inputs[0]]
    return graph


def others(name: str, graph: Graph, samples: Array, judge: Judge, folder: Path) -> Iterator[Row]:
    """The files of other tools."""
    source, stored = folder / "float.onnx", folder / "samples.npz"
    thinflow.save(graph, source)
    np.savez(stored, x=samples)
    bench = Bench(quick=False, folder=folder)
    try:
        command = bench.oracle("quantize_peers", MODELS / f"{name}.keras", source, stored, folder)
    except NeedsOracle:
        print("others: `make oracle-venv`, or set THINFLOW_ORACLE_PYTHON", file=sys.stderr)
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        setting, *made = line.split("\t")
        if made:
            path, took = made
            yield judge.row(setting, Path(path), float(took))
        elif line.startswith("failed: "):
            print(f"{name}: {line}", file=sys.stderr)
    if done.returncode:
        print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)


@dataclass(frozen=True)
class Judge:
    """Samples, what is right, and what float answers."""

    x: Array
    y: Array
    wanted: Array

    def row(self, setting: str, path: Path, seconds: float = 0.0) -> Row:
        """How a file does beside float."""
        found = answers(path, self.x)
        noise = float(((found - self.wanted) ** 2).sum())
        sqnr = np.inf if noise == 0 else 10 * np.log10(float((self.wanted**2).sum()) / noise)
        is_classifier, is_map = found.ndim == 2 and found.shape[1] <= _MOST_CLASSES, found.ndim == 4
        # The top answer of a picture, or where in each map its peak lies; numbers that are rebuilt have none.
        mine, float_top = (self.top(a) for a in (found, self.wanted))
        agreement = float((mine == float_top).mean()) if is_classifier or is_map else None
        right = float((mine == self.y).mean()) if is_classifier else None
        return Row(setting, sqnr, agreement, right, path.stat().st_size, seconds)

    @staticmethod
    def top(found: Array) -> Array:
        """[count], or [count, maps] places of peaks."""
        if found.ndim == 4:
            found = found.reshape(len(found), -1, found.shape[-1]).swapaxes(1, 2)
            # Of maps in which nothing is found, only the loudest has a peak worth the name.
            loudest = found.max(2).argmax(1)
            found = found[np.arange(len(found)), loudest]
        top: Array = found.argmax(-1)
        return top


def answers(path: Path, x: Array) -> Array:
    """What the runtime of a file gives for samples, one by one, as float64."""
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        found = [session.run(None, {name: sample[None]})[0] for sample in x]
    else:
        from ai_edge_litert.interpreter import Interpreter

        runner = Interpreter(str(path), num_threads=1)
        fed, given = runner.get_input_details()[0], runner.get_output_details()[0]
        runner.resize_tensor_input(fed["index"], [1, *x.shape[1:]])
        runner.allocate_tensors()
        found = []
        for sample in x:
            runner.set_tensor(fed["index"], coded(sample[None], fed))
            runner.invoke()
            found.append(decoded(runner.get_tensor(given["index"]), given))
    return np.concatenate(found).astype(np.float64)


def coded(x: Array, end: dict[str, Any]) -> Array:
    """What an input of LiteRT is fed: the LiteRT quantizer leaves ends of a model in integers."""
    if end["dtype"] == np.float32:
        return x
    (scale, zero), limits = end["quantization"], np.iinfo(end["dtype"])
    return np.clip(np.round(x / scale) + zero, limits.min, limits.max).astype(end["dtype"])


def decoded(y: Array, end: dict[str, Any]) -> Array:
    """The real numbers of an output of LiteRT."""
    if end["dtype"] == np.float32:
        return y
    scale, zero = end["quantization"]
    return (y.astype(np.float64) - zero) * scale
