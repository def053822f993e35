"""Damaged files of every kind that stands beside variables: a typed error or a model, and soon."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import thinflow
from tests.checkpoints import V1_VALUES, read_all, v1_entries, write_table
from tests.formats.chunked import write_chunked
from tests.formats.damage import FILES, MOST_SECONDS, damaged
from tests.load.builders import (
    SIGNATURE,
    VALUES,
    meta_text,
    product,
    reference,
    saver,
    write_model,
    write_values,
)
from thinflow.errors import ThinflowError
from thinflow.formats import memmapped, metagraph, savedmodel
from thinflow.formats.checkpoint import open_checkpoint
from thinflow.formats.memmapped import write as write_package
from thinflow.wire import protos
from thinflow.zoo import digits

WHOLE_EVERY = 10
"""Every so many damaged files the model is opened whole, its variables frozen, its numbers read."""


@dataclass
class Kind:
    """A sound file, how to read it alone, and how to open all it belongs to."""

    path: Path
    read: Callable[[], object]
    open: Callable[[], object]


def version_1(folder: Path) -> Kind:
    path = write_table(folder / "model.ckpt-7", v1_entries(V1_VALUES))
    return Kind(path, lambda: open_checkpoint(path).names(), lambda: read_all(open_checkpoint(path)))


def index(folder: Path) -> Kind:
    write_model(folder / "m", meta_text(product(), signatures=SIGNATURE), values=VALUES)
    path = folder / "m" / "variables" / "variables.index"
    return Kind(path, lambda: read_all(open_checkpoint(path)), lambda: _numbers(thinflow.load(folder / "m")))


def meta(folder: Path, *, text: bool = False) -> Kind:
    """A MetaGraph of a saver: restore operations, a SaverDef, collections; a checkpoint beside it."""
    nodes = [*product(), reference("v", 3), *saver(("w", "w", ""), ("v", "v", "3 0,3"))]
    more = """saver_def { filename_tensor_name: 'save/Const:0' restore_op_name: 'save/restore_all' }
        collection_def { key: 'variables' value { bytes_list { value: '\\n\\001w' } } }"""
    message = protos.from_text("MetaGraphDef", meta_text(nodes, signatures=SIGNATURE, more=more).encode())
    write_values(folder / "m", VALUES)
    path = folder / "m.meta"
    path.write_bytes(str(message).encode() if text else protos.serialize(message))
    return Kind(path, lambda: metagraph.read(path).signatures, lambda: _numbers(thinflow.load(path)))


def meta_as_text(folder: Path) -> Kind:
    return meta(folder, text=True)


def package(folder: Path) -> Kind:
    path = folder / "m.mmap"
    write_package(digits.build(0), path, min_bytes=20_000)
    return Kind(path, lambda: memmapped.load(path), lambda: _numbers(thinflow.load(path)))


def chunks(folder: Path) -> Kind:
    write_model(folder / "m", meta_text(product(), signatures=SIGNATURE), values=VALUES)
    plain = folder / "m" / "saved_model.pb"
    path = write_chunked(folder / "m", protos.parse("SavedModel", plain.read_bytes()))
    plain.unlink()
    return Kind(path, lambda: savedmodel.read(path), lambda: _numbers(thinflow.load(folder / "m")))


KINDS = [chunks, version_1, index, meta, meta_as_text, package]


def _numbers(graph: thinflow.Graph) -> None:
    for node in graph:
        if node.tensor is not None and node.tensor.dtype.itemsize:
            node.tensor.numpy()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_samples_are_sound(kind: Callable[[Path], Kind], tmp_path: Path) -> None:
    sample = kind(tmp_path)
    sample.read()
    sample.open()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_many_damaged_files(kind: Callable[[Path], Kind], tmp_path: Path) -> None:
    sample = kind(tmp_path)
    raw = sample.path.read_bytes()
    rng = random.Random(11)
    worst, refused = 0.0, 0
    for number in range(FILES):
        sample.path.write_bytes(_damaged(raw, rng, number))
        begin = time.perf_counter()
        try:
            sample.read()
            if number % WHOLE_EVERY == 0:
                sample.open()
        except ThinflowError:
            refused += 1  # any other exception fails the test
        worst = max(worst, time.perf_counter() - begin)
    assert refused > 0
    assert worst < MOST_SECONDS


def _damaged(raw: bytes, rng: random.Random, number: int) -> bytes:
    """Damage of the common kind; every fourth file is cut off instead, and a large one often at its end."""
    if number % 4 == 0:
        return raw[: rng.randrange(1, len(raw))]
    if len(raw) > 4096 and number % 4 == 1:
        return raw[:-4096] + damaged(raw[-4096:], rng)
    return damaged(raw, rng) or b"\0"
