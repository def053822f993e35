"""What is left of trained networks with weights of four bits, and of those that compress well.

    python -m benchmarks ptq_few_bits [NETWORK ...] [--form .tflite|.onnx] [--effort E ...] [--levels]

Judged as by `python -m benchmarks ptq`. With --levels, files of float weights in a few levels, evenly spaced
and clustered, and their size once gzip has been at them.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.ptq.cases import Case, trained, trained_case
from benchmarks.ptq.judging import Judge, opened
from thinflow.api.optimizing import quantize_to_file
from thinflow.quantize.recipe import Recipe

ROUNDINGS = ("nearest", "gptq", "sequential")
LEVELS = (16, 32, 64)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_few_bits", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="default: all trained here")
    parser.add_argument("--form", choices=(".tflite", ".onnx"), default=".tflite")
    parser.add_argument("--effort", action="append", choices=("default", "best"), help="default: default")
    parser.add_argument("--levels", action="store_true", help="float weights in a few levels, too")
    args = parser.parse_args(argv)
    known = trained()
    unknown = set(args.names) - set(known)
    if unknown:
        parser.error(f"there is no network {min(unknown)!r}; there are: {', '.join(known)}")
    print("| network | made by | SQNR, dB | same answer | kB | gzip, kB | s |\n|---|---|---|---|---|---|---|")
    for name in args.names or known:
        case = trained_case(name)
        with tempfile.TemporaryDirectory(prefix="thinflow-few-") as folder:
            plain = Path(folder) / f"float{args.form}"
            thinflow.save(case.graph, plain)
            wanted = np.concatenate([opened(plain)(sample[None]) for sample in case.x])
            judge = Judge(case.x, case.y, wanted)
            made = files(
                case, Path(folder) / f"made{args.form}", args.effort or ["default"], levels=args.levels
            )
            for what, path, seconds in made:
                found, content = judge.quality(path), path.read_bytes()
                same = "" if found.agreement is None else f"{found.agreement:.1%}"
                sizes = f"{len(content) / 1000:.0f} | {len(gzip.compress(content)) / 1000:.0f}"
                print(
                    f"| {name} | {what} | {found.sqnr_db:.1f} | {same} | {sizes} | {seconds:.1f} |",
                    flush=True,
                )
    return 0


def files(case: Case, path: Path, efforts: list[str], *, levels: bool) -> Iterator[tuple[str, Path, float]]:
    """Each file in turn under one name, how it was made, and the seconds that it took."""
    samples = {case.graph.inputs[0].name: case.calibration}
    for rounding in ROUNDINGS:
        started = time.monotonic()
        recipe = Recipe(scheme="int4_weights", rounding=rounding)
        quantize_to_file(case.graph, path, samples, recipe=recipe, effort="none")
        yield rounding, path, time.monotonic() - started
    for effort in efforts:
        started = time.monotonic()
        quantize_to_file(case.graph, path, samples, scheme="int4_weights", effort=effort)
        yield f"--effort {effort}", path, time.monotonic() - started
    for count in LEVELS if levels else ():
        for clusters in ("false", "true"):
            options = f"num_steps={count}, minimum_size=1024, clusters={clusters}"
            result = thinflow.transform(case.graph, f"fold_batch_norms\nround_weights({options})")
            thinflow.save(result.graph, path)
            yield f"{count} {'clusters' if clusters == 'true' else 'levels'}", path, 0.0
