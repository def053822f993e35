"""Drives thinflow over small networks of all eras beside the real TensorFlow, and prints one table.

    PYTHONPATH=src python -m scripts.eras [--only NAME...] [--jobs N] [--cache FOLDER] [--json FILE] [--list]

Each model (`scripts/eras_models`) is made by TensorFlow, then frozen, transformed, run on every engine,
optimized and converted to .tflite and .onnx. What is compared with TensorFlow's answers are the files that
were written: .pb in TensorFlow itself, .tflite in LiteRT, .onnx in ONNX Runtime, on two inputs of a batch of
one and, where the batch is open, one of three. A cell of the table says

    ok        all outputs, right on all inputs        whole     the same, of a .tflite or .onnx file
    sized     whole, for sizes made up where the model leaves more than the batch open
    fixed     whole, and takes a batch of one only    PARTIAL   other outputs than the model's, and called so
    uncalled  other outputs, and not called so        refused   a clear error, nothing written
    core      all outputs, behind a front of text or decoding that the app does, and that is told
    pb        optimize wrote the graph alone          -         not asked for, or what it needs is missing
    WRONG     other answers                           NOLOAD    TensorFlow cannot load what was written
    NORUN     it loads, and running it fails          CRASH     an exception that is no ThinflowError
    TIME      longer than --limit

Those in capitals, PARTIAL aside, and `uncalled` are failures, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COLUMNS = (
    "freeze",
    "transform",
    "auto",
    "reference",
    "litert",
    "onnxruntime",
    "optimize",
    "tflite",
    "onnx",
    "verify",
)
FAILURES = ("WRONG", "NOLOAD", "NORUN", "CRASH", "TIME", "uncalled")
ENGINES = ("auto", "reference", "litert", "onnxruntime")
LIMIT_SECONDS = 180.0
EXAMPLES = 2
"""Made-up samples for `optimize`."""

Step = Callable[[Any, Path], "Cell"]


@dataclass
class Cell:
    """What came of one step: a word of the table, and why."""

    word: str
    why: str = ""


@dataclass
class Row:
    """What came of one model."""

    name: str
    cells: dict[str, Cell] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        return [step for step, cell in self.cells.items() if cell.word in FAILURES]


class Unlike(Exception):
    """Answers that are not TensorFlow's, or none: the word for the table, and why."""

    def __init__(self, word: str, why: str) -> None:
        super().__init__(why)
        self.word = word


# --- comparing ---


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float) -> str:
    """The first output that differs and by how much; "" if none. Floats of other widths count as equal."""
    import numpy as np

    for name, expected in wanted.items():
        if name not in found:
            return f"{name} is missing"
        actual = np.asarray(found[name])
        if actual.shape != expected.shape:
            return f"{name} has shape {list(actual.shape)}, not {list(expected.shape)}"
        if expected.dtype.kind in "OSU":
            if actual.ravel().tolist() != expected.ravel().tolist():
                return f"{name} has other texts"
            continue
        a, b = actual.astype(np.complex128), expected.astype(np.complex128)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"{name} has other places without finite numbers"
        off = float(np.abs(np.where(np.isfinite(b), a - b, 0)).max(initial=0))
        largest = float(np.abs(np.where(np.isfinite(b), b, 0)).max(initial=0))
        limit = tolerance * max(largest, 1e-3) if expected.dtype.kind not in "iub" else 0
        if off > limit:
            return f"{name} is off by {off:.2g} of {largest:.2g}"
    return ""


def compared(made: Any, run: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> str:
    """ "whole" if all answers are right, "fixed" if a batch of three is not taken.

    Raises:
        Unlike: other answers, or a failure at a batch of one.
    """
    for number, (feeds, wanted) in enumerate(zip(made.feeds, made.answers, strict=True)):
        try:
            found = run(feeds)
        except Unlike:
            raise
        except Exception as error:
            if number == 2 and made.is_open:
                return "fixed"
            raise Unlike("NORUN", f"input {number}: {_first_line(error)}") from error
        off = differing(found, wanted, made.tolerance)
        if off:
            raise Unlike("WRONG", f"input {number}: {off}")
    return "whole"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}"


# --- the runtimes that the files are for ---


def in_tensorflow(path: Path, made: Any) -> Cell:
    """A .pb, loaded and run by the real TensorFlow."""
    import tensorflow as tf

    from scripts.eras_models.making import running

    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    missing = _missing(made, [n.name for n in graph_def.node])
    if missing:
        return Cell("WRONG", f"no node {missing}")
    with contextlib.ExitStack() as stack:
        try:
            run = stack.enter_context(running(graph_def, list(made.answers[0])))
        except Exception as error:
            return Cell("NOLOAD", _first_line(error))
        word = compared(made, run)
    return Cell(
        "NORUN" if word == "fixed" else "ok", "a batch of three is not taken" if word == "fixed" else ""
    )


