"""Keras models: .keras archives, such as a folder, and HDF5 files of Keras 1 to 3.

They are read without Keras: see `thinflow.keras`. The graph is in TensorFlow's ops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from thinflow.formats.format import Format, Sample
from thinflow.ir.graph import Graph


def load(path: str | os.PathLike[str], custom_layers: Mapping[str, object] | None = None) -> Graph:
    """The graph of a Keras model; see `thinflow.keras.reading.load`."""
    # Late, as it needs numpy.
    from thinflow.keras import reading

    return reading.load(path, custom_layers)


def import_layers() -> None:
    """Import what says what layers compute, which `load` does when it is needed: for who forks many times."""
    from thinflow.keras.registry import registry

    for table in (registry().layers, registry().operations):
        len(table)


def _recognise(sample: Sample) -> bool:
    from thinflow.keras import files

    if sample.is_folder:
        return files.is_folder(sample.path)
    if sample.head.startswith(files.HDF5_MAGIC):
        return True
    if files.is_list(sample.path, sample.head):
        return True
    return sample.head.startswith(files.ZIP_MAGIC) and files.is_archive(sample.path)


FORMAT = Format(
    name="keras",
    title="a Keras model",
    recognise=_recognise,
    load=load,
    options={"custom_layers": "functions for custom classes and Lambda layers"},
    rank=15,
    framework="Keras",
)
