"""Latency of our models against what other engines make of the same TensorFlow graph, fp32 and int8.

Every contestant is a process of its own with the same number of threads; input copied in, output copied out.
TensorFlow runs the graph itself, ONNX Runtime and OpenVINO what tf2onnx makes of it, LiteRT also what
TFLiteConverter makes of it. The eight-bit ONNX model is made by ONNX Runtime's static quantization.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, figure, guarded, interval_line
from benchmarks.peers import Contestant, NoPeers, Served, by_turns, peers_python, prepare
from benchmarks.processes import ProcessFailed, run
from thinflow.analysis.stats import ratio_of_medians

TITLE = "peers"
IN_QUICK = False
ROUNDS = 9
IMAGES = 8
SHARED = Path(os.environ.get("THINFLOW_MODELS", ROOT.parent / "shared" / "models"))
_SHOWN = 4


@dataclass(frozen=True)
class Subject:
    """A network: where its graph comes from, and where it is cut.

    Attributes:
        source: "zoo", "keras" or the name of a file among the shared models.
        shape: of the input; the batch is 1.
        feed, fetch: names, if the graph has to be cut there.
    """

    name: str
    source: str
    shape: tuple[int, ...]
    feed: str = ""
    fetch: str = ""


SUBJECTS = (
    Subject("resnet_v2_50", "zoo", (1, 224, 224, 3)),
    Subject("ResNet50V2", "keras", (1, 224, 224, 3)),
    Subject("MobileNet", "keras", (1, 224, 224, 3)),
    Subject("mobilenet_v1", "zoo", (1, 224, 224, 3)),
    Subject("mobilenet_v2", "zoo", (1, 224, 224, 3)),
    Subject("inception_v3_2015", "zoo", (1, 299, 299, 3), feed="Mul"),
    Subject("DS_CNN_S", "kws_DS_CNN_S.pb", (1, 49, 10), "Mfcc", "labels_softmax"),
    Subject("pose_v2s, 184", "pose_v2s.pb", (1, 184, 184, 3), "image", "Openpose/concat_stage7"),
    Subject("pose_v2s, 368", "pose_v2s.pb", (1, 368, 368, 3), "image", "Openpose/concat_stage7"),
)


def measure(bench: Bench) -> Iterator[Line]:
    try:
        python = peers_python()
    except NoPeers as error:
        yield Line(f"{TITLE}: TensorFlow, ONNX Runtime, OpenVINO", "", f"not installable: {error}", "skipped")
        return
    bench.notes.append("OpenVINO is held to float32; where a CPU has AMX it would compute in bfloat16")
    chosen = os.environ.get("THINFLOW_PEERS", "")  # part of a name: only those
    for subject in SUBJECTS:
        if chosen in subject.name:
            yield from guarded(
                f"{TITLE}, {subject.name}", partial(_one, python=python, subject=subject), bench
            )


def _one(bench: Bench, python: str, subject: Subject) -> Iterator[Line]:
    if subject.source.endswith(".pb") and not (SHARED / subject.source).exists():
        yield Line(f"{TITLE}, {subject.name}", "", f"there is no {subject.source} here", "skipped")
        return
    files = Files(bench, python, subject)
    for problem in files.problems:
        bench.notes.append(f"{subject.name}: {problem}")
    for kind, contestants in (("fp32", files.floats()), ("int8", files.integers())):
        for threads in (1, 2):
            what = f"{TITLE}, {subject.name}, {kind}, {threads} thread{'s' if threads > 1 else ''}"
            yield from guarded(
                what,
                partial(_compared, what=what, files=files, contestants=contestants, threads=threads),
                bench,
            )


def _compared(
    bench: Bench, what: str, files: Files, contestants: Sequence[Contestant], threads: int
) -> Iterator[Line]:
    """Judge ours, on LiteRT and on the better of its engines, against the fastest of the others."""
    served = {
        c.name: Served(
            sys.executable if c.engine == "litert" else files.python, c, files.feeds, files.names, threads
        )
        for c in contestants
    }
    try:
        for name in list(served):
            try:
                served[name].wait()
            except RuntimeError as error:
                served.pop(name).close()
                bench.notes.append(f"{what}: {name}: {error}")
        times = by_turns(served, ROUNDS)
        by_name = {c.name: c for c in contestants}
        ours = [n for n in times if by_name[n].ours]
        if not ours:
            raise RuntimeError("there is no model of ours")
        theirs = [n for n in times if not by_name[n].ours]
        best, fastest = fastest_of(times, ours), fastest_of(times, theirs)
        yield figure(what, ", ".join(f"{n} {median(times[n]):.3g}" for n in times) + " ms")
        slower: list[str] = []
        for name in dict.fromkeys((ours[0], best)):
            found = ratio_of_medians(times[name], times[fastest], paired=True)
            detail = f"{median(times[name]):.3g} : {median(times[fastest]):.3g} ms"
            line = interval_line(f"{what}: {name} : {fastest}", found, 1.0, detail)
            slower += [name] if line.verdict == "MISS" else []
            yield line
        for name in [*slower, fastest] if slower else ():
            told = _by_kernel(served[name], by_name[name].model, threads)
            yield figure(f"{what}: where the time goes, {name}", _shares(told) or "it does not tell")
    finally:
        for process in served.values():
            process.close()


def fastest_of(times: Mapping[str, Sequence[float]], names: Sequence[str]) -> str:
    if not names:
        raise RuntimeError("nothing to compare with: no peer runs this model")
    return min(names, key=lambda n: median(times[n]))


def _by_kernel(served: Served, model: Path, threads: int) -> dict[str, float]:
    """Milliseconds of a run by kind of kernel; empty where the engine does not tell."""
    if model.suffix != ".tflite":
        return served.profile()
    from thinflow.bench.profile import profile

    found = profile(str(model), threads=threads, runs=10)
    total: dict[str, float] = {}
    for row in found.stats.rows.values():
        kernel = found.kernels.get(row.name, row.op)
        total[kernel] = total.get(kernel, 0.0) + row.micros.mean / 1000
    return total


def _shares(times: Mapping[str, float]) -> str:
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return ", ".join(f"{name.replace(', ', ' ')} {ms:.2f}" for name, ms in ordered[:_SHOWN]) + (
        " ms" if ordered else ""
    )


class Files:
    """All forms of one network."""

    def __init__(self, bench: Bench, python: str, subject: Subject) -> None:
        self.python, self._bench, self.subject = python, bench, subject
        self.stem = bench.folder / "".join(c if c.isalnum() else "_" for c in subject.name)
        self.graph, self.names = self._source()
        self.feeds = Path(f"{self.stem}_feeds.npz")
        images = np.random.default_rng(0).uniform(-1, 1, (IMAGES, *subject.shape[1:]))
        np.savez(self.feeds, **{self.names[0]: images.astype(np.float32)})  # type: ignore[arg-type]
        self.problems = prepare(python, self.graph, *self.names, bench.folder, self.stem.name, self.feeds)

    def _source(self) -> tuple[Path, list[str]]:
        """A frozen graph that starts with a float image of fixed size, and the names of its ends."""
        bench, subject = self._bench, self.subject
        if subject.source == "keras":
            path = Path(f"{self.stem}.pb")
            script = ROOT / "benchmarks" / "oracle" / "freeze_keras.py"
            told = run([self.python, str(script), subject.name, str(path)], env={"TF_CPP_MIN_LOG_LEVEL": "3"})
            return path, told.output.split()[-2:]
        if subject.source == "zoo":
            path, ends = bench.model(subject.name), list(bench.interface(subject.name))
        else:
            path, ends = SHARED / subject.source, [subject.feed, subject.fetch]
        if not subject.feed:
            return path, ends
        cut = Path(f"{self.stem}_cut.pb")
        ends[0] = subject.feed
        shape = ",".join(map(str, subject.shape))
        transforms = f'--transforms=strip_unused_nodes(type=float, shape="{shape}")'
        ends_named = [f"--inputs={ends[0]}", f"--outputs={ends[1]}"]
        run(
            [
                *bench.thinflow,
                "transform_graph",
                f"--in_graph={path}",
                f"--out_graph={cut}",
                *ends_named,
                transforms,
            ]
        )
        return cut, ends

    def ours(self, suffix: str, verb: str, *more: str) -> Path:
        target = Path(f"{self.stem}_ours{suffix}")
        if not target.exists():
            sizes = ",".join(map(str, self.subject.shape))
            ends = [
                "--inputs",
                self.names[0],
                "--outputs",
                self.names[1],
                "--shape",
                f"{self.names[0]}={sizes}",
            ]
            try:
                run([*self._bench.thinflow, verb, str(self.graph), str(target), *ends, *more])
            except ProcessFailed as error:
                self._bench.notes.append(f"{self.subject.name}: {error}")
        return target

    def floats(self) -> list[Contestant]:
        return self.present(
            Contestant("LiteRT", "litert", self.ours(".tflite", "convert", "--no-verify"), ours=True),
            Contestant(
                "ONNX Runtime", "onnxruntime", self.ours(".onnx", "convert", "--no-verify"), ours=True
            ),
            Contestant("TFLiteConverter's", "litert", Path(f"{self.stem}_tf.tflite")),
            Contestant("TensorFlow", "tensorflow", self.graph),
            Contestant("ONNX Runtime (tf2onnx)", "onnxruntime", Path(f"{self.stem}.onnx")),
            Contestant("OpenVINO (tf2onnx)", "openvino", Path(f"{self.stem}.onnx")),
        )

    def integers(self) -> list[Contestant]:
        quantized = self.ours("_int8.tflite", "quantize", "--calibration", str(self.feeds))
        return self.present(
            Contestant("LiteRT", "litert", quantized, ours=True),
            Contestant("TFLiteConverter's", "litert", Path(f"{self.stem}_tf_int8.tflite")),
            Contestant("ONNX Runtime (its own int8)", "onnxruntime", Path(f"{self.stem}_int8.onnx")),
            Contestant("OpenVINO (the same)", "openvino", Path(f"{self.stem}_int8.onnx")),
        )

    @staticmethod
    def present(*contestants: Contestant) -> list[Contestant]:
        return [c for c in contestants if c.model.exists()]