def _missing(made: Any, names: Sequence[str]) -> str:
    return next((n for n in made.answers[0] if n.split(":")[0] not in names), "")


def tflite_word(path: Path, made: Any) -> tuple[str, str]:
    """What a .tflite file is: whole, fixed or partial, with its foreign ends.

    Raises:
        Unlike: as `compared`.
    """
    from ai_edge_litert.interpreter import Interpreter

    first = Interpreter(str(path), num_threads=1)
    ends = _foreign_ends(
        made, [d["name"] for d in first.get_input_details()], [d["name"] for d in first.get_output_details()]
    )
    if ends:
        return "partial", ends

    def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        interpreter = Interpreter(str(path), num_threads=1)
        details = interpreter.get_input_details()
        for d in details:
            shape = list(feeds[d["name"]].shape)
            if list(d["shape"]) != shape:
                if not _open(d["shape_signature"], shape):
                    _refuse(d["name"], list(d["shape_signature"]), shape)
                interpreter.resize_tensor_input(d["index"], shape, strict=True)
        interpreter.allocate_tensors()
        for d in interpreter.get_input_details():
            x = feeds[d["name"]]
            interpreter.set_tensor(d["index"], x if x.dtype == object else x.astype(d["dtype"]))
        interpreter.invoke()
        return {
            d["name"]: np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()
        }

    return compared(made, run), ""


def _refuse(name: str, declared: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse an input of other sizes than the file's.

    Raises:
        Unlike: sizes behind the batch differ: the model leaves them open, since it is fed so.
        ValueError: the batch does.
    """
    said = f"{name} is {[int(d) for d in declared]} in the file, not {list(shape)}"
    if len(declared) == len(shape) and not _open(declared[1:], shape[1:]):
        raise Unlike("sized", said)
    raise ValueError(said)


def _open(declared: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a file says that it can be given that shape."""
    return len(declared) == len(shape) and all(d in (-1, s) for d, s in zip(declared, shape, strict=True))


def onnx_word(path: Path, made: Any) -> tuple[str, str]:
    """The same of an .onnx file."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), [o.name for o in session.get_outputs()]
    ends = _foreign_ends(made, [i.name for i in inputs], outputs)
    if ends:
        return "partial", ends
    kinds = {
        "float": "f4",
        "double": "f8",
        "float16": "f2",
        "int32": "i4",
        "int64": "i8",
        "bool": "?",
        "uint8": "u1",
    }

    def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
        given = {}
        for i in inputs:
            kind = kinds.get(i.type.removeprefix("tensor(").removesuffix(")"))
            x = feeds[i.name]
            given[i.name] = _as_text(x) if kind is None else np.asarray(x).astype(kind)
        found = session.run(outputs, given)
        return {name: _as_bytes(y) for name, y in zip(outputs, found, strict=True)}

    return compared(made, run), ""


def _as_text(x: Any) -> Any:
    """TensorFlow's bytes as ONNX's text."""
    import numpy as np

    x = np.asarray(x)
    return np.array([bytes(t).decode() for t in x.ravel().tolist()], object).reshape(x.shape)


def _as_bytes(y: Any) -> Any:
    """ONNX's text as TensorFlow's bytes; numbers as they are."""
    import numpy as np

    y = np.asarray(y)
    if y.dtype.kind not in "OU":
        return y
    return np.array([str(t).encode() for t in y.ravel().tolist()], object).reshape(y.shape)


def _foreign_ends(made: Any, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Why a file is not the whole model: outputs it lacks, inputs the model has not. "" if it is."""
    lacking = [n for n in made.answers[0] if n not in outputs]
    inner = [n for n in inputs if n not in made.feeds[0]]
    said = [f"lacks {', '.join(lacking)}"] if lacking else []
    return "; ".join([*said, *([f"asks for {', '.join(inner)}"] if inner else [])])


def judged(path: Path | None, made: Any, look: Callable[[Path, Any], tuple[str, str]], told: str) -> Cell:
    """The cell for a written file.

    Args:
        told: the first line of what was said about it.
    """
    if path is None:
        return Cell("CRASH", "nothing was written, and no error raised")
    try:
        word, why = look(path, made)
    except Unlike as unlike:
        return Cell(unlike.word, str(unlike))
    except Exception as error:
        return Cell("NOLOAD", _first_line(error))
    if word == "partial":
        return Cell(_called(path.name, why, told), why)
    return Cell(word, why)


def _called(name: str, why: str, told: str) -> str:
    if "_part" in name and told.startswith("PARTIAL"):
        return "PARTIAL"
    return "core" if "the app " in told and "lacks" not in why else "uncalled"


# --- what thinflow is asked for ---


def _options(made: Any) -> dict[str, Any]:
    return {} if made.signature is None else {"signature": made.signature}


def freeze(made: Any, folder: Path) -> Cell:
    import thinflow

    path = folder / "frozen.pb"
    thinflow.save(
        thinflow.freeze(made.path, list(made.answers[0]) if made.path.is_file() else None, **_options(made)),
        path,
    )
    return in_tensorflow(path, made)


def transform(made: Any, folder: Path) -> Cell:
    import thinflow

    graph = thinflow.transform(_loaded(made), "float", outputs=list(made.answers[0]))
    thinflow.save(graph, folder / "small.pb")
    return in_tensorflow(folder / "small.pb", made)


def _loaded(made: Any) -> Any:
    import thinflow

    outputs = {"outputs": list(made.answers[0])} if made.path.is_file() else {}
    return thinflow.load(made.path, **outputs, **_options(made))


def run(engine: str) -> Step:
    def step(made: Any, _folder: Path) -> Cell:
        import thinflow

        session = thinflow.Session(_loaded(made), engine=engine)
        names = list(made.answers[0])
        word = compared(made, lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True)))
        return Cell("WRONG", "a batch of three is not taken") if word == "fixed" else Cell("ok")

    return step


