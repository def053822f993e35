"""Our .tflite files beside those that onnx2tf makes of the same .onnx: whether they are right, transposes,
latency on LiteRT.

onnx2tf brings its own Python environment: its command is what THINFLOW_ONNX2TF names, else what the PATH has.
Inputs have their channels last, as it has them by default. The networks are those of `channels_first`, and
those that ship without weights inside the onnx package, with random ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.budgets.channels_first import operators
from benchmarks.channels_first import NETS, write_onnx
from benchmarks.lines import Line, NotThereYet, figure, guarded, interval_line, judged
from benchmarks.processes import ProcessFailed, run
from thinflow.errors import ThinflowError

TITLE = "beside onnx2tf"
IN_QUICK = False
COMMAND = "THINFLOW_ONNX2TF"
SLOWER, RIGHT = 1.0, 1e-3
"""The most that our latency may be of theirs, and an answer's largest error, of the largest number in it."""
LIGHT = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "zfnet512")


def measure(bench: Bench) -> Iterator[Line]:
    command = os.environ.get(COMMAND) or shutil.which("onnx2tf")
    if command is None:
        raise NotThereYet(f"no onnx2tf: install it into an environment of its own and set {COMMAND}")
    nets: dict[str, Callable[[Path], None]] = {name: partial(write_onnx, name) for name in NETS}
    nets |= {f"light {name}": partial(_write_light, name) for name in LIGHT}
    for name, write in nets.items():
        yield from guarded(f"{name}, {TITLE}", partial(_one, name=name, write=write, command=command), bench)


def _one(bench: Bench, name: str, write: Callable[[Path], None], command: str) -> Iterator[Line]:
    from thinflow.bench.latency import benchmark

    slug = name.replace(" ", "_")
    source, ours, folder = (bench.folder / f"{slug}{end}" for end in (".onnx", ".tflite", "_onnx2tf"))
    write(source)
    run([*bench.thinflow, "convert", str(source), str(ours), "--input-layout", "nhwc"])
    # It calls helpers that lie beside it.
    path = os.pathsep.join([str(Path(command).parent), os.environ.get("PATH", "")])
    try:
        run([command, "-i", str(source), "-o", str(folder)], env={"PATH": path, "PYTHONPATH": ""})
    except ProcessFailed as failed:
        yield figure(f"{name}: onnx2tf", f"makes no file: {failed}".splitlines()[0])
        return
    theirs = folder / f"{slug}_float32.tflite"
    errors = {}
    for who, file in (("ours", ours), ("theirs", theirs)):
        try:
            errors[who] = _error(source, file)
        except ThinflowError as error:
            yield figure(f"{name}: {who} on LiteRT", f"does not run: {error}".splitlines()[0])
            errors[who] = float("inf")
    left = [operators(file)["TRANSPOSE"] for file in (ours, theirs)]
    yield judged(
        f"{name}: relative error, ours : onnx2tf's",
        f"≤ {RIGHT}",
        f"{errors['ours']:.1e} : {errors['theirs']:.1e}; transposes {left[0]} : {left[1]}",
        errors["ours"] <= RIGHT,
    )
    if np.isfinite(errors["theirs"]):
        report = benchmark(
            {"ours": ours, "theirs": theirs}, seconds=6.0 if bench.quick else 20.0, memory=False
        )
        one, other = report.row("ours"), report.row("theirs")
        detail = f"{one.median_ms:.2f} : {other.median_ms:.2f} ms"
        yield interval_line(f"{name}: latency : onnx2tf's", report.ratio(one, other).interval, SLOWER, detail)


def _error(source: Path, file: Path) -> float:
    """The largest difference from ONNX Runtime's answer, of its largest number; channels may be moved."""
    import onnxruntime

    import thinflow

    session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    # Old exporters declare more inputs than they read; the picture is the one with four axes.
    feed = {i.name: rng.uniform(-1, 1, i.shape).astype(np.float32) for i in session.get_inputs()}
    (x,) = (array for array in feed.values() if array.ndim == 4)
    expected = session.run(None, feed)[0].reshape(-1)
    mine = thinflow.Session(file)
    (taken,) = (name for name, spec in mine.inputs.items() if spec.rank == 4)
    found = mine.run(None, {taken: np.ascontiguousarray(x.transpose(0, 2, 3, 1))})[0].reshape(-1)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _write_light(name: str, path: Path) -> None:
    """A network of the onnx package, which has its weights' sizes only: random ones, of activations' size."""
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(0)
    sizes = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in graph.initializer}
    made = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "ConstantOfShape"}
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    # Of a batch norm the scale and the variance are positive.
    positive = {n.input[i] for n in kept if n.op_type == "BatchNormalization" for i in (1, 4)}
    weights: list[Any] = [t for t in graph.initializer if any(t.name in n.input for n in kept)]
    for weight, shape in made.items():
        size = sizes[shape]
        spread = np.sqrt(2 / np.prod(size[1:])) if len(size) > 1 else 0.1
        array = rng.uniform(0.5, 1.5, size) if weight in positive else rng.standard_normal(size) * spread
        weights.append(numpy_helper.from_array(array.astype(np.float32), weight))
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)
    fed = [i for i in graph.input if i.name not in sizes and i.name not in made]
    del graph.input[:]
    graph.input.extend(fed)
    model.ir_version = 8
    onnx.save(model, path)
