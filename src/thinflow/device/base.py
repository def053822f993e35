"""What every kind of device does, and what it tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from thinflow.bench.devices import Facts, State
from thinflow.bench.profile_model import Profile
from thinflow.errors import EngineUnavailable
from thinflow.typing import Array, Progress

__all__ = ["Connection", "Device", "DeviceLost", "Devices", "Facts", "Job", "Settings", "State", "Timing"]


WAIT_LONGER = "patience = ... in thinflow.toml, or --timeout of benchmark"
"""What says how many seconds a device is waited for; for hints."""


class DeviceLost(EngineUnavailable):
    """A device stopped answering in the middle; what it had told before is kept."""


@dataclass(frozen=True)
class Settings:
    """How to use a device; each kind of device knows some of these, see its KEYS.

    Attributes:
        name: what tables and messages call the device; "" for its address.
        threads: numbers of threads to try there; empty: those that are asked for everywhere.
        python: the interpreter there that has numpy and ai-edge-litert; "" for one in a folder of its own.
        folder: where files are kept there; "" for the place that the system has for such.
        binary: LiteRT's benchmark_model for the device, a file on this machine.
        delegate: what runs operators there: "xnnpack", "gpu", "nnapi" and the like; "" for the usual one.
        cpus: the CPUs to run on, as `taskset` takes them: "4-7", or a mask such as "f0"; "" for all.
        keep: leave there what was sent and made for a run.
        patience: seconds to wait for a device that another run is using, and for an answer of it.
    """

    name: str = ""
    threads: tuple[int, ...] = ()
    python: str = ""
    folder: str = ""
    binary: str = ""
    delegate: str = ""
    cpus: str = ""
    keep: bool = False
    patience: float = 300.0


@dataclass(frozen=True, eq=False)
class Job:
    """A model to run on a device, with what it is fed. Equal to itself only.

    Attributes:
        name: of the model, in messages.
        path: of its .tflite file on this machine.
        threads: that it may use.
        feeds: an array for each input, in the order of the file.
        others: more of such, of the same sizes, which runs take in turns.
    """

    name: str
    path: str
    threads: int
    feeds: tuple[Array, ...] = ()
    others: tuple[tuple[Array, ...], ...] = ()


@dataclass
class Timing:
    """Runs of one job, in order.

    Attributes:
        times_ns: each run; on a device that tells averages alone, each average is taken for one.
        ends: seconds at which each was over, by the device's own clock from some moment on.
        cpu_seconds: of all threads, in all of them; None if the device does not tell.
        note: what a reader of the numbers should know.
    """

    times_ns: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    cpu_seconds: float | None = None
    note: str = ""

    def extend(self, more: Timing) -> None:
        """Later runs of the same job."""
        self.times_ns += more.times_ns
        self.ends += more.ends
        if more.cpu_seconds is not None:
            self.cpu_seconds = (self.cpu_seconds or 0.0) + more.cpu_seconds
        self.note = self.note or more.note


class Connection(Protocol):
    """A device that is ready, for the time of one task.

    What goes wrong with a model is an EngineUnavailable, and the device stays usable; DeviceLost says that it
    is not. Whatever was sent is removed when the connection is closed, unless it is to be kept.

    Attributes:
        keeps_state: a run of a model finds what the last one left in its variables; else each is a first one.
        takes_turns: runs may take several samples in turns; else a job has one.
    """

    keeps_state: bool
    takes_turns: bool

    @property
    def facts(self) -> Facts: ...

    def state(self) -> State:
        """What it is doing now."""
        ...

    def open(self, job: Job) -> None:
        """Send a model and what it is fed, and run it once.

        Raises:
            EngineUnavailable: it cannot be sent, or does not run there.
        """
        ...

    def time(
        self, jobs: Sequence[Job], *, runs: int | None, seconds: float, warmup: int, seed: int = 0
    ) -> dict[Job, Timing]:
        """Run jobs that are open in turns, each once a round, in an order shuffled anew.

        Args:
            runs: rounds; None: as many as fit.
            seconds: no round starts after that; there is one at least.
            warmup: rounds before that count for nothing.
            seed: of the order.
        """
        ...

    def memory(self, job: Job) -> int | None:
        """Peak bytes of a process that opens a model and runs it; None if the device does not tell."""
        ...

    def profile(self, job: Job, *, runs: int, warmup: int) -> Profile:
        """Times of the model's operators.

        Raises:
            EngineUnavailable: the device does not tell them.
        """
        ...

    def restart(self, job: Job) -> None:
        """Forget what the runs of an open job left in its variables."""
        ...

    def answers(self, job: Job, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """All outputs for each feed, in their order; few are held in memory at a time.

        Raises:
            EngineUnavailable: the device gives no answers back.
        """
        ...


@runtime_checkable
class Device(Protocol):
    """A machine that models are sent to; nothing of it is touched before `connect`.

    Attributes:
        name: what tables and messages call it.
        settings: how it is used.
    """

    # `open_device` makes them; each kind takes what it needs.
    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Settings: ...

    def connect(self, progress: Progress | None = None) -> AbstractContextManager[Connection]:
        """The device made ready; what is over, is put away at the end.

        Args:
            progress: called with (done, total, label) while something takes long.

        Raises:
            EngineUnavailable: nobody is there, or it cannot run models; with the next step.
        """
        ...


Devices = Sequence[str | Device] | str | Device
