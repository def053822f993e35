"""The fastest engine for a model: those whose answers agree with the interpreter's, timed in turns."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from thinflow.analysis.precision import RUNTIMES_TOLERANCE
from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.program.amounts import ms_text

if TYPE_CHECKING:
    from thinflow.typing import Array

logger = logging.getLogger(__name__)

P = TypeVar("P")

JUDGE = "reference"
"""The engine whose answers the others are held against."""
SECONDS = 1.0
"""Time for all turns together; a slow model gets `ROUNDS` all the same."""
ROUNDS, MOST_ROUNDS = 5, 200
_TURN_SECONDS, _LEAST_REPEATS, _MOST_REPEATS = 4e-3, 3, 200
"""A turn of a quick model has as many runs as this takes: the first ones find its weights in no cache, and
some are disturbed."""
_REST_SECONDS = 1e-3
"""Between two turns."""
_THREADS_TURN_SECONDS, _THREADS_REST_SECONDS = 40e-3, 30e-3
"""The same where there are several threads. Those of the last engine look for work for a while and take a
core from the next one's, and all sleep and wake slowly: in turns of 4 ms a MobileNet took twice its time."""
_HOPELESS = 3.0
"""An engine that takes so many times the fastest one's time gets no further turns."""
# In place of the largest value where all answers are nothing, or next to it.
_LEAST = 1e-6


@brief_repr
@dataclass(frozen=True)
class EngineTrial:
    """What came of trying one engine.

    Attributes:
        engine: its name.
        median_ms: of the turns' fastest runs; None if it was not timed.
        low_ms, high_ms: within which the median lies, at 95 %.
        difference: the largest from the interpreter's answers, of the largest value; None if not compared.
        left_out: why it was passed over; "" for the one that was chosen.
    """

    engine: str
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    difference: float | None = None
    left_out: str = ""