def optimize(made: Any, folder: Path) -> Cell:
    import thinflow

    target = folder / "optimized"
    outputs = {"outputs": list(made.answers[0])} if made.path.is_file() else {}
    report = thinflow.optimize(
        made.path, target, measure=False, samples=EXAMPLES, **outputs, **_options(made)
    )
    written = sorted(target.glob("*fp32.tflite"))
    if not written:
        return Cell("pb", "no .tflite")
    return judged(written[0], made, tflite_word, report.lines()[0])


def convert(suffix: str, look: Callable[[Path, Any], tuple[str, str]]) -> Step:
    def step(made: Any, folder: Path) -> Cell:
        from thinflow.api.converting import convert_verified

        outputs = {"outputs": list(made.answers[0])} if made.path.is_file() else {}
        found = convert_verified(made.path, folder / f"converted.{suffix}", **outputs, **_options(made))
        return judged(Path(found.path), made, look, found.verdict or found.proof)

    return step


def verify(made: Any, folder: Path) -> Cell:
    """The whole files that were written beside the model, as `thinflow verify` sees them."""
    import thinflow

    files = [
        p for p in (folder / "small.pb", folder / "converted.tflite", folder / "converted.onnx") if p.exists()
    ]
    if not files:
        return Cell("-")
    for path in files:
        found = thinflow.verify(_loaded(made), path)
        if not found.ok:
            return Cell("differs", path.name)
    return Cell("ok")


STEPS: dict[str, Step] = {
    "freeze": freeze,
    "transform": transform,
    **{engine: run(engine) for engine in ENGINES},
    "optimize": optimize,
    "tflite": convert("tflite", tflite_word),
    "onnx": convert("onnx", onnx_word),
    "verify": verify,
}


def cell_of(step: Step, made: Any, folder: Path) -> Cell:
    """What came of a step, whatever happens in it."""
    from thinflow.errors import ThinflowError

    try:
        return step(made, folder)
    except Unlike as unlike:
        return Cell(unlike.word, str(unlike))
    except ThinflowError as error:
        ours = "please report" in error.hint  # a runtime refuses what thinflow made for it
        return Cell("NORUN" if ours else "refused", _first_line(error))
    except Exception as error:
        return Cell("CRASH", f"{_first_line(error)} at {traceback.extract_tb(error.__traceback__)[-1]}")


# --- one child process for each model ---


