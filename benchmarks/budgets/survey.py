"""`thinflow survey`: the reference models, and a made-up collection of 2,000 files."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, figure, judged
from benchmarks.processes import in_turns
from thinflow import save, zoo

TITLE = "`thinflow survey`"
IN_QUICK = False
FILES = 2_000
LIMIT_SECONDS = 60


def measure(bench: Bench) -> Iterator[Line]:
    shared = Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared")
    if shared.is_dir():
        folders = [str(shared / name) for name in ("models", "zoo", "formats")]
        found = json.loads(_survey(bench, *folders))
        models = sum(entry["kind"] == "model" for entry in found["entries"])
        broken = [e["name"] for e in found["entries"] if e["kind"] in ("broken", "failed", "unread")]
        seconds = found["seconds"]
        what = f"{len(found['entries'])} reference files, {models} models: open, run, convert, lint"
        yield judged(what, f"≤ {LIMIT_SECONDS} s", f"{seconds:.0f} s", seconds <= LIMIT_SECONDS)
        yield judged("reference models that do not open", "0", f"{len(broken)}", not broken)
    folder = bench.folder / "collection"
    make_collection(folder, FILES)
    found = json.loads(_survey(bench, str(folder), "--no-lint"))
    kinds = [entry["kind"] for entry in found["entries"]]
    failed = [e["reason"] for e in found["entries"] if e["kind"] == "failed"]
    yield figure(f"made-up collection, {len(kinds):,} things, {found['seconds']:.0f} s", _counted(kinds))
    yield judged("files of it that the look failed on", "0", f"{len(failed)} {failed[:1] or ''}", not failed)


def _survey(bench: Bench, *words: str) -> str:
    (run,) = in_turns({"survey": [*bench.thinflow, "survey", *words, "--json"]}, 1)["survey"]
    return run.output


def _counted(kinds: list[str]) -> str:
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


def make_collection(folder: Path, count: int, seed: int = 0) -> None:
    """A folder of models and of what becomes of models over the years.

    Args:
        folder: is made.
        count: of files.
        seed: of the choice what each is.
    """
    folder.mkdir()
    rng = np.random.default_rng(seed)
    graph = zoo.build("digits")
    sound: dict[str, bytes] = {}
    for suffix in ("pb", "pbtxt", "tflite", "onnx"):
        save(graph, folder / f"digits.{suffix}")
        sound[suffix] = (folder / f"digits.{suffix}").read_bytes()
    suffixes = sorted(sound)
    for number in range(len(sound), count):
        suffix = suffixes[rng.integers(len(suffixes))]
        name, content = _aged(rng, suffix, sound[suffix])
        place = folder / f"team {number % 7}" / f"{number}{name}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)


def _aged(rng: np.random.Generator, suffix: str, content: bytes) -> tuple[str, bytes]:
    """Name and content of a file: a copy, a renamed, cut, damaged or packed model, a text, or a picture."""
    kind = rng.integers(8)
    if kind == 0:
        return f".{suffix}", content
    if kind == 1:
        return "", content
    if kind == 2:
        return f".{suffix}", content[: int(rng.integers(len(content)))]
    if kind == 3:
        damaged = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(len(damaged), size=20)
        damaged[places] = rng.integers(256, size=20)
        return f".{suffix}", damaged.tobytes()
    if kind == 4:
        return ".zip", _zip({f"inner.{suffix}": content, "deep.tar": _tar({f"deepest.{suffix}": content})})
    if kind == 5:
        return ".txt", " ".join(map(str, rng.integers(100, size=50))).encode()
    if kind == 6:
        return f".{suffix}", b"\x89PNG\r\n\x1a\n" + rng.bytes(200)
    return ".bin", rng.bytes(int(rng.integers(1, 5000)))


def _zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