@brief_repr
@dataclass(frozen=True)
class EngineChoice:
    """The engine that was chosen for a model on this machine, and what came of each.

    Attributes:
        engine: the fastest of those that agree.
        trials: of all that were tried, the fastest first; those that were not timed behind them.
        note: what else to know; "" for nothing.
    """

    engine: str
    trials: tuple[EngineTrial, ...]
    note: str = ""

    @property
    def sentence(self) -> str:
        """Which it is, by how much, and why not the others."""
        timed = [t for t in self.trials if t.median_ms is not None]
        best = next((t for t in timed if t.engine == self.engine), None)
        parts = []
        if best is None or best.median_ms is None:
            parts.append(f"{self.engine} was chosen")
        else:
            parts.append(f"{self.engine} takes {ms_text(best.median_ms)}")
        parts += [f"{t.engine} {t.left_out}" for t in self.trials if t.engine != self.engine]
        return "; ".join([*parts, self.note] if self.note else parts)

    def data(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


@dataclass
class _Candidate(Generic[P]):
    name: str
    made: P
    run: Callable[[], Sequence[Array]]
    seconds: list[float]
    repeats: int = 1
    difference: float | None = None


def choose(
    engines: Sequence[str],
    prepare: Callable[[str], P],
    run: Callable[[P], Sequence[Array]],
    *,
    tolerance: Callable[[P | None], float] = lambda judge: RUNTIMES_TOLERANCE,
    is_random: bool = False,
    left_out: Mapping[str, str] | None = None,
    threads: int = 1,
) -> tuple[EngineChoice, P]:
    """The choice, and what was prepared for the engine that was chosen.

    Args:
        engines: names, those that tend to be fast first.
        prepare: makes the model ready for an engine; not timed, since it happens once.
        run: runs what was made ready.
        tolerance: how far answers may be off, of the largest value, by what was prepared for the judge.
        is_random: whether there are dice in the model, so that two runs may differ.
        left_out: engines that are not tried, and why.
        threads: how many each engine uses.

    Raises:
        ThinflowError: none of them can run it; what the last one, the interpreter, said.
    """
    trials = [EngineTrial(name, left_out=why) for name, why in (left_out or {}).items()]
    found: list[_Candidate[P]] = []
    problem: ThinflowError | None = None
    wanted: Sequence[Array] | None = None
    judge: P | None = None
    comparable = True
    turn, rest = _TURN_SECONDS, _REST_SECONDS
    if threads > 1:
        turn, rest = _THREADS_TURN_SECONDS, _THREADS_REST_SECONDS
    # The judge first, as the others are compared with it; timed in its turn like any other.
    for name in sorted(engines, key=lambda one: one != JUDGE):
        try:
            made = prepare(name)
            candidate = _Candidate(name, made, _bound(run, made), [])
            # The first run prepares what is prepared late, and is not counted.
            answers = [array.copy() for array in candidate.run()]
            first = _seconds(candidate, 1)
        except ThinflowError as error:
            problem = problem if problem is not None and name != JUDGE else error
            trials.append(EngineTrial(name, left_out=f"does not run it: {error.problem}"))
            continue
        if name == JUDGE:
            wanted, judge = answers, made
            # Dice may be thrown and not looked at, as where dropout is off.
            comparable = not is_random or apart(wanted, candidate.run()) <= tolerance(judge)
        elif wanted is not None and comparable:
            candidate.difference = apart(wanted, answers)
            if not candidate.difference <= tolerance(judge):
                why = f"answers otherwise: {candidate.difference:.2g} of the largest value off"
                trials.append(EngineTrial(name, difference=candidate.difference, left_out=why))
                continue
        candidate.repeats = min(max(math.ceil(turn / max(first, 1e-9)), _LEAST_REPEATS), _MOST_REPEATS)
        found.append(candidate)
    if not found:
        assert problem is not None, "an engine that neither runs nor refuses"
        raise problem
    # In the order given, so that equally fast ones stay in it.
    found.sort(key=lambda one: list(engines).index(one.name))
    _time_in_turns(found, rest)
    best = min(found, key=lambda one: median(one.seconds))
    choice = EngineChoice(best.name, (*_timed(found, best), *trials))
    if not comparable:
        choice = replace(choice, note="answers were not compared: the model throws dice")
    elif wanted is None:
        choice = replace(choice, note="answers were not compared: the interpreter does not run it")
    logger.info("%s", choice.sentence)
    return choice, best.made


def _bound(run: Callable[[P], Sequence[Array]], made: P) -> Callable[[], Sequence[Array]]:
    return lambda: run(made)


def _time_in_turns(candidates: Sequence[_Candidate[Any]], rest: float) -> None:
    """Let candidates run in turns, so that whatever else the machine does hits all of them.

    Args:
        candidates: each gets the times of its turns.
        rest: seconds between two turns.
    """
    racing = list(candidates)
    begin = time.perf_counter()
    for number in range(MOST_ROUNDS):
        # In both directions, as who runs behind another finds a cache that is full of its weights.
        for one in racing if number % 2 else reversed(racing):
            time.sleep(rest)
            one.seconds.append(_seconds(one, one.repeats))
        spent = time.perf_counter() - begin
        if number:  # one round may be bad luck
            best = min(median(one.seconds) for one in racing)
            racing = [one for one in racing if median(one.seconds) <= _HOPELESS * best]
        if (number + 1 >= ROUNDS and spent > SECONDS) or len(racing) < 2:
            return


def _seconds(candidate: _Candidate[Any], repeats: int) -> float:
    """The time of the fastest of several runs behind each other: what else goes on can only add to it."""
    found = math.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        candidate.run()
        found = min(found, time.perf_counter() - begin)
    return found


def _timed(candidates: Sequence[_Candidate[Any]], best: _Candidate[Any]) -> list[EngineTrial]:
    """Trials of those that were timed, the fastest first."""
    from thinflow.analysis.stats import describe

    fastest, found = median(best.seconds), []
    for one in sorted(candidates, key=lambda c: median(c.seconds)):
        times = describe(one.seconds).scaled(1e3)
        ratio = times.median / (fastest * 1e3)
        why = "" if one is best else f"takes {ms_text(times.median)}, {ratio:.2f} times as long"
        found.append(EngineTrial(one.name, times.median, times.low, times.high, one.difference, why))
    return found


def apart(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """The largest difference of answers, of the largest value of the same output; infinite if they are of
    other shapes, or no numbers and not the same.
    """
    import numpy as np

    worst = 0.0
    for one, other in zip(wanted, found, strict=True):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape:
            return math.inf
        if a.dtype.kind not in "fc" or a.dtype.itemsize < 2:
            worst = max(worst, 0.0 if bool((a == b).all()) else _apart_in_steps(a, b))
            continue
        # In double: differences of large halves or floats overflow in their own type.
        real = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = a.astype(real), b.astype(real)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if same.all():
            continue
        with np.errstate(all="ignore"):
            distance = np.where(same, 0.0, np.abs(x - y))
            size = np.abs(x[np.isfinite(x)]).max(initial=0.0)
        if not np.isfinite(distance).all():
            return math.inf
        worst = max(worst, float(distance.max()) / max(float(size), _LEAST))
    return worst


def _apart_in_steps(a: Array, b: Array) -> float:
    """The distance of integers, of the largest of them, if they are codes of eight bits; else infinite: a
    class or a count is right or wrong.
    """
    import numpy as np

    if a.dtype.kind not in "iu" or a.dtype.itemsize > 1:
        return math.inf
    return float(np.abs(a.astype(np.int64) - b.astype(np.int64)).max()) / 255
