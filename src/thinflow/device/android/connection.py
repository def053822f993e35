"""A phone that runs LiteRT's benchmark_model: each run of a model is a process of it."""

from __future__ import annotations

import math
import random
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path

from thinflow.bench.machine import Machine
from thinflow.bench.profile_model import Profile, require_fixed
from thinflow.device.android import told
from thinflow.device.android.bridge import Bridge, Done
from thinflow.device.android.cores import chosen, mask
from thinflow.device.android.delegates import Delegate
from thinflow.device.android.feeding import file_bytes, input_flags, output_arrays, output_kinds
from thinflow.device.android.output import Output, parse_output
from thinflow.device.android.profile import profile_of
from thinflow.device.android.refusals import refusal
from thinflow.device.base import Facts, Job, State, Timing
from thinflow.errors import EngineUnavailable
from thinflow.formats.files import map_file
from thinflow.tflite.model import Program
from thinflow.tflite.reader import read_program
from thinflow.typing import Array, Progress

_ROUNDS = 8
"""Processes of each model in the time that is given: enough for an interval of their medians."""
_SHORTEST, _LONGEST = 0.2, 2.0
"""Seconds that one process measures for."""
_CLOCK = "thinflow-uptime:"
_MEMORY_RUNS = 10
_MEMORY_SECONDS = 0.5
_BATCH = 32
_BATCH_BYTES = 64 << 20
_STARTING_SECONDS = 30.0
"""What a process may take before it measures, on a slow phone with a large model: counted to its patience."""


