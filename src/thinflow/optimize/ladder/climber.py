"""The climb: every candidate made, measured and kept, one after the other; then the best made once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Generic

from thinflow.device.base import DeviceLost
from thinflow.errors import ThinflowError
from thinflow.ir.digest import graph_digest
from thinflow.optimize.climb import spread
from thinflow.optimize.float_islands import is_slower, quicker
from thinflow.optimize.job_inputs import make_folder
from thinflow.optimize.judging import KeptAnswers
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.candidates import FLOAT, Candidate, candidates, pruned_candidates
from thinflow.optimize.ladder.choice import choose
from thinflow.optimize.ladder.elsewhere import Made, made_elsewhere
from thinflow.optimize.ladder.figures import figures_of, latency_of
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.ladder.measured import Latency, Measured, on_one_clock
from thinflow.optimize.ladder.needs import needs_of
from thinflow.optimize.ladder.result import Ladder
from thinflow.optimize.ladder.store import Store, digest_of
from thinflow.optimize.maker import M, ModelPair, Q
from thinflow.optimize.quality import Quality
from thinflow.optimize.trial_runs import require_ours
from thinflow.optimize.trials import Climb
from thinflow.quantize.pruning import prune
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile, recipe_text
from thinflow.typing import Progress


class LadderInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C; the message says what is kept, and how to go on.

    Attributes:
        runtime: LiteRT or ONNX.
        measured: by then, the float model first; empty if nothing was.
    """

    def __init__(self, message: str, runtime: str = "", measured: Sequence[Measured] = ()) -> None:
        super().__init__(message)
        self.runtime, self.measured = runtime, measured


def climbed(ground: Ground[M, Q], schemes: Sequence[str], effort: str, budget: Budget) -> ModelPair[M, Q]:
    """The float model and the best smaller one within a budget, with all that it was chosen from.

    Args:
        schemes: that are tried.
        effort: the largest that is tried.

    Raises:
        LadderInterrupted: by Ctrl-C; what was measured is kept.
        ThinflowError: no smaller model could be made.
    """
    pruned = pruned_candidates(schemes, effort, partial(_weights_without, ground))
    return _Climber(ground, budget).climb([*candidates(schemes, effort), *pruned])


def _weights_without(ground: Ground[M, Q], level: float) -> float:
    """The part of the float model's weights that goes with channels below a level."""
    # Made-up inputs do not tell which channels are of use.
    if ground.calibration.synthetic:
        return 0.0
    model = ground.model
    made = prune(model.program, level, spread(model.feeds(ground.calibration), Recipe().looked_at))
    return made.weights / max(made.weights_before, 1)


