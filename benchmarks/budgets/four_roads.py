"""One network from Keras's files, a frozen .pb, .tflite and .onnx: the same operators, as good in int8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.budgets.channels_first import operators
from benchmarks.lines import Line, NotThereYet, judged
from benchmarks.processes import run
from thinflow.typing import Array

TITLE = "one network by several roads"
IN_QUICK = False
ROADS = ("pb", "h5", "keras", "tflite", "onnx")
DECIBELS = 0.1
# A bias whose last bit differs, as sums are made in another order, moves a step here and there: on 60 samples
# that alone is 0.6 dB, on 1000 below 0.1.
_CALIBRATION, _SAMPLES = 60, 1000
_SHAPE = (96, 96, 3)


def measure(bench: Bench) -> Iterator[Line]:
    try:
        python = peers.peers_python()
    except peers.NoPeers as error:
        raise NotThereYet(str(error)) from error
    script = Path(peers.__file__).with_name("oracle") / "four_roads.py"
    run([python, str(script), str(bench.folder)], env={"PYTHONPATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"})
    rng = np.random.default_rng(5)
    calibration, samples = (
        rng.uniform(-1, 1, (count, *_SHAPE)).astype(np.float32) for count in (_CALIBRATION, _SAMPLES)
    )
    expected = _logits(bench.folder / "net.tflite", samples)
    quality: dict[str, float] = {}
    counts: dict[str, Counter[str]] = {}
    for road in ROADS:
        source, made = bench.folder / f"net.{road}", bench.folder / f"from_{road}.tflite"
        if source.exists():
            _quantize(source, made, calibration)
            noise = _logits(made, samples) - expected
            quality[road] = float(10 * np.log10((expected**2).sum() / (noise**2).sum()))
            counts[road] = operators(made)
    shown = ", ".join(f"{road} {decibels:.2f}" for road, decibels in quality.items())
    apart = max(quality.values()) - min(quality.values())
    yield judged(
        "MobileNetV2 in int8 by five roads: SQNR of the logits apart",
        f"≤ {DECIBELS} dB",
        f"{apart:.2f} dB ({shown})",
        len(quality) == len(ROADS) and apart <= DECIBELS,
    )
    different = [road for road, found in counts.items() if found != counts["pb"]]
    yield judged(
        "MobileNetV2 in int8 by five roads: operators",
        "the same",
        f"{sum(counts['pb'].values())} each" if not different else f"others from {', '.join(different)}",
        not different,
    )


def _quantize(source: Path, target: Path, calibration: Array) -> None:
    import thinflow

    graph = thinflow.load(source, input_layout="nhwc" if source.suffix == ".onnx" else None)
    quantized = thinflow.quantize(graph, {graph.inputs[0].name: calibration}, effort="default")
    thinflow.save(quantized, target)


def _logits(file: Path, samples: Array) -> Array:
    """Of shape [samples, classes]."""
    import thinflow

    session = thinflow.Session(file)
    (name,) = session.inputs
    return np.concatenate([session.run(None, {name: x[None]})[0].reshape(1, -1) for x in samples])
