"""`python -m benchmarks.onnx_suite`: the backend test cases of the `onnx` package, by several roads.

    python -m benchmarks.onnx_suite --bake                      # reference engine, the table by kind
    python -m benchmarks.onnx_suite --bake --road tflite        # lifted, written as .tflite, run by LiteRT
    python -m benchmarks.onnx_suite --only resize --cases       # one line a case, with why it was refused

A case is *right* if every output has the expected dtype, shape and, within onnx's own tolerances, values;
*wrong* if any differs; *refused* if a typed error said so before. Cases whose graph takes or gives sequences
or optionals, or random numbers, cannot be fed or judged and are left out.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
MEMORY_BYTES = 12 << 30
SECONDS = 60
_TWO_ROUNDINGS = {"float16": 2.0**-9, "bfloat16": 2.0**-6}
_RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomUniform"})
_RANDOM_LIKE = frozenset({"RandomNormalLike", "RandomUniformLike"})


@dataclass(frozen=True)
class Case:
    """A model with what it is fed and what it shall give.

    Attributes:
        kind: which part of the suite.
        model: an onnx.ModelProto.
        inputs, outputs: by position; what cannot be judged is not a case.
    """

    name: str
    kind: str
    model: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    rtol: float
    atol: float

    @property
    def op(self) -> str:
        """The op it tests, where it is one."""
        nodes = self.model.graph.node
        if self.kind != "node":
            return f"[{self.kind}]"
        return nodes[0].op_type + (" (as function)" if self.name.endswith("_expanded") else "")


@dataclass(frozen=True)
class Verdict:
    """What came of a case: "right", "wrong", "refused" or "crash"."""

    name: str
    kind: str
    op: str
    state: str
    why: str = ""


def cases(pattern: str = "*") -> Iterator[Case]:
    """Cases that can be fed and judged, of names that fit a pattern of a shell."""
    for case in (*_node_cases(), *_stored_cases(), *_light_cases()):
        if fnmatch.fnmatch(case.name, pattern) and _can_be_judged(case):
            yield case


def _node_cases() -> Iterator[Case]:
    import onnx

    # The package computes them anew, all of them, which takes longer than to run most selections.
    cache = Path(tempfile.gettempdir()) / f"onnx-suite-{os.getuid()}-{onnx.__version__}-arrays.pickle"
    if not cache.exists():
        aside = cache.with_suffix(f".{os.getpid()}")
        aside.write_bytes(pickle.dumps(_computed_node_cases()))
        aside.replace(cache)
    for name, model, inputs, outputs, rtol, atol in pickle.loads(cache.read_bytes()):
        yield Case(name, "node", onnx.ModelProto.FromString(model), inputs, outputs, rtol, atol)


def _computed_node_cases() -> list[tuple[str, bytes, Sequence[Any], Sequence[Any], float, float]]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        # The suite computes overflows on purpose.
        warnings.simplefilter("ignore")
        loaded = load_model_tests(kind="node")
    rows = []
    for test in loaded:
        fed, given = ([_array(x) for x in side] for side in test.data_sets[0])
        rows.append((test.name, test.model.SerializeToString(), fed, given, test.rtol, test.atol))
    return rows


def _array(value: Any) -> Any:
    """Cases of types that numpy lacks come as messages."""
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _stored_cases() -> Iterator[Case]:
    import onnx
    from onnx.backend.test.loader import load_model_tests

    for kind in KINDS[1:4]:
        for test in sorted(load_model_tests(kind=kind), key=lambda t: t.name):
            model = onnx.load(Path(test.model_dir) / "model.onnx")
            folder = Path(test.model_dir) / "test_data_set_0"
            fed = [_tensor(folder / f"input_{i}.pb") for i in range(len(list(folder.glob("input_*.pb"))))]
            given = [_tensor(folder / f"output_{i}.pb") for i in range(len(list(folder.glob("output_*.pb"))))]
            yield Case(test.name, kind, model, fed, given, test.rtol, test.atol)


def _light_cases() -> Iterator[Case]:
    import onnx
    from onnx.backend.test.loader import DATA_DIR

    for path in sorted((Path(DATA_DIR) / "light").glob("light_*.onnx")):
        model = onnx.load(path)
        known = {t.name for t in model.graph.initializer}
        shapes = [
            [d.dim_value for d in i.type.tensor_type.shape.dim]
            for i in model.graph.input
            if i.name not in known
        ]
        # The numbers that the suite's own runner feeds these models.
        fed = [(np.arange(np.prod(s)).reshape(s) / np.prod(s)).astype(np.float32) for s in shapes]
        yield Case(
            f"test_{path.stem}", "light", model, fed, [_tensor(path.with_name(f"{path.stem}_output_0.pb"))],
            1e-3, 1e-5,
        )  # fmt: skip


def _tensor(path: Path) -> Any:
    import onnx

    message = onnx.TensorProto()
    try:
        message.ParseFromString(path.read_bytes())
    except Exception:  # a sequence or an optional, which is left out anyway
        return None
    return onnx.numpy_helper.to_array(message) if message.data_type else None


def _can_be_judged(case: Case) -> bool:
    kinds = {v.type.WhichOneof("value") for v in (*case.model.graph.input, *case.model.graph.output)}
    if kinds - {"tensor_type"} or any(not hasattr(x, "dtype") for x in (*case.inputs, *case.outputs)):
        return False
    ops = {n.op_type for n in case.model.graph.node}
    return not ops & (_RANDOM | _RANDOM_LIKE)


def baked(case: Case) -> Case:
    """The case with inputs behind the first of at most one dimension as initializers, as exporters write
    axes, shapes, pads and scales."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    known = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in known]
    if len(inputs) != len(case.inputs):
        return case
    fed = [case.inputs[0]] if case.inputs else []
    for declared, value in list(zip(inputs, case.inputs, strict=True))[1:]:
        array = np.asarray(value)
        if array.ndim > 1:
            fed.append(value)
            continue
        tensor = onnx.numpy_helper.from_array(array, declared.name)
        # Types such as bfloat16 and float8 come as numpy's stand-ins; what was declared decides.
        tensor.data_type = declared.type.tensor_type.elem_type
        graph.initializer.append(tensor)
        graph.input.remove(declared)
    return Case(case.name, case.kind, model, fed, case.outputs, case.rtol, case.atol)


