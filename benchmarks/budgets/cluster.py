"""Evaluation and calibration on workers: what a shard costs, what two workers gain, and what they need."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, NotThereYet, figure, judged
from thinflow import convert, evaluate, quantize, zoo
from thinflow.ir.types import FLOAT, INT64
from thinflow.ops._example import example_bytes
from thinflow.quantize.recipe import Recipe
from thinflow.wire.tfrecord import framed

TITLE = "Workers of a cluster"
IN_QUICK = False
SAMPLES, CLIPS, RATE = 100_000, 10_000, 16_000
SHARD, SMALL = 1024, 64
_TURNS = 3
"""Calibrations on one worker and on two, the middle one of which is told."""
MANY = 100
"""Workers that are predicted."""
STORE_MB = 100.0
"""Megabytes a second that a store gives all workers together, for the prediction: a gigabit network."""


def measure(bench: Bench) -> Iterator[Line]:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise NotThereYet("pip install 'thinflow[cluster]'") from error
    yield from _evaluations(bench)
    yield from _calibrations(bench)


# ------------------------------------------------------------------------------------------------ evaluation


def _evaluations(bench: Bench) -> Iterator[Line]:
    count = SAMPLES // 10 if bench.quick else SAMPLES
    data, few = bench.folder / "digits.tfrecord", bench.folder / "few.tfrecord"
    write_digits(data, count)
    write_digits(few, count // 4)
    model = bench.folder / "digits.tflite"
    convert(bench.model("digits"), model)
    alone, here = timed(lambda: evaluate([model], data))
    found: dict[tuple[int, int], Spent] = {}
    for workers in (1, 2):
        with cluster_of(workers) as client:
            # Models are opened, and modules imported, before anything is timed.
            evaluate([model], few, cluster=client, shard_samples=count // 16)
            # What a shard costs shows on one worker; a quarter of the samples has enough shards for that.
            for size, samples in (
                (SHARD, data),
                *([(SHARD // 2, few), (SMALL, few)] if workers == 1 else []),
            ):
                told, spent = spending(
                    client,
                    lambda: evaluate([model], samples, cluster=client, shard_samples=size),  # noqa: B023
                )
                found[workers, size] = spent
                if samples is data:
                    same = told.rows() == alone.rows()
                    yield judged(f"{workers} workers: the same figures", "yes", f"{same}", same)
    one, two = found[1, SHARD], found[2, SHARD]
    yield figure(f"{count:,} samples in one process, without a cluster", f"{here.told()}")
    yield figure("the same on one worker", one.told())
    yield figure("the same on two", two.told())
    gain = one.seconds / two.seconds
    yield figure(
        "efficiency of two workers", f"{gain / 2:.0%} by the clock, {two.efficiency(one):.0%} by CPU"
    )
    coarse, fine = found[1, SHARD // 2], found[1, SMALL]
    more = -(-(count // 4) // SMALL) - -(-(count // 4) // (SHARD // 2))
    serial = max(0.0, fine.here - coarse.here) / more
    there = max(0.0, sum(fine.workers) - sum(coarse.workers)) / more
    yield figure(
        "overhead of a shard, CPU", f"{1000 * serial:.1f} ms here, {1000 * there:.1f} ms on the worker"
    )
    sample = (sum(one.workers) - there * -(-count // SHARD)) / count
    yield figure("work on a sample, CPU", f"{1e6 * sample:.0f} us")
    size = data.stat().st_size / count
    for network in (1, 50):
        bound, efficiency = predicted(MANY, sample * network, serial, there, size)
        name = "this network" if network == 1 else f"one {network} times as heavy"
        yield figure(f"{MANY} workers, predicted for {name}", f"{efficiency:.0%} efficient, bound by {bound}")


def predicted(workers: int, sample: float, serial: float, there: float, size: float) -> tuple[str, float]:
    """What bounds so many workers, and their efficiency.

    Args:
        sample: seconds of work on one sample.
        serial: seconds that a shard costs in the scheduler and the client, one after the other.
        there: seconds that it costs on its worker.
        size: bytes of a sample, which the store has to give.
    """
    work = (sample + there / SHARD) / workers
    each = {"the workers": work, "the scheduler": serial / SHARD, "the store": size / (STORE_MB * 1e6)}
    bound = max(each, key=lambda name: each[name])
    return bound, work / each[bound]


def write_digits(path: Path, count: int) -> None:
    """A TFRecord of the digits' test set, over and over."""
    data = zoo.test_set("digits")
    pairs = zip(data["image"], data["labels"], strict=True)
    records = [
        b"".join(
            bytes(part)
            for part in framed(
                [
                    example_bytes(
                        [(b"image", FLOAT, image.reshape(-1).tolist()), (b"label", INT64, [int(label)])]
                    )
                ]
            )
        )
        for image, label in pairs
    ]
    with path.open("wb") as file:
        for number in range(count):
            file.write(records[number % len(records)])


# ----------------------------------------------------------------------------------------------- calibration


