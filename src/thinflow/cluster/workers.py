"""Workers that a job is handed, and the store of its results."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from thinflow.cluster.connecting import connected, require_same_versions
from thinflow.cluster.store import Store
from thinflow.cluster.tasks import Job, TaskRun
from thinflow.errors import ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.typing import FilePath

T = TypeVar("T")


@brief_repr
@dataclass(frozen=True)
class Workers:
    """Connected workers, of the same versions as this process.

    Attributes:
        client: of Dask.
        store: of results.
    """

    client: Any
    store: Store

    @property
    def is_open(self) -> bool:
        """False behind the end of the `with` that connected them."""
        return bool(self.client.status == "running")

    def run_of(self, job: Job, *, is_lasting: bool = True) -> TaskRun:
        """What hands out the tasks of a job.

        Args:
            is_lasting: whether results are to be found again; if not, they stay with this process.
        """
        return TaskRun(self.client, job, self.store if is_lasting else Store())


@contextmanager
def workers_of(cluster: Any, store: FilePath | None = None) -> Iterator[Workers | None]:
    """Connected workers; None if no cluster is named.

    Args:
        cluster: "local", "local:4", "tcp://HOST:PORT", or a client of Dask.
        store: folder or URL that all machines reach; default: results come back to this process.

    Raises:
        EngineUnavailable: Dask is not installed, nobody answers, or a worker has another version.
        ParameterError: the text is no cluster, or there is a store without one.
        WriteError: nothing can be written to the store.
    """
    if cluster is None:
        if store is not None:
            raise ParameterError(
                "a store keeps what workers found, and there are none",
                hint="say which with --cluster, or leave out the store",
            )
        yield None
        return
    kept = Store(None if store is None else os.fspath(store))
    with connected(cluster) as client:
        require_same_versions(client)
        yield Workers(client, kept)


_OPEN = threading.local()


def held(identity: str, make: Callable[[], T]) -> T:
    """What was made under a name, once for each thread of a worker: runtimes are not shared between them."""
    # One at a time: models of the last job are let go before those of the next are opened.
    known: tuple[str, T] | None = getattr(_OPEN, "known", None)
    if known is None or known[0] != identity:
        if known is not None and hasattr(known[1], "close"):
            known[1].close()
        _OPEN.known = None
        known = _OPEN.known = (identity, make())
    return known[1]
