"""The test set of the digits model in every kind of file."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from thinflow import zoo
from thinflow.ir.types import FLOAT, INT64
from thinflow.ops._example import example_bytes
from thinflow.typing import Array
from thinflow.wire.tfrecord import framed


def digits(count: int) -> tuple[Array, Array]:
    """float32 [count, 8, 8, 1] pictures and their labels; over and over, where more are wanted than there
    are.
    """
    data = zoo.test_set("digits")
    places = np.arange(count) % len(data["labels"])
    return data["image"][places], data["labels"][places]


def tfrecord_bytes(images: Array, labels: Array) -> bytes:
    """Framed Examples with the features `image` and `label`."""
    examples = (
        example_bytes([(b"image", FLOAT, image.reshape(-1).tolist()), (b"label", INT64, [int(label)])])
        for image, label in zip(images, labels, strict=True)
    )
    return b"".join(bytes(part) for one in examples for part in framed([one]))


def snappy_bytes(content: bytes, block: int = 1000) -> bytes:
    """Blocks of literals alone, which Snappy allows, each with its length in front."""
    found = b""
    for start in range(0, len(content), block):
        piece = content[start : start + block]
        packed = _varint(len(piece)) + bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
        found += len(packed).to_bytes(4, "big") + packed
    return found


def _varint(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7]) if value > 127 else bytes([value])


def npy_bytes(array: Array) -> bytes:
    """The content of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_tar(path: Path, images: Array, labels: Array) -> None:
    """A WebDataset tar with members of .npy and .cls."""
    with tarfile.open(path, "w") as archive:
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            for suffix, content in (("npy", npy_bytes(image)), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"test/{number:06}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_folders(path: Path, images: Array, labels: Array) -> None:
    """A folder for each class."""
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (path / str(label)).mkdir(parents=True, exist_ok=True)
        np.save(path / str(label) / f"{number:04}.npy", image)


def write_table(path: Path, rows: Sequence[Sequence[object]]) -> None:
    """A CSV."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_all(folder: Path, count: int) -> dict[str, str]:
    """Kind -> path of the same samples, in the same order but for folders."""
    images, labels = digits(count)
    plain = tfrecord_bytes(images, labels)
    (folder / "plain.tfrecord").write_bytes(plain)
    (folder / "gzip.tfrecord").write_bytes(gzip.compress(plain))
    (folder / "zlib.tfrecord").write_bytes(zlib.compress(plain))
    (folder / "snappy.tfrecord").write_bytes(snappy_bytes(plain))
    np.savez(folder / "plain.npz", image=images, labels=labels)
    np.savez_compressed(folder / "packed.npz", image=images, labels=labels)
    write_tar(folder / "data.tar", images, labels)
    half = count // 2
    write_tar(folder / "part-0.tar", images[:half], labels[:half])
    write_tar(folder / "part-1.tar", images[half:], labels[half:])
    write_folders(folder / "classes", images, labels)
    flat = images.reshape(count, -1)
    header = ["label", *(f"image_{n}" for n in range(flat.shape[1]))]
    write_table(
        folder / "numbers.csv", [header, *([n, *row.tolist()] for n, row in zip(labels, flat, strict=True))]
    )
    rows = [[f"classes/{label}/{n:04}.npy", label] for n, label in enumerate(labels)]
    write_table(folder / "paths.csv", [["path", "label"], *rows])
    write_table(folder / "bare.csv", rows)
    names = ["plain.tfrecord", "gzip.tfrecord", "zlib.tfrecord", "snappy.tfrecord", "plain.npz", "packed.npz"]
    names += ["data.tar", "part-*.tar", "part-{0..1}.tar", "classes", "numbers.csv", "paths.csv", "bare.csv"]
    return {name: str(folder / name) for name in names}
