"""Writes every kind of file from many models, and prints what each hashes to: behaviour, byte for byte.

    python scripts/artefacts.py > before.txt            # before a change that must change nothing
    python scripts/artefacts.py --compare before.txt    # after it: prints what changed, exit code 1 then

The models are the zoo's, and of ../shared (or THINFLOW_SHARED) those in `models` and `zoo` and a hundred
graphs of `conformance`, always the same ones. Of each: the graph after the pipelines `float` and `eight_bit`,
a LiteRT model in float, int8 and int16x8, an ONNX model in float and int8. What cannot be made has its
refusal as its line, since that is behaviour, too. Ranges are measured by LiteRT, whose kernels go by the
processor: compare on one machine.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFORMANCE = 100
"""How many of the conformance graphs are taken, evenly spread over their names."""
SAMPLES = 4
"""Calibration samples: a hash needs no good ranges, only the same ones."""
SUFFIXES = (".pb", ".onnx", ".tflite", ".h5", ".hdf5", ".keras")
SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "models/pose_v2s": {"image": (1, 96, 96, 3)},
    "models/unrolled_gru": {"X": (1, 784)},
}
"""Sizes for inputs that a model leaves open and that its ranges depend on."""
Source = str | None
"""Path of a model; None for one of the zoo, which is built."""


def sources(shared: Path) -> dict[str, Source]:
    """Name -> path of all models there are, None for those that are built; sorted by name."""
    from thinflow import zoo

    found: dict[str, Source] = {f"zoo/{name}": None for name in zoo.names()}
    for folder, prefix in ((shared / "models", "models"), (shared / "zoo", "files")):
        for path in folder.rglob("*"):
            if path.suffix in SUFFIXES and path.name != "saved_model.pb":
                found[f"{prefix}/{path.relative_to(folder).as_posix().removesuffix('.pb')}"] = str(path)
            elif path.name == "saved_model.pb":
                found[f"{prefix}/{path.parent.relative_to(folder).as_posix()}"] = str(path.parent)
    graphs = sorted((shared / "conformance").glob("*.pb"))
    chosen = {graphs[i * len(graphs) // CONFORMANCE] for i in range(CONFORMANCE)} if graphs else set()
    found |= {f"conformance/{path.stem}": str(path) for path in chosen}
    return dict(sorted(found.items()))


def lines_of(name: str, source: Source, folder: Path) -> list[str]:
    """One line for each artefact of a model: its name, and the hash of the file or why there is none.

    Args:
        folder: where the files are written.
    """
    import thinflow

    warnings.simplefilter("ignore")  # of overflows in made-up numbers
    stem = folder / name
    stem.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for suffix, make in _makers(name, source).items():
        target = Path(f"{stem}{suffix}")
        try:
            result = _hash_of(make(target))
        except thinflow.ThinflowError as error:
            result = f"{type(error).__name__}: {' '.join(error.problem.split())}"
        except Exception as error:  # a mistake of ours; the other models are to be seen all the same
            traceback.print_exc()
            result = f"CRASHED with {type(error).__name__}"
        place = str(Path(source).parent) if source else "zoo"
        lines.append(f"{name}{suffix}  {result.replace(str(folder), 'OUT').replace(place, '')}")
    return lines


def _makers(name: str, source: Source) -> dict[str, Callable[[Path], Path]]:
    """Ending of an artefact -> what writes it and tells where: a part of a model has another name."""
    import thinflow
    from thinflow import zoo
    from thinflow.api import convert_verified

    own = name.partition("/")[2]
    model: Any = zoo.build(own) if source is None else source
    shapes = SHAPES.get(name)

    def transformed(pipeline: str) -> Callable[[Path], Path]:
        def make(target: Path) -> Path:
            thinflow.save(thinflow.transform(model, pipeline, shapes=shapes, verify=False), target)
            return target

        return make

    def converted(target: Path) -> Path:
        return Path(convert_verified(model, target, verify=False, shapes=shapes).path)

    def quantized(scheme: str, runtime: str = "tflite") -> Callable[[Path], Path]:
        def make(target: Path) -> Path:
            samples = zoo.calibration(own, SAMPLES) if source is None else _samples(model, shapes)
            made = thinflow.quantize(model, samples, scheme=scheme, format=runtime, shapes=shapes)
            target.write_bytes(made.content)
            return target

        return make

    return {
        "_float.pb": transformed("float"),
        "_eight_bit.pb": transformed("eight_bit"),
        ".tflite": converted,
        ".onnx": converted,
        "_int8.tflite": quantized("int8"),
        "_int16x8.tflite": quantized("int16x8"),
        "_int8.onnx": quantized("int8", "onnx"),
    }


def _samples(model: str, shapes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Made-up feeds, the same every time."""
    from thinflow.load.graphs import load_for_inference
    from thinflow.synthetic import synthetic_feeds

    graph, _ = load_for_inference(model, shapes=shapes)
    return [{v.name: x for v, x in feed.items()} for feed in synthetic_feeds(graph.inputs, SAMPLES, 0)]


