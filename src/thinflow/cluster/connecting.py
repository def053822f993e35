"""A client of Dask, of workers that would compute the same as this process."""

from __future__ import annotations

import logging
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from thinflow._version import __version__
from thinflow.errors import EngineUnavailable, ParameterError

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 15
_WORKERS_SECONDS = 60
# Packages whose versions change results, or what can be sent.
# Dask sends functions by their names and arguments as bytes of Python: another minor version of either
# may read them as something else, and another runtime rounds otherwise.
_COMPARED = ("numpy", "distributed", "ai-edge-litert", "onnxruntime")
# These read the same from one version to the next, but have to be there: the extra may be forgotten.
_NEEDED = ("fsspec", "pyarrow")
# Of these a scheduler needs the same, which reads what tasks are; it computes nothing.
_READ = ("thinflow", "Python", "numpy", "distributed")


def dask() -> Any:
    """The package `distributed`.

    Raises:
        EngineUnavailable: it is not installed.
    """
    try:
        import distributed
    except ImportError as e:
        raise EngineUnavailable(
            "a cluster needs Dask's distributed", hint="pip install 'thinflow[cluster]'"
        ) from e
    return distributed


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A client of a cluster; what was started here is stopped at the end.

    Raises:
        EngineUnavailable: nobody answers, or there are no workers.
        ParameterError: the text is no cluster.
    """
    distributed = dask()
    if isinstance(cluster, distributed.Client):
        if cluster.status != "running":
            raise EngineUnavailable(f"the client of Dask is {cluster.status}", hint="connect it again")
        yield cluster
        return
    address = cluster if isinstance(cluster, str) else getattr(cluster, "scheduler_address", None)
    if address is None:
        raise ParameterError(f"a {type(cluster).__name__} is no cluster", hint="give a client of Dask")
    if address.partition(":")[0] == "local":
        with _local(distributed, _local_workers(address)) as client:
            yield client
        return
    if "://" not in address:
        raise ParameterError(f"'{address}' is no cluster", hint="give local, local:4 or tcp://HOST:PORT")
    # Made before it connects: where nobody answers, its thread would be left over.
    client = distributed.Client.__new__(distributed.Client)
    try:
        with warnings.catch_warnings():
            # Which versions matter is known here, and compared before any work.
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
            # Not the default of this process, which may have one of its own.
            client.__init__(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    # A scheduler of another version may fail in any way.
    except Exception as e:
        # `close` does nothing for a client that failed. A process with a thread more can fork no longer.
        with suppress(Exception):
            client._loop_runner.stop()
        if not isinstance(e, OSError | ValueError):
            raise EngineUnavailable(
                f"the scheduler does not answer as Dask {distributed.__version__} does: {e}",
                address,
                hint=f"install the same there: pip install 'distributed=={distributed.__version__}'",
            ) from e
        raise EngineUnavailable(
            "no scheduler answers there",
            address,
            hint="start one: dask scheduler; and workers: dask worker ADDRESS",
        ) from e
    with client:
        logger.info("dashboard: %s", client.dashboard_link)
        # A scheduler is there at once; workers that a queue of jobs starts may take a while, and the
        # first one is enough to begin with.
        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
        except TimeoutError as e:
            raise EngineUnavailable(
                "the scheduler has no workers", address, hint=f"start some: dask worker {address}"
            ) from e
        yield client


def _local_workers(text: str) -> int | None:
    """The number behind `local:`; None for one worker for each processor."""
    _, colon, number = text.partition(":")
    if colon and not (number.isdecimal() and int(number)):
        raise ParameterError(f"'{text}' is no cluster", hint="give local, or local:4 for four workers")
    return int(number) if colon else None


@contextmanager
def _local(distributed: Any, workers: int | None) -> Iterator[Any]:
    # Processes and not threads: a crash of a runtime takes one shard with it, and not the client.
    with (
        distributed.LocalCluster(
            n_workers=workers,
            # Engines have threads of their own, and the interpreter holds Python's lock.
            threads_per_worker=1,
            # Any free port: a second run beside this one has its own.
            dashboard_address="127.0.0.1:0",
            # What goes wrong in a task comes back as its error.
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        logger.info("dashboard: %s", client.dashboard_link)
        yield client


@cache
def versions_here() -> dict[str, str]:
    """What has to be the same on all machines, by its name; runs on workers, too."""
    found = {"thinflow": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}
    for package in _COMPARED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found | {package: _there(package) for package in _NEEDED}


def _there(package: str) -> str:
    return "missing" if find_spec(package) is None else "installed"


def require_same_versions(client: Any) -> None:
    """Refuse workers that would compute something else, and a scheduler that cannot read what they are sent.

    Raises:
        EngineUnavailable: names the machine, and what differs.
    """
    here = versions_here()
    try:
        there = client.run_on_scheduler(versions_here)
    except Exception as e:
        raise _without_thinflow("scheduler", client.scheduler.address, e) from e
    differ("scheduler", client.scheduler.address, {name: here[name] for name in _READ}, there)
    # A worker without thinflow answers with the error of its import.
    # On every worker: one of forty may have been forgotten.
    for address, there in client.run(versions_here, on_error="return").items():
        if isinstance(there, BaseException):
            raise _without_thinflow("worker", address, there)
        differ("worker", address, here, there)


def require_versions(here: Mapping[str, str]) -> None:
    """On a worker, which may have come after all were compared: see `differ`.

    Args:
        here: versions of who asks.
    """
    differ("worker", dask().get_worker().address, here, versions_here())


def _without_thinflow(what: str, address: str, error: BaseException) -> EngineUnavailable:
    return EngineUnavailable(
        f"the {what} cannot run thinflow: {error}",
        address,
        hint=f"pip install 'thinflow[cluster]=={__version__}' there",
    )


def differ(what: str, address: str, here: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Refuse a machine whose versions are others.

    Raises:
        EngineUnavailable: names what differs.
    """
    # What is missing here was not needed here.
    odd = [
        f"{name} {there.get(name, 'missing')}, and here {own}"
        for name, own in here.items()
        if there.get(name) != own and not (name in _NEEDED and own == "missing")
    ]
    if odd:
        raise EngineUnavailable(
            f"the {what} has other versions: {'; '.join(odd)}",
            address,
            hint="install the same on all machines",
        )
