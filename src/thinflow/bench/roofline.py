"""The peak of this machine, measured: the rate of operations in matrix products.

A product of two square matrices has so much work for its bytes that memory does not matter, and every engine
has its best kernel for it. What a model reaches of that rate says how much there is left to gain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError

SIZES = (256, 512, 1024)
"""Rows and columns. The small ones stay in a core's own cache, and end before another program gets the core:
on busy machines they reach twice the rate of the large one, which many threads need to have enough to do."""
_SECONDS = 0.06
_FEWEST = 3
_TRIES = 3
FLOAT, EIGHT_BIT = "float32", "int8"


@dataclass(frozen=True)
class Peak:
    """The fastest matrix product.

    Attributes:
        kind: "float32" or "int8".
        rate: operations a second; a multiplication and an addition are two.
        by: what computed it.
    """

    kind: str
    threads: int
    rate: float
    by: str

    def __str__(self) -> str:
        count = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        rate, unit = self.rate / 1e9, "GFLOP/s" if self.kind == FLOAT else "GOP/s"
        digits = f"{rate:.0f}" if rate >= 99.5 else f"{rate:.3g}"
        return f"{digits} {unit} in {self.kind} on {count}, a matrix product by {self.by}"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": self.kind, "threads": self.threads, "operations_per_second": self.rate, "by": self.by}


def peak(kind: str, threads: int, engines: Collection[str], at_least: float = 0.0) -> Peak | None:
    """The best of numpy's matrix library (float32 only) and the given engines; measured once a process.

    More threads are no less than one: on a machine that is busy they may seem to be.

    Args:
        kind: "float32" or "int8".
        engines: their names; those that have no such product, or are not installed, are left out.
        at_least: operations a second that were seen; where the peak is below, it is measured again.
    """
    candidates = [*(["numpy"] if kind == FLOAT else []), *(e for e in engines if e in _PRODUCTS)]
    # One thread is a setting of each comparison: it is a lower bound for any number.
    settings = [(kind, count, by) for count in sorted({1, threads}) for by in candidates]
    if not settings:
        return None
    tries = 0
    # Nothing can be faster than the peak: it was measured while something else kept the machine busy.
    while max(_rate(*setting) for setting in settings) < at_least and tries < _TRIES:
        tries += 1
        for setting in settings:
            _rates[setting] = max(_rates[setting], _measured(*setting))
    best = max(settings, key=lambda setting: _rate(*setting))
    return Peak(kind, threads, _rate(*best), best[2]) if _rate(*best) else None


_rates: dict[tuple[str, int, str], float] = {}
"""Kind, threads and who -> operations a second, as measured in this process; 0 if it cannot be had."""


def _rate(kind: str, threads: int, by: str) -> float:
    setting = kind, threads, by
    if setting not in _rates:
        _rates[setting] = _measured(kind, threads, by)
    return _rates[setting]


def _measured(kind: str, threads: int, by: str) -> float:
    try:
        if by == "numpy":
            return max(_numpy_rate(threads, size) for size in SIZES)
        return max(_operations(size) / _shortest(_PRODUCTS[by](kind, threads, size)) for size in SIZES)
    except (ThinflowError, ImportError):
        return 0.0


def _operations(size: int) -> int:
    """A multiplication and an addition for each row, column and place within them."""
    return 2 * size**3


def _shortest(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs: what disturbs a run only makes it slower."""
    run()
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < _FEWEST or time.perf_counter() - started < _SECONDS:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    # Not the median, as for models: what the machine can do at most is wanted.
    return min(times)


def _matrix(kind: str, size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    if kind == FLOAT:
        return rng.uniform(-1, 1, (size, size)).astype(np.float32)
    return rng.integers(-127, 128, (size, size)).astype(np.int8)


def _numpy_rate(threads: int, size: int) -> float:
    from thinflow.engines._threads import blas

    a, b = _matrix(FLOAT, size), _matrix(FLOAT, size).T.copy()
    # Made before, so that no run pays for fresh memory.
    out = np.empty_like(a)
    with blas().limited(threads):
        return _operations(size) / _shortest(lambda: np.matmul(a, b, out=out))


def _litert_product(kind: str, threads: int, size: int) -> Callable[[], object]:
    """A fully connected layer without its copies."""
    from thinflow.engines.litert import Model
    from thinflow.ir.types import FLOAT as FLOAT32
    from thinflow.ir.types import INT8
    from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
    from thinflow.tflite.writer import to_bytes

    def tensor(name: str, scale: float, data: np.ndarray[Any, Any] | None = None) -> Tensor:
        grid = (
            Quantization(np.array([scale], np.float32), np.zeros(1, np.int64)) if kind == EIGHT_BIT else None
        )
        return Tensor(name, (size, size), FLOAT32 if kind == FLOAT else INT8, data, grid)

    # Scales that the kernel accepts; what the numbers mean does not matter here. The weights are [outputs,
    # inputs].
    x, w, y = tensor("x", 1 / 128), tensor("w", 1 / 128, _matrix(kind, size)), tensor("y", size / 1024)
    layer = Operator("FULLY_CONNECTED", [x, w, None], [y], {"keep_num_dims": False})
    model = Model(to_bytes(Program([Subgraph([x], [y], [layer])])), threads=threads)
    model.run([_matrix(kind, size)])
    invoke: Callable[[], object] = model.interpreter.invoke
    return invoke


def _onnxruntime_product(kind: str, threads: int, size: int) -> Callable[[], object]:
    """A product with constant weights; unsigned by signed, as eight-bit convolutions are."""
    from thinflow.engines.onnxruntime import Model
    from thinflow.ir.types import FLOAT as FLOAT32
    from thinflow.ir.types import INT8, INT32, UINT8
    from thinflow.onnx.program import Operator, Program, Tensor
    from thinflow.onnx.writer import to_bytes

    floats, shape = kind == FLOAT, (size, size)
    x = Tensor("x", shape, FLOAT32 if floats else UINT8)
    w = Tensor("w", shape, FLOAT32 if floats else INT8, _matrix(kind, size))
    y = Tensor("y", shape, FLOAT32 if floats else INT32)
    step = Operator("MatMul" if floats else "MatMulInteger", [x, w], [y])
    model = Model(to_bytes(Program([x], [y], [step])), threads=threads)
    fed = _matrix(kind, size) if floats else _matrix(kind, size).view(np.uint8)
    return lambda: model.run([fed])


_PRODUCTS: dict[str, Callable[[str, int, int], Callable[[], object]]] = {
    "litert": _litert_product,
    "onnxruntime": _onnxruntime_product,
}