def _hash_of(path: Path) -> str:
    """SHA-256 of a file, of which weights beside it are a part."""
    digest = hashlib.sha256()
    for part in (path, Path(f"{path}.data")):
        if part.exists():
            digest.update(part.read_bytes())
    return digest.hexdigest()


def all_lines(found: Mapping[str, Source], folder: Path, jobs: int) -> list[str]:
    """The lines of all models, sorted; `jobs` processes share the work."""
    if jobs == 1:
        return sorted(line for name, source in found.items() for line in lines_of(name, source, folder))
    lines: list[str] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(lines_of, *item, folder): item[0] for item in found.items()}
        for done, future in enumerate(as_completed(running), 1):
            print(f"{done}/{len(running)} {running[future]}", file=sys.stderr)
            lines += future.result()
    return sorted(lines)


def differences(before: Iterable[str], after: Iterable[str], names: Sequence[str] | None) -> list[str]:
    """What changed, as `-` and `+` lines sorted by name; of the old ones only those of `names`, if given."""
    kept = (dict(line.split("  ", 1) for line in lines if line.strip()) for lines in (before, after))
    old, new = kept
    if names is not None:
        old = {name: value for name, value in old.items() if _model_of(name, names)}
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [
        f"{sign} {name}  {side[name]}"
        for name in changed
        for sign, side in (("-", old), ("+", new))
        if name in side
    ]


def _model_of(artefact: str, names: Sequence[str]) -> bool:
    endings = (
        "_float.pb",
        "_eight_bit.pb",
        "_int8.tflite",
        "_int16x8.tflite",
        "_int8.onnx",
        ".tflite",
        ".onnx",
    )
    return any(artefact == name + ending for name in names for ending in endings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the hashes, or what is different; 1 if something is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compare", metavar="OLD.txt", type=Path, help="what an earlier run printed")
    parser.add_argument(
        "--only", metavar="PATTERN", action="append", help="of the models: 'zoo/*', 'models/kws*'"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes; each holds a model (default 1)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="keep the files there; default: nowhere")
    parser.add_argument("--list", action="store_true", help="only print the names of the models")
    given = parser.parse_args(arguments)
    shared = Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared")
    everything = sources(shared)
    found = {
        name: path
        for name, path in everything.items()
        if not given.only or any(fnmatch.fnmatchcase(name, pattern) for pattern in given.only)
    }
    if not found:
        parser.error(f"there is no such model: {' '.join(given.only)}")
    if given.list:
        print("\n".join(found))
        return 0
    before = given.compare.read_text("utf-8").splitlines() if given.compare else None
    with tempfile.TemporaryDirectory() as scratch:
        lines = all_lines(found, given.out or Path(scratch), given.jobs)
    if before is None:
        print("\n".join(lines))
        return 0
    changed = differences(before, lines, list(found) if given.only else None)
    print("\n".join(changed) if changed else f"all {len(lines)} artefacts are as they were")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
