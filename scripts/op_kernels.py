"""Writes src/thinflow/data/kernels-RELEASE.txt.gz from an installed TensorFlow.

    python scripts/op_kernels.py

A line is an op, the attributes that choose a kernel for the CPU, and the C++ class TensorFlow registers it
with, with tabs between. These classes are what a build with selective registration names. They change with
every release.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What runs anywhere, NextIteration and Assert among it, is registered for no device in particular.
_DEVICES = ("CPU", "DEFAULT")
FOLDER = Path(__file__).parents[1] / "src" / "thinflow" / "data"


def kernels() -> Iterator[tuple[str, str, str]]:
    """Op, constraints as `T=float,Tidx=int32`, and class, sorted."""
    from tensorflow.core.framework import node_def_pb2
    from tensorflow.python.framework import kernels as registry
    from tensorflow.python.util import _pywrap_kernel_registry as finder

    found = set()
    for kernel in registry.get_all_registered_kernels().kernel:
        if kernel.device_type not in _DEVICES or kernel.label:
            continue
        names = [c.name for c in kernel.constraint]
        choices = [list(c.allowed_values.list.type) for c in kernel.constraint]
        for types in itertools.product(*choices):
            node = node_def_pb2.NodeDef(name="n", op=kernel.op, device="/cpu:0")
            for name, number in zip(names, types, strict=True):
                node.attr[name].type = number
            try:
                kind = finder.TryFindKernelClass(node.SerializeToString())
            except Exception:
                continue
            if kind:
                text = ",".join(f"{n}={_name(t)}" for n, t in zip(names, types, strict=True))
                found.add((kernel.op, text, kind.decode() if isinstance(kind, bytes) else kind))
    yield from sorted(found)


def _name(number: int) -> str:
    from tensorflow.python.framework import dtypes

    return str(dtypes.as_dtype(number).name)


def main() -> None:
    """Write the file of this release."""
    import tensorflow

    rows: list[Any] = list(kernels())
    release = ".".join(tensorflow.__version__.split(".")[:2])
    text = "".join("\t".join(row) + "\n" for row in rows)
    path = FOLDER / f"kernels-{release}.txt.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{path.name}: {len(rows)} kernels, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