def _calibrations(bench: Bench) -> Iterator[Line]:
    count = CLIPS // 10 if bench.quick else CLIPS
    shared = Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared")
    model = shared / "models" / "kws_DS_CNN_S.pb"
    if not model.exists():
        yield figure("calibration on clips", "skipped: no keyword network beside the clone")
        return
    clips, few = bench.folder / "clips", bench.folder / "few clips"
    write_clips(clips, count)
    write_clips(few, 64)
    recipe = Recipe(observer="mse")

    def job(client: Any, samples: Path = clips) -> Any:
        return quantize(model, samples, recipe=recipe, effort="none", cluster=client)

    contents, peaks, runs = set[bytes](), list[int](), list[tuple[Spent, Spent]]()
    # By turns: a processor alone is up to a sixth faster at times, and then two seem to gain less.
    for _ in range(1 if bench.quick else _TURNS):
        spent = []
        for workers in (1, 2):
            with cluster_of(workers) as client, memory() as peak:
                # As above: workers of a cluster live longer than one job, and import once.
                job(client, few)
                made, took = spending(client, lambda: job(client))
            contents.add(made.content)
            spent.append(took)
            peaks.append(peak())
        runs.append((spent[0], spent[1]))
    runs.sort(key=lambda pair: pair[0].seconds / pair[1].seconds)
    one, two = runs[len(runs) // 2]
    ratios = [a.seconds / b.seconds for a, b in runs]
    gain = one.seconds / two.seconds
    told = f"{gain:.2f}x ({one.seconds:.0f} s, {two.seconds:.0f} s; {ratios[0]:.2f} to {ratios[-1]:.2f})"
    yield judged(f"int8 calibration on {count:,} clips: two workers beside one", "≥ 1.7x", told, gain >= 1.7)
    for workers, each in zip(("one worker", "two"), (one, two), strict=True):
        yield figure(f"the same, {workers}", each.told())
    # A machine with other work to do shows this all the same.
    best = (one.here + sum(one.workers)) / (two.here + max(two.workers))
    yield judged(
        "the same by CPU: the longest of what is done side by side", "≥ 1.7x", f"{best:.2f}x", best >= 1.7
    )
    yield judged(
        "memory of all processes together", "≤ 1.3 GB", f"{max(peaks) / 1e9:.2f} GB", max(peaks) <= 1.3e9
    )
    alike = len(contents) == 1
    yield judged("the same file from one worker and two", "yes", f"{alike}", alike)


def write_clips(folder: Path, count: int, seed: int = 0) -> None:
    """A folder of so many one-second WAV files: noise that swells and ebbs."""
    import wave

    folder.mkdir()
    rng = np.random.default_rng(seed)
    swell = np.sin(np.linspace(0, np.pi, RATE))
    for number in range(count):
        sound = rng.standard_normal(RATE) * swell * rng.uniform(100, 8000)
        with wave.open(str(folder / f"{number:05}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(np.clip(sound, -32768, 32767).astype("<i2").tobytes())


# ---------------------------------------------------------------------------------------------- the machinery


@dataclass(frozen=True)
class Spent:
    """What some work took.

    Attributes:
        seconds: by the clock.
        here: CPU seconds of this process, in which the client and the scheduler are.
        workers: CPU seconds of each worker.
    """

    seconds: float
    here: float
    workers: tuple[float, ...] = ()

    def told(self) -> str:
        """In words."""
        there = ", ".join(f"{one:.1f} s" for one in self.workers)
        return f"{self.seconds:.1f} s; CPU {self.here:.1f} s here{f', {there} on workers' if there else ''}"

    def efficiency(self, one: Spent) -> float:
        """How well workers are used beside one: by their CPU times, whoever else keeps the machine busy."""
        return sum(one.workers) / (len(self.workers) * max(self.workers))


def timed(work: Callable[[], Any]) -> tuple[Any, Spent]:
    """What some work gives, and what it takes in this process."""
    start, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, Spent(time.perf_counter() - start, time.process_time() - cpu)


def spending(client: Any, work: Callable[[], Any]) -> tuple[Any, Spent]:
    """The same, and what it takes in each worker."""
    before = client.run(time.process_time)
    found, spent = timed(work)
    after = client.run(time.process_time)
    return found, replace(spent, workers=tuple(after[name] - before[name] for name in before))


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    """A client of a local cluster."""
    import distributed

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, local_directory=folder
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def memory() -> Iterator[Callable[[], int]]:
    """A function that tells the most memory that this process and all below it had together."""
    import psutil

    most, is_over = 0, threading.Event()

    def look() -> None:
        nonlocal most
        own = psutil.Process()
        while not is_over.wait(0.25):
            total = 0
            for one in (own, *own.children(recursive=True)):
                try:
                    # Shared pages count once, in parts.
                    total += one.memory_full_info().pss
                except (psutil.Error, AttributeError):
                    continue
            most = max(most, total)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: most
    finally:
        is_over.set()
        watcher.join()
