"""What becomes of an evaluation on two workers when machines die, stop, and lose the one who asked.

    python -m benchmarks cluster_disasters [--samples 100000] [--kinds tfrecord parquet tar]

The samples of the digits lie in sixteen files of each kind. While a scheduler and two workers, each a process
of its own, are at it, one worker is killed by a signal, the scheduler stands still for ten seconds, and who
asked is killed and asks again. Counts and figures have to be those of one process, to the last bit, no result
may be made twice, and none that was there may be touched.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lines import Line, figure, judged
from tests.cluster.machines import Machines, machines, process, wait_for
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes, write_tar
from thinflow import convert, zoo
from thinflow.typing import Array

FILES = 16
PAUSE_SECONDS = 10.0
SHARD = 512
_PATIENCE = 3600.0
_SAME = ("samples", "correct", "accuracy", "figures", "confusion", "per_class")


def write_tfrecord(path: Path, images: Array, labels: Array) -> None:
    """A file of framed Examples."""
    path.write_bytes(tfrecord_bytes(images, labels))


def write_parquet(path: Path, images: Array, labels: Array) -> None:
    """A file of row groups as large as shards."""
    import pyarrow
    from pyarrow import parquet

    flat = images.reshape(len(images), -1)
    column = pyarrow.FixedSizeListArray.from_arrays(flat.reshape(-1), flat.shape[1])
    rows = pyarrow.table({"image": column, "label": labels})
    parquet.write_table(rows, path, row_group_size=SHARD)


KINDS: dict[str, Callable[[Path, Array, Array], None]] = {
    "tfrecord": write_tfrecord,
    "parquet": write_parquet,
    "tar": write_tar,
}


def write_samples(folder: Path, kind: str, count: int) -> str:
    """So many samples in files of a kind; the pattern of their names."""
    images, labels = digits(count)
    bounds = np.linspace(0, count, FILES + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(bounds)):
        KINDS[kind](folder / f"test-{number:03}.{kind}", images[start:end], labels[start:end])
    return str(folder / f"test-*.{kind}")


@dataclass
class Outcome:
    """What came of one run with all disasters.

    Attributes:
        differs: names of figures that are not those of one process.
        results: in the store at the end, and how many there should be.
        touched: results of before the kill that were written again.
        seconds: of one process, and of the run with its disasters.
    """

    differs: list[str]
    results: tuple[int, int]
    touched: int
    seconds: tuple[float, float]

    @property
    def is_right(self) -> bool:
        """Whether nothing differs, is missing, or was done twice."""
        return not self.differs and self.results[0] == self.results[1] and not self.touched


def survive(folder: Path, model: Path, kind: str, count: int, shard: int = SHARD) -> Outcome:
    """Evaluate so many samples of a kind through all disasters, and beside that in one process.

    Args:
        folder: empty; for samples and results.
    """
    data, store, plain = write_samples(folder, kind, count), folder / "store", folder / "alone"
    words = ["thinflow", "evaluate", str(model), "--data", data, "--json", "--shard-samples", str(shard)]
    start = time.perf_counter()
    alone = _answer(process(*words, "--store", str(plain), stdout=subprocess.PIPE))
    middle = time.perf_counter()
    shards = len(results_in(plain))
    with machines(folder, 2) as others:
        words += ["--store", str(store), "--cluster", others.address]
        found, touched = _through_all(others, words, store, shards)
    seconds = middle - start, time.perf_counter() - middle
    differs = [name for name in _SAME if found[name] != alone[name]]
    differs += ["answers"] if contents(store) != contents(plain) else []
    return Outcome(differs, (len(results_in(store)), shards), touched, seconds)


def _through_all(
    others: Machines, words: Sequence[str], store: Path, shards: int
) -> tuple[dict[str, Any], int]:
    """What the second asker says, and how many results of the first were touched."""

    def reached(part: float) -> Callable[[], bool]:
        return lambda: len(results_in(store)) >= part * shards

    asker = process(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        wait_for(reached(0.2), _PATIENCE)
        others.workers[0].send_signal(signal.SIGKILL)
        wait_for(reached(0.4), _PATIENCE)
        others.pause_scheduler(PAUSE_SECONDS)
        wait_for(reached(0.6), _PATIENCE)
    finally:
        asker.kill()
        asker.communicate()
    before = {file: file.stat().st_mtime_ns for file in results_in(store)}
    found = _answer(process(*words, stdout=subprocess.PIPE))
    return found, sum(file.stat().st_mtime_ns != then for file, then in before.items())


def _answer(asker: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = asker.communicate(timeout=_PATIENCE)
    if asker.returncode:
        raise RuntimeError(f"evaluate ended with code {asker.returncode}")
    found: dict[str, Any] = json.loads(out)
    return found


def results_in(store: Path) -> list[Path]:
    """The results in a store that are whole."""
    return [file for file in store.glob("*.json") if not file.name.startswith(".")]


def contents(store: Path) -> dict[str, bytes]:
    """Name -> bytes of each result: every count and every single answer."""
    return {file.name: file.read_bytes() for file in results_in(store)}


def lines(kind: str, count: int, outcome: Outcome) -> list[Line]:
    """The lines of the table for a kind of files."""
    told = ", ".join(outcome.differs) or "none"
    made, wanted = outcome.results
    here, there = outcome.seconds
    return [
        judged(f"{kind}: figures that differ from one process", "none", told, not outcome.differs),
        judged(f"{kind}: results kept", f"{wanted}", f"{made}", made == wanted),
        judged(f"{kind}: results made again", "0", f"{outcome.touched}", not outcome.touched),
        figure(
            f"{kind}: {count:,} samples in one process; with all disasters", f"{here:.0f} s; {there:.0f} s"
        ),
    ]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster_disasters")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    args = parser.parse_args(words)
    from benchmarks.__main__ import table

    found = []
    with tempfile.TemporaryDirectory(prefix="thinflow-bench-") as name:
        model = Path(name, "digits.tflite")
        zoo.write("digits", Path(name, "digits.pb"))
        convert(Path(name, "digits.pb"), model)
        for kind in args.kinds:
            print(f"{kind} ...", file=sys.stderr, flush=True)
            folder = Path(name, kind)
            folder.mkdir()
            found += lines(kind, args.samples, survive(folder, model, kind, args.samples))
    print(table(found))
    return int(any(line.verdict == "MISS" for line in found))
