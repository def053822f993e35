"""Nothing of a cluster stays in the process: one with a thread more does not fork, which other tests need."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    utils = sys.modules.get("distributed.utils")
    if utils is None:
        return
    # Dask keeps one for all clusters of a process, and never ends it.
    utils._offload_executor.shutdown()
    utils._offload_executor = ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload")
    end = time.monotonic() + 20
    while time.monotonic() < end and (left := _left()):
        time.sleep(0.1)
    assert not left


def _left() -> list[str]:
    names = [t.name for t in threading.enumerate()]
    return [name for name in names if name.startswith(("IO loop", "asyncio")) or "Dask" in name]