def drive(name: str, cache: str, steps: Sequence[str], answer: Any) -> None:
    """Make one model and take all steps; each cell goes into the pipe when it is known."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # its own children end with it
    from scripts.eras_models import all_models
    from scripts.eras_models.making import made

    try:
        model = made(all_models()[name], Path(cache))
    except Exception as error:
        traceback.print_exc()
        answer.send(("make", "CRASH", _first_line(error)))
        return
    with tempfile.TemporaryDirectory(prefix="eras-") as folder:
        for step in steps:
            answer.send((step, "", ""))
            cell = cell_of(STEPS[step], model, Path(folder))
            answer.send((step, cell.word, cell.why))


def driven(name: str, cache: str, steps: Sequence[str], limit_seconds: float) -> Row:
    """The row of one model; a child that dies or takes too long costs the step it was in and those after."""
    row, began = Row(name), time.monotonic()
    context = _context()
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=drive, args=(name, cache, steps, writing))
    child.start()
    writing.close()
    current, word = "make", ""
    with contextlib.suppress(EOFError):
        while reading.poll(max(0.0, began + limit_seconds - time.monotonic())):
            current, word, why = reading.recv()
            if word:
                row.cells[current] = Cell(word, why)
        word = "late"
    if child.is_alive() and word == "late":
        row.cells[current] = Cell("TIME", f"more than {limit_seconds:g} s")
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
    child.join()
    if child.exitcode not in (0, -signal.SIGKILL):
        row.cells[current] = Cell("CRASH", f"the process ended with {child.exitcode}")
    for step in steps:
        row.cells.setdefault(step, Cell("-"))
    row.seconds = time.monotonic() - began
    return row


def _context() -> Any:
    """Children are forked from a server that has imported TensorFlow, which takes seconds."""
    from scripts.eras_models import families

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow", "keras", *families()])
    return context


def rows(
    names: Sequence[str], cache: str, steps: Sequence[str], jobs: int, limit_seconds: float
) -> Iterator[Row]:
    """A row for each model, in order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda name: driven(name, cache, steps, limit_seconds), names)


# --- the table ---


def line_of(row: Row, steps: Sequence[str]) -> str:
    words = [row.cells[step].word[:8].ljust(9) for step in steps]
    if "make" in row.cells:
        words = ["CRASH while it was made: " + row.cells["make"].why]
    verdict = "" if not row.failures else "<-- " + ", ".join(row.failures)
    return f"{row.name:34} {''.join(words)} {row.seconds:5.1f} s  {verdict}".rstrip()


def summary(found: Sequence[Row]) -> str:
    """Counts over all rows."""
    by_step = {step: Counter(r.cells[step].word for r in found if step in r.cells) for step in COLUMNS}
    total = Counter(c.word for r in found for c in r.cells.values())
    wrong, crashes = total["WRONG"], total["CRASH"] + total["TIME"]
    right = sum(not r.failures for r in found)
    unloaded = total["NOLOAD"] + total["NORUN"]
    return (
        f"{len(found)} models, {right} without a failure: {wrong} wrong, {crashes} crashes, "
        f"{unloaded} that do not load or run, {total['uncalled']} partial and not called so; "
        + "; ".join(
            f"{step} " + ", ".join(f"{n} {word}" for word, n in by_step[step].most_common())
            for step in ("tflite", "onnx", "optimize")
            if by_step[step]
        )
    )


def main(given: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="models, or parts of names ending in *"
    )
    p.add_argument("--steps", nargs="+", default=list(COLUMNS), choices=COLUMNS, metavar="STEP")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "thinflow-eras"))
    p.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds for each model")
    p.add_argument("--json", metavar="FILE", help="all cells with their reasons")
    p.add_argument("--list", action="store_true", help="print names only")
    p.add_argument("--reasons", action="store_true", help="say below each row why it is not whole")
    args = p.parse_args(given)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    names = _chosen(args.only)
    if args.list:
        print("\n".join(names))
        return 0
    steps = [s for s in COLUMNS if s in args.steps]
    print(f"{'model':34} {''.join(s[:8].ljust(9) for s in steps)}")
    found = []
    for row in rows(names, args.cache, steps, args.jobs, args.limit):
        found.append(row)
        print(line_of(row, steps), flush=True)
        if args.reasons:
            _print_reasons(row)
    print(summary(found))
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(r) for r in found], indent=1))
    return int(any(r.failures for r in found))


def _print_reasons(row: Row) -> None:
    for step, cell in row.cells.items():
        if cell.why:
            print(f"    {step:12} {cell.word:9} {cell.why}", flush=True)


def _chosen(only: Sequence[str]) -> list[str]:
    import fnmatch

    from scripts.eras_models import all_models

    names = list(all_models())
    unknown = [o for o in only if not fnmatch.filter(names, o)]
    if unknown:
        sys.exit(f"no model is called {', '.join(unknown)}; --list prints the names")
    return [n for n in names if not only or any(fnmatch.fnmatch(n, o) for o in only)]


if __name__ == "__main__":
    sys.exit(main())
