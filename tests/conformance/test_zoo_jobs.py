"""Real .tflite and .onnx files through every job, beside the stored answers of their own runtimes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.conformance.zoo import STEPS, distance
from tests.night import some
from thinflow.api import convert_verified
from thinflow.cli import main
from thinflow.ir.types import FLOAT

pytest.importorskip("onnxruntime")
ROOT = Path(os.environ.get("THINFLOW_SHARED") or Path(__file__).resolve().parents[3] / "shared")
FILES = sorted((ROOT / "zoo").glob("tflite/*.tflite")) + sorted((ROOT / "zoo").glob("onnx/*.onnx"))
BECOMES = some([(f, suffix) for f in FILES for suffix in (".tflite", ".onnx")], 3)
OPTIMIZED = some(FILES, 2)

CODES = 5
"""By so many a file of the same scales may be off: the integer kernels of both round in ways of their own."""


def answers_of(file: Path) -> tuple[dict[str, np.ndarray], dict[str, list[np.ndarray]]]:
    """The stored inputs, and for each output the answers that are right."""
    with np.load(file.with_suffix(".npz")) as stored:
        arrays = {key: stored[key] for key in stored.files}
    feeds = {key[3:]: x for key, x in arrays.items() if key.startswith("in:")}
    names = [key[4:] for key in arrays if key.startswith("out:")]
    return feeds, {n: [arrays[k] for k in (f"out:{n}", f"ref-out:{n}") if k in arrays] for n in names}


def shapes_of(file: Path) -> dict[str, tuple[int, ...]] | None:
    """Shapes of a file's inputs where more than batches is open: a stored input tells what is meant."""
    inputs, (feeds, _) = thinflow.load(file, lift=False).inputs, answers_of(file)
    is_open = any(v.shape is None or None in v.shape[1:] for v in inputs)
    return {v.name: x.shape for v, x in zip(inputs, feeds.values(), strict=True)} if is_open else None


def require_answers(file: Path, made: Path) -> None:
    """Run what was made on the stored inputs, by position where names were changed to legal ones.

    The float model of a quantized file takes and gives what its codes stand for.
    """
    feeds, answers = answers_of(file)
    own, session = thinflow.Session(file), thinflow.Session(made)
    fed = {}
    for (name, spec), (theirs, x) in zip(session.inputs.items(), feeds.items(), strict=True):
        real = spec.dtype is FLOAT and x.dtype.kind in "iu"
        grid = next(
            (g for n, g in own.grids.items() if n.removesuffix(":0") == theirs.removesuffix(":0")), None
        )
        fed[name] = np.float32((x.astype(np.float64) - grid[1]) * grid[0]) if real and grid is not None else x
    for name, found, right in zip(own.outputs, session.run(None, fed), answers.values(), strict=True):
        if found.dtype.kind == "f" and right[0].dtype.kind in "iu":
            scale, zero = own.grids[name]
            limits = np.iinfo(right[0].dtype)
            found = np.rint(found / scale + zero).clip(limits.min, limits.max).astype(right[0].dtype)
        limit = CODES / STEPS if found.dtype.kind in "iu" else 1
        assert min(distance(found, expected) for expected in right) <= limit


needs_zoo = pytest.mark.skipif(not FILES, reason="no ../shared with real models (or set THINFLOW_SHARED)")


@needs_zoo
@pytest.mark.parametrize(("file", "suffix"), BECOMES, ids=[f"{f.name}-{suffix}" for f, suffix in BECOMES])
def test_a_file_becomes_either_format(file: Path, suffix: str, tmp_path: Path) -> None:
    target = tmp_path / f"made{suffix}"
    # In its own format as well: made anew, and not copied, since somebody says what becomes of state.
    state = "freeze" if suffix == ".onnx" else "auto"
    made = convert_verified(file, target, state=state, strict=True, shapes=shapes_of(file))
    assert f"{file.name} itself" in made.proof
    assert any(note.startswith(f"{file.name} is ") for note in made.notes)
    require_answers(file, target)


@needs_zoo
@pytest.mark.parametrize("file", OPTIMIZED, ids=[f.name for f in OPTIMIZED])
def test_a_file_is_looked_at_and_optimized(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file.name} is a")
    feeds, _ = answers_of(file)

    options = {"measure": False, "strict": True, "shapes": shapes_of(file)}
    report = thinflow.optimize(file, tmp_path / "out", calibration=[named(file, feeds)], **options)
    assert "itself" in " ".join(report.origin)
    require_answers(file, report.files["fp32"])


def named(file: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The feeds by the names of the graph."""
    return {v.name: x for v, x in zip(thinflow.load(file).inputs, feeds.values(), strict=True)}