# ---- roads: from the bytes of a model and what it is fed to what it gives.


def _by_session(path: Path, engine: str, fed: Sequence[Any]) -> list[Any]:
    import thinflow

    session = thinflow.Session(path, engine=engine)
    return list(session.run(list(session.outputs), dict(zip(session.inputs, fed, strict=True))))


def _lifted(path: Path) -> Any:
    import thinflow
    from thinflow.analysis.shapes import infer_shapes

    graph = thinflow.load(path)
    if not graph.vocabulary:
        return graph
    from thinflow.lift.graphs import lift

    lifted = lift(graph)
    infer_shapes(lifted)
    return lifted


def _through(suffix: str, engine: str) -> Callable[[Path, Sequence[Any]], list[Any]]:
    def road(path: Path, fed: Sequence[Any]) -> list[Any]:
        import thinflow

        target = path.with_name(f"written{suffix}")
        thinflow.save(_lifted(path), target)
        return _by_session(target, engine, fed)

    return road


ROADS: dict[str, Callable[[Path, Sequence[Any]], list[Any]]] = {
    "reference": lambda path, fed: _by_session(path, "reference", fed),
    "onnxruntime": lambda path, fed: _by_session(path, "onnxruntime", fed),
    "tflite": _through(".tflite", "litert"),
    "onnx": _through(".onnx", "onnxruntime"),
    "pb": _through(".pb", "reference"),
}