class _Climber(Generic[M, Q]):
    def __init__(self, ground: Ground[M, Q], budget: Budget) -> None:
        self._ground, self._budget = ground, budget
        maker = ground.make("none")
        self._folder = ground.job.folder / "ladder" / maker.order
        self._store = Store(self._folder, ground.about())
        self._float_path = self._folder / f"float32{maker.suffix}"
        self._found: dict[str, Measured] = {}
        self._fresh: list[tuple[Candidate, float]] = []
        self._answers = KeptAnswers()
        self._errors: list[ThinflowError] = []
        self._ahead: dict[str, Made] = {}
        self._untimed = ""
        self._pairs: dict[str, ModelPair[M, Q]] = {}

    # --- one after the other ------------------------------------------------------------------------------

    def climb(self, tried: Sequence[Candidate]) -> ModelPair[M, Q]:
        make_folder(self._folder)
        try:
            with self._float_file():
                kept = {candidate.name: self._kept(candidate) for candidate in tried}
                left = [candidate for candidate in tried if kept[candidate.name] is None]
                self._ahead = made_elsewhere(self._ground, left, self._ground.job.options.progress)
                for number, candidate in enumerate(tried):
                    self._found[candidate.name] = kept[candidate.name] or self._new(tried, number)
                return self._chosen({c.name: c for c in (*tried, *self._quicker(tried))})
        except DeviceLost as error:
            raise DeviceLost(
                error.problem, error.where, f"{error.hint}; {self._kept_so_far(tried)}"
            ) from error
        except KeyboardInterrupt:
            raise LadderInterrupted(
                self._kept_so_far(tried),
                self._ground.model.runtime,
                self._so_far(),
            ) from None

    def _kept_so_far(self, tried: Sequence[Candidate]) -> str:
        return (
            f"{len(self._found)} of {len(tried)} candidates are measured and kept in {self._folder};"
            " the same command goes on from there"
        )

    def _so_far(self) -> list[Measured]:
        """What was measured, the float model first; nothing before a candidate was."""
        found = on_one_clock(self._found)
        return [self._float_record(found), *found.values()] if found else []

    @contextmanager
    def _float_file(self) -> Iterator[None]:
        """The float model as a file, to be timed beside; nothing but results is left behind."""
        # What a killed run left of files that it was about to write.
        for left in self._folder.glob(".*.part"):
            left.unlink(missing_ok=True)
        maker = self._ground.make("none")
        try:
            maker.write(self._ground.model, self._float_path)
            content, program = self._float_path.read_bytes(), self._ground.model.program
            needs = needs_of(content, program, self._ground.target, self._ground.ram_bytes)
            self._float = Measured(FLOAT, FLOAT, "", size_bytes=needs.size_bytes, ram_bytes=needs.ram_bytes)
            yield
        finally:
            for path in self._folder.glob(f"*{maker.suffix}"):
                path.unlink(missing_ok=True)

    def _kept(self, candidate: Candidate) -> Measured | None:
        """The result that another run left."""
        return self._store.read(candidate.stem, _text(candidate), candidate.effort)

    def _new(self, tried: Sequence[Candidate], number: int) -> Measured:
        candidate, started = tried[number], time.monotonic()
        progress = self._progress(tried, number)
        try:
            found = self._measured(candidate, progress)
        except DeviceLost:
            raise
        except ThinflowError as error:
            # Samples that do not fit are the user's to mend; what a scheme cannot do is a finding.
            require_ours(error, self._ground.job.data)
            self._errors.append(error)
            found = Measured(candidate.name, candidate.scheme, candidate.effort, failure=error.message)
        seconds = time.monotonic() - started
        self._fresh.append((candidate, seconds))
        found = replace(found, seconds=seconds)
        self._keep(found, candidate)
        return found

    def _keep(self, found: Measured, candidate: Candidate) -> None:
        graph = self._ground.original
        file = RecipeFile(found.recipe, Path(graph.path or "").name, graph_digest(graph))
        self._store.write(found, candidate.stem, _text(candidate), candidate.effort, file)

    def _progress(self, tried: Sequence[Candidate], number: int) -> Progress | None:
        """Tells which candidate is made, how far all are, and how long the rest may take."""
        tell = self._ground.job.options.progress
        if tell is None:
            return None
        left = _readable(self._seconds_left(tried[number:]))
        done, total = sum(c.cost for c in tried[:number]), sum(c.cost for c in tried)
        where = f"{tried[number].name} ({number + 1} of {len(tried)}{left})"

        def told(_done: int, _total: int, label: str) -> None:
            # Steps of one candidate begin at 0 again and again, so the bar stands still meanwhile.
            tell(int(done), int(total), f"{where}: {label}")

        told(0, 0, "quantizing")
        return told

    def _seconds_left(self, left: Sequence[Candidate]) -> float | None:
        """What the rest takes, by what was made in this run; None before anything was."""
        spent = sum(seconds for _, seconds in self._fresh)
        cost = sum(candidate.cost for candidate, _ in self._fresh)
        if not cost:
            return None
        total = 0.0
        for one in left:
            like = [seconds for candidate, seconds in self._fresh if candidate.effort == one.effort]
            # The middle one: the first of all has computed the graph's own answers besides.
            total += sorted(like)[(len(like) - 1) // 2] if like else one.cost * spent / cost
        return total

    # --- one candidate ------------------------------------------------------------------------------------

    def _measured(self, candidate: Candidate, progress: Progress | None) -> Measured:
        """A candidate made and measured.

        Raises:
            ThinflowError: it cannot be made, or does not run.
        """
        if candidate.name in self._ahead:
            return self._received(candidate, self._ahead[candidate.name])
        ground, maker = self._ground, self._ground.make(candidate.effort)
        made = maker.quantize(ground.model, ground.calibration, candidate.recipe, progress=progress)
        if (twin := self._twin(candidate, digest_of(made.content))) is not None:
            return twin
        pair = maker.judged(
            ground.model,
            made,
            ground.original,
            ground.evaluation,
            progress=progress,
            end_to_end=ground.end_to_end,
            kept=self._answers,
        )
        return self._figures(candidate, pair)

    def _figures(self, candidate: Candidate, pair: ModelPair[M, Q]) -> Measured:
        """All figures of a pair's smaller model."""
        write = partial(pair.maker.write, pair.quantized, check=pair.maker.open_file)
        return figures_of(candidate, pair, self._ground, self._latency(write))

    def _latency(self, write: Callable[[Path], object]) -> Latency | None:
        """The time of the model that is written so, in turns with the float one; None without one."""
        found, why = latency_of(self._ground, write, self._folder, self._float_path)
        self._untimed = why or self._untimed
        return found

    def _received(self, candidate: Candidate, made: Made) -> Measured:
        """What a worker made, measured to the end here.

        Raises:
            ThinflowError: it cannot be made.
        """
        if made.measured is None:
            raise ThinflowError(made.failure)
        return self._twin(candidate, made.measured.digest) or replace(
            made.measured, latency=self._latency(lambda path: path.write_bytes(made.content))
        )

    def _twin(self, candidate: Candidate, digest: str) -> Measured | None:
        """The figures of the very same file, made before."""
        twin = next((m for m in self._found.values() if m.digest == digest and m.is_own), None)
        return twin and replace(twin, name=candidate.name, effort=candidate.effort, same_as=twin.name)

    def _quicker(self, tried: Sequence[Candidate]) -> Iterator[Candidate]:
        """The last candidate in int8 that is slower than float, with layers in float; none if that helps
        nothing.
        """
        whole = [c for c in tried if c.scheme == "int8" and not c.recipe.prune]
        slow = [c for c in whole if (m := self._found[c.name]).is_own and is_slower(m.latency)]
        for candidate in slow[-1:]:
            before = self._pairs.get(candidate.name) or self._made_again(candidate)
            pair = quicker(self._ground, before)
            if pair is not before:
                found = Candidate(pair.quantized.way.recipe, "none", "slow layers in float")
                self._found[found.name] = self._figures(found, pair)
                self._keep(self._found[found.name], found)
                yield found

    # --- the best -----------------------------------------------------------------------------------------

    def _chosen(self, tried: dict[str, Candidate]) -> ModelPair[M, Q]:
        """The pair that is shipped, made once more by its recipe; it is what was measured, byte for byte."""
        while True:
            found = on_one_clock(self._found)
            measured = [self._float_record(found), *found.values()]
            choice = choose(measured, self._budget)
            if choice is None:
                why = next((m.failure for m in found.values() if m.failure), "there is no scheme to try")
                raise self._errors[0] if self._errors else ThinflowError(why)
            candidate = tried[choice.smaller.name]
            pair = self._pairs.get(candidate.name) or self._made_again(candidate)
            if digest_of(pair.quantized.content) == choice.smaller.digest:
                break
            # What comes out differently is another model: it is measured, and all are compared once more.
            self._found[candidate.name] = self._figures(candidate, pair)
            self._keep(self._found[candidate.name], candidate)
        told = (
            _coarse(choice.best.quality, self._budget),
            self._store.note,
            self._reused(tried),
            self._untimed,
        )
        notes = [note for note in told if note]
        ladder = Ladder(self._ground.model.runtime, self._budget, measured, choice, notes)
        return replace(pair, ladder=ladder)

    def _made_again(self, candidate: Candidate) -> ModelPair[M, Q]:
        ground, kept = self._ground, self._found[candidate.name]
        pair = ground.make("none").pair(
            ground.model,
            ground.original,
            ground.calibration,
            ground.evaluation,
            kept.recipe,
            progress=ground.job.options.progress,
            end_to_end=ground.end_to_end,
            kept=self._answers,
        )
        made = replace(pair.quantized, warnings=kept.warnings, way=Climb(kept.recipe, kept.trials, kept.note))
        self._pairs[candidate.name] = replace(pair, quantized=made)
        return self._pairs[candidate.name]

    def _float_record(self, found: dict[str, Measured]) -> Measured:
        """The float model as a candidate: the one that all others are measured beside."""
        times = [m.latency.float_ms for m in found.values() if m.latency is not None]
        latency = Latency(times[0], times[0], 1.0, 1.0) if times else None
        judged = next((m.quality for m in found.values() if m.is_own), Quality())
        # It answers as the graph does: that was proven before.
        quality = replace(
            Quality(judged.samples, outputs=judged.outputs, part=judged.part),
            same_answer=None if judged.same_answer is None else judged.samples,
            correct=judged.correct_before,
            correct_before=judged.correct_before,
        )
        return replace(self._float, quality=quality, latency=latency)

    def _reused(self, tried: dict[str, Candidate]) -> str:
        there = len(tried) - len(self._fresh)
        return f"{there} of {len(tried)} results are of an earlier run" if there else ""


def _coarse(quality: Quality, budget: Budget) -> str:
    """A sentence on too few samples to tell the drop that is allowed; "" if they are enough."""
    if quality.drop is None or not quality.samples or not budget.drop:
        return ""
    each = 100 / quality.samples
    if each <= budget.drop:
        return ""
    return (
        f"{quality.samples} samples judged, so that one answer is {each:.1f} points and a loss of"
        f" {budget.drop:g} cannot be told from none: more samples tell, see --test"
    )


def _text(candidate: Candidate) -> str:
    """A candidate's recipe as text, to tell it from others."""
    return recipe_text(RecipeFile(candidate.recipe))


def _readable(seconds: float | None) -> str:
    """`, about 2 min left`; "" before anything is known."""
    if seconds is None:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"
