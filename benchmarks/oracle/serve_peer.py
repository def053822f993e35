"""One engine, asked run by run: serve_peer.py ENGINE MODEL FEEDS.npz INPUT OUTPUT THREADS.

ENGINE is litert, onnxruntime, openvino or tensorflow; INPUT and OUTPUT matter to TensorFlow only. Of ours it
is "session", a file in its own engine, or "measured", any model in the engine that was measured to be the
fastest: what was chosen is told first. "ready" comes before all answers. For each line on stdin, a number of
runs, it answers with the nanoseconds of each, input copied in and output copied out. "profile" is answered
with the time of each kind of operator in JSON, if known.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]
PROFILED = 10


def main() -> None:
    engine, model, feeds, feed, fetch, threads = sys.argv[1:]
    array = np.ascontiguousarray(_first(np.load(feeds)))
    if engine == "tensorflow":
        run = tensorflow(model, array, feed, fetch, int(threads))
    else:
        run = ENGINES[engine](model, array, int(threads))
    for _ in range(3):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            maker = PROFILES.get(engine)
            print(json.dumps(maker(model, array, int(threads)) if maker else {}), flush=True)
            continue
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - begin)
        print(*times, flush=True)


def _first(feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first sample of the one input: its first row, or all of what is called `whole`."""
    (name, array), *_ = feeds.items()
    return array if name == "whole" else array[:1]


def litert(model: str, array: np.ndarray, threads: int) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model, num_threads=threads)
    interpreter.allocate_tensors()
    detail = interpreter.get_input_details()[0]
    if detail["dtype"] != array.dtype:
        raise SystemExit(f"the model reads {detail['dtype']}, not {array.dtype}")
    if tuple(detail["shape"]) != array.shape:
        interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]

    def run() -> Any:
        interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return run


def _onnx_session(model: str, threads: int, profile: str = "") -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnx_runtime(model: str, array: np.ndarray, threads: int) -> Run:
    session = _onnx_session(model, threads)
    feeds = {session.get_inputs()[0].name: array}
    return lambda: session.run(None, feeds)


def profile_onnx_runtime(model: str, array: np.ndarray, threads: int) -> dict[str, float]:
    """Milliseconds of a run by op."""
    with tempfile.TemporaryDirectory() as folder:
        session = _onnx_session(model, threads, f"{folder}/profile")
        for _ in range(PROFILED):
            session.run(None, {session.get_inputs()[0].name: array})
        events = json.loads(Path(session.end_profiling()).read_text())
    total: Counter[str] = Counter()
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            total[event["args"]["op_name"]] += event["dur"]
    return {op: micros / 1000 / PROFILED for op, micros in total.items()}


def _openvino_request(model: str, threads: int, **more: Any) -> Any:
    import openvino

    # Where the CPU has instructions for it, OpenVINO would compute a float32 model in bfloat16.
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        **more,
    }
    return openvino.Core().compile_model(model, "CPU", settings).create_infer_request()


def openvino(model: str, array: np.ndarray, threads: int) -> Run:
    request = _openvino_request(model, threads)
    return lambda: request.infer([array], share_inputs=True)


def profile_openvino(model: str, array: np.ndarray, threads: int) -> dict[str, float]:
    """Milliseconds of a run by op."""
    request = _openvino_request(model, threads, PERF_COUNT=True)
    total: Counter[str] = Counter()
    for turn in range(PROFILED + 1):
        request.infer([array], share_inputs=True)
        if turn:  # the first run prepares
            for info in request.profiling_info:
                total[f"{info.node_type} {info.exec_type}"] += info.real_time.total_seconds() * 1000
    return {op: milliseconds / PROFILED for op, milliseconds in total.items() if milliseconds}


def tensorflow(model: str, array: np.ndarray, feed: str, fetch: str, threads: int) -> Run:
    import tensorflow as tf  # noqa: TID251

    tf1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(Path(model).read_bytes()), name="")
    config = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    call = tf1.Session(graph=graph, config=config).make_callable(f"{fetch}:0", [f"{feed}:0"])
    return lambda: call(array)


def session(model: str, array: np.ndarray, threads: int, *, measure: bool = False) -> Run:
    import thinflow

    opened = thinflow.Session(model, threads=threads, measure=measure)
    (name,) = opened.inputs
    feeds = {name: array}
    opened.run(None, feeds)
    if opened.choice is not None:
        print(opened.choice.sentence)
    return lambda: opened.run(None, feeds)


ENGINES: dict[str, Callable[[str, np.ndarray, int], Run]] = {
    "litert": litert,
    "onnxruntime": onnx_runtime,
    "openvino": openvino,
    "session": session,
    "measured": partial(session, measure=True),
}
PROFILES = {"onnxruntime": profile_onnx_runtime, "openvino": profile_openvino}

main()