def judge(case: Case, road: str) -> Verdict:
    """Take a case along a road, in this process."""
    from thinflow.errors import ThinflowError

    def verdict(state: str, why: str = "") -> Verdict:
        return Verdict(case.name, case.kind, case.op, state, why)

    with tempfile.TemporaryDirectory(prefix="onnx-suite-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            results = ROADS[road](path, case.inputs)
        except ThinflowError as error:
            return verdict("refused", f"{error.problem} [{error.where}]".replace(folder, ""))
        except Exception as error:
            return verdict("crash", f"{type(error).__name__}: {error}"[:300])
    return verdict(*_compared(results, case))


def _compared(results: Sequence[Any], case: Case) -> tuple[str, str]:
    if len(results) != len(case.outputs):
        return "wrong", f"{len(results)} outputs for {len(case.outputs)}"
    for place, (given, expected) in enumerate(zip(results, case.outputs, strict=True)):
        if given.shape != expected.shape or _dtype(given) != _dtype(expected):
            told = f"{given.dtype}{list(given.shape)} for {expected.dtype}{list(expected.shape)}"
            return "wrong", f"output {place} is {told}"
        if expected.dtype.kind in "OSUT":
            same = [_text(x) for x in given.ravel()] == [_text(x) for x in expected.ravel()]
        else:
            plain = [x.astype(np.float64) if x.dtype.kind not in "biuc" else x for x in (given, expected)]
            # onnx's tolerance is finer than a rounding of these types. One in the middle and one at the
            # end are free: softmax and products are computed in wider types, or not.
            rtol = max(case.rtol, _TWO_ROUNDINGS.get(_dtype(expected), 0.0))
            atol = max(case.atol, _rounding(expected))
            same = np.allclose(plain[0], plain[1], rtol, atol, equal_nan=True)
        if not same:
            return "wrong", f"output {place} differs"
    return "right", ""


def _rounding(expected: Any) -> float:
    """How far from zero a sum may be that is zero, by the largest of the float32 numbers beside it."""
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0) if expected.dtype == np.float32 else 0
    return float(largest) * 2.0**-24


def _dtype(array: Any) -> str:
    return "string" if array.dtype.kind in "OSUT" else str(array.dtype)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def in_child(case: Case, road: str) -> Verdict:
    """As `judge`, in a forked child with limits, so that a crash or a hang is a verdict as well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = json.dumps(asdict(judge(case, road)))
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told_back = pipe.read()
    _, status = os.waitpid(child, 0)
    if not told_back:
        return Verdict(case.name, case.kind, case.op, "crash", f"ended with status {status}")
    return Verdict(**json.loads(told_back))


def run(road: str, *, bake: bool, pattern: str = "*", jobs: int = 1) -> list[Verdict]:
    """Every case that fits a pattern, along a road."""
    # What is loaded here, children have for nothing.
    for case in cases("test_relu"):
        judge(case, "pb" if road == "reference" else road)
    chosen = [baked(c) if bake else c for c in cases(pattern)]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda c: in_child(c, road), chosen))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.onnx_suite", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--road", choices=sorted(ROADS), default="reference")
    parser.add_argument("--bake", action="store_true", help="small fed operands become initializers")
    parser.add_argument("--only", default="*", help="cases of such names: resize, or a pattern with *")
    parser.add_argument("--cases", action="store_true", help="a line for each case that is not right")
    parser.add_argument("--ops", action="store_true", help="a table by op")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    pattern = args.only if "*" in args.only else f"*{args.only}*"
    verdicts = run(args.road, bake=args.bake, pattern=pattern, jobs=args.jobs)
    if args.cases:
        for v in verdicts:
            if v.state != "right":
                print(f"{v.state:8} {v.name:60} {v.why}")
    if args.ops:
        _print_table(verdicts, lambda v: v.op)
    _print_table(verdicts, lambda v: v.kind)
    return 0


def _print_table(verdicts: Sequence[Verdict], key: Callable[[Verdict], str]) -> None:
    states = ("right", "refused", "wrong", "crash")
    print(f"{'':44}" + "".join(f"{s:>9}" for s in states))
    for name in [*sorted({key(v) for v in verdicts}), ""]:
        counts = Counter(v.state for v in verdicts if name in ("", key(v)))
        print(f"{name or 'all':44}" + "".join(f"{counts[s]:>9}" for s in states))


if __name__ == "__main__":
    sys.exit(main())