class AndroidConnection:
    """A phone with benchmark_model on it; see `Connection`.

    Args:
        bridge: to the device.
        about: what it is.
        folder: where files are kept there.
        delegate: what runs operators.
        cpus: to run on, as `chosen` reads them.
        progress: told while files are sent.
    """

    keeps_state = False
    # benchmark_model reads one set of files.
    takes_turns = False

    def __init__(
        self,
        bridge: Bridge,
        about: told.About,
        folder: str,
        delegate: Delegate,
        cpus: str,
        progress: Progress | None,
    ) -> None:
        self._bridge, self._about, self._folder = bridge, about, folder
        self._delegate, self._cpus = delegate, chosen(cpus, about.cores)
        self._progress = progress
        self._sent: dict[str, str] = {}
        self._programs: dict[str, Program] = {}
        self._notes: dict[Job, str] = {}
        self._feeds: dict[Job, list[str]] = {}

    @cached_property
    def facts(self) -> Facts:
        """What the device is."""
        about = self._about
        parts = [
            f"{about.soc} ({about.cpu})" if about.soc and about.cpu != about.soc else about.cpu,
            str(about.cores),
        ]
        cpu = ", ".join(p for p in parts if p)
        system = f"Android {about.android}, {about.machine}"
        machine = Machine(
            cpu or "unknown CPU", len(self._cpus) or about.cores.count, about.flags, system, python=""
        )
        runtime = "LiteRT's benchmark_model"
        if self._delegate.name:
            runtime += f" with delegate {self._delegate.name}"
        if self._cpus:
            runtime += f" on CPUs {','.join(map(str, self._cpus))}"
        return Facts(machine, runtime, about.memory_bytes, about.model)

    def state(self) -> State:
        """What it is doing now."""
        return told.parse_state(self._bridge.shell(told.STATE).text)

    # --- runs ----------------------------------------------------------------------------------------------

    def open(self, job: Job) -> None:
        """Send a model and what it is fed, and run it once; note what became of the delegate."""
        if job in self._notes:
            return
        once = self._run(job, [*self._fed(job), *_loop(1, 0.0), *_warmup(0)])
        self._notes[job] = self._note(once, job)

    def time(
        self, jobs: Sequence[Job], *, runs: int | None, seconds: float, warmup: int, seed: int = 0
    ) -> dict[Job, Timing]:
        """Run processes of jobs in turns: each measures for a while and tells the median of its runs."""
        # As many runs as were asked for, in a few processes: starting one takes longer than most runs.
        rounds = None if runs is None else min(runs, _ROUNDS)
        each = 1 if rounds is None else math.ceil((runs or 1) / rounds)
        piece = (
            min(max(seconds / (_ROUNDS * max(1, len(jobs))), _SHORTEST), _LONGEST) if runs is None else 0.0
        )
        found = {job: Timing(note=self._notes[job]) for job in jobs}
        order, shuffled = list(jobs), random.Random(seed)
        begun = time.monotonic()
        done = 0
        while not done or ((rounds is None or done < rounds) and time.monotonic() - begun < seconds):
            shuffled.shuffle(order)
            for job in order:
                flags = [*self._fed(job), *_loop(each, piece), *_warmup(max(1, warmup))]
                output, now = self._run_and_clock(job, flags, piece)
                assert output.inference is not None
                found[job].times_ns.append(round(output.inference.typical * 1000))
                found[job].ends.append(now)
            done += 1
        return found

    def memory(self, job: Job) -> int | None:
        """Peak memory of a process, as benchmark_model sees it from within."""
        # It looks every few milliseconds, which is why it does so in a process of its own.
        flags = ["--report_peak_memory_footprint=true", "--memory_footprint_check_interval_ms=5"]
        output = self._run(
            job,
            [*self._fed(job), *flags, *_loop(_MEMORY_RUNS, _MEMORY_SECONDS), *_warmup(1)],
            _MEMORY_SECONDS,
        )
        megabytes = output.peak_mb if output.peak_mb is not None else output.overall_mb
        return None if megabytes is None else round(megabytes * (1 << 20))

    def profile(self, job: Job, *, runs: int, warmup: int) -> Profile:
        """By benchmark_model's own profiler."""
        flags = ["--enable_op_profiling=true", *_loop(runs, 0.0), *_warmup(warmup)]
        output = self._run(job, [*self._fed(job), *flags])
        return profile_of(self._program(job.path), output, self._delegate.name or "litert", job.threads)

    def restart(self, job: Job) -> None:
        """Nothing: each run is a process of its own."""

    def answers(self, job: Job, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """Answers to feeds, a process for each, some in each call of the shell."""
        self.open(job)
        left = iter(feeds)
        while batch := list(_batch(left)):
            yield from self._answered(job, batch)

    def _answered(self, job: Job, batch: Sequence[Sequence[Array]]) -> Iterator[list[Array]]:
        program = self._program(job.path)
        with tempfile.TemporaryDirectory(prefix="thinflow-") as here:
            local, commands, outs = [], [], []
            for number, feed in enumerate(batch):
                require_fixed(feed)
                paths = []
                for place, array in enumerate(feed):
                    path = Path(here, f"{number}_{place}.in")
                    path.write_bytes(file_bytes(array))
                    local.append(path)
                    paths.append(f"{self._folder}/{path.name}")
                outs.append(f"{self._folder}/{number}.out")
                flags = [*input_flags(program, feed, paths), f"--output_filepath={outs[-1]}"]
                commands.append(self._command(job, [*flags, *_loop(1, 0.0), *_warmup(0)]))
            self._bridge.push(local, self._folder + "/")
            done = self._bridge.shell(" &&\n".join(commands), _STARTING_SECONDS * len(batch))
            output = parse_output(done.text)
            if done.status:
                raise refusal(done, output, job.name, self._bridge.name, self._about)
            if "output_filepath" in output.unknown_flags:
                raise EngineUnavailable(
                    "this benchmark_model gives no answers back: it has no --output_filepath",
                    self._bridge.name,
                    hint="take a newer one of LiteRT, or have answers from a device of the kind ssh",
                )
            self._bridge.pull(outs, here)
            for out, feed in zip(outs, batch, strict=True):
                kinds = output_kinds(job.path, program, feed)
                yield output_arrays(kinds, Path(here, Path(out).name).read_bytes())
            everything = [*(f"{self._folder}/{p.name}" for p in local), *outs]
            self._bridge.shell(f"rm -f {shlex.join(everything)}")

    # --- the process there ----------------------------------------------------------------------------------

    def _run(self, job: Job, flags: Sequence[str], seconds: float = 0.0) -> Output:
        return self._run_and_clock(job, flags, seconds)[0]

    def _run_and_clock(self, job: Job, flags: Sequence[str], seconds: float) -> tuple[Output, float]:
        """What a process told, and the device's clock when it ended.

        Raises:
            EngineUnavailable: it did not run the model; DeviceLost: the device is gone.
        """
        # The clock comes last, but the tool's status counts: a subshell gives it back, and ends nothing else.
        script = f'{self._command(job, flags)}\nstatus=$?\necho "{_CLOCK}$(cat /proc/uptime)"\n(exit $status)'
        done = self._bridge.shell(script, seconds * 2 + _STARTING_SECONDS)
        text, _, clock = done.text.rpartition(_CLOCK)
        done = Done(done.status, text)
        output = parse_output(text)
        if done.status or output.inference is None:
            raise refusal(done, output, job.name, self._bridge.name, self._about)
        return output, _seconds(clock)

    def _command(self, job: Job, flags: Sequence[str]) -> str:
        tool = [f"{self._folder}/benchmark_model", f"--graph={self._there(job.path)}"]
        placed = ["taskset", mask(self._cpus)] if self._cpus else []
        own = list(self._delegate.flags)
        if self._delegate.library:
            own.append(f"--external_delegate_path={self._there(self._delegate.library)}")
        return shlex.join([*placed, *tool, f"--num_threads={job.threads}", *own, *flags])

    def _note(self, output: Output, job: Job) -> str:
        """What a reader of the times should know: what really ran the model."""
        notes = []
        if not self._delegate.is_cpu:
            notes += _applied(output, self._delegate.name)
        asked = {flag.strip("-").partition("=")[0] for flag in self._delegate.flags}
        passed_over = [name for name in output.unknown_flags if name in asked]
        notes += [f"this benchmark_model does not know --{name}, and passed over it" for name in passed_over]
        if self._cpus and job.threads > len(self._cpus):
            notes.append(f"{job.threads} threads share {len(self._cpus)} CPUs")
        return "; ".join(notes)

    # --- files ----------------------------------------------------------------------------------------------

    def _program(self, path: str) -> Program:
        if path not in self._programs:
            self._programs[path] = read_program(map_file(path, unpack=False))
        return self._programs[path]

    def _there(self, path: str) -> str:
        """Where a file of this machine is there; it is sent if it is not."""
        if path not in self._sent:
            digest = sha256(map_file(path, unpack=False)).hexdigest()[:32]
            place = f"{self._folder}/{digest}{Path(path).suffix}"
            if self._bridge.shell(f"[ -e {shlex.quote(place)} ]").status:
                if self._progress is not None:
                    self._progress(0, 1, f"{self._bridge.name}: sending {Path(path).name}")
                # Aside, and renamed when all of it is there: what was cut in the middle is not taken for it.
                self._bridge.push([path], f"{place}.part")
                self._bridge.shell(f"mv {shlex.quote(place)}.part {shlex.quote(place)}")
            self._sent[path] = place
        return self._sent[path]

    def _fed(self, job: Job) -> list[str]:
        """The flags that feed a job; its arrays are sent when they are first asked for."""
        if job not in self._feeds:
            require_fixed(job.feeds)
            self._feeds[job] = self._sent_feeds(job)
        return self._feeds[job]

    def _sent_feeds(self, job: Job) -> list[str]:
        """The flags that feed a job what it is to be fed; none where benchmark_model makes inputs up."""
        if not job.feeds:
            return []
        number = len(self._feeds)
        with tempfile.TemporaryDirectory(prefix="thinflow-") as here:
            local = [Path(here, f"feed{number}_{n}.in") for n in range(len(job.feeds))]
            for path, array in zip(local, job.feeds, strict=True):
                path.write_bytes(file_bytes(array))
            paths = [f"{self._folder}/{p.name}" for p in local]
            flags = input_flags(self._program(job.path), job.feeds, paths)
            self._bridge.push(local, self._folder + "/")
        return flags


def _loop(runs: int, seconds: float) -> list[str]:
    return [f"--num_runs={runs}", f"--min_secs={seconds:g}"]


def _warmup(runs: int) -> list[str]:
    # benchmark_model warms up for half a second by itself, however few runs are asked for.
    return [f"--warmup_runs={runs}", "--warmup_min_secs=0"]


def _seconds(uptime: str) -> float:
    """Seconds since the device was started; by the clock here, if it does not tell."""
    try:
        return float(uptime.split()[0])
    except (IndexError, ValueError):
        return time.monotonic()


def _applied(output: Output, name: str) -> list[str]:
    """What to say of a delegate that is not the CPU, if it does not run all of the model."""
    if not output.delegations or not any(d.kernels for d in output.delegations):
        why = f" ({output.refused[0].rstrip('.')})" if output.refused else ""
        return [f"delegate {name} was not applied{why}; these are the CPU's times"]
    if any(d.whole for d in output.delegations):
        return []
    parts = sum(d.kernels for d in output.delegations)
    taken = [r for r in output.replaced if "XNNPack" not in r.name]
    share = f"{sum(r.nodes for r in taken)} of {taken[0].all} operators" if taken else "a part of the model"
    return [f"delegate {name} runs {share}, in {parts} part{'s' * (parts != 1)}; the CPU runs the rest"]


def _batch(feeds: Iterator[Sequence[Array]]) -> Iterator[Sequence[Array]]:
    size = 0
    for feed in islice(feeds, _BATCH):
        yield feed
        size += sum(a.nbytes for a in feed)
        if size >= _BATCH_BYTES:
            return
