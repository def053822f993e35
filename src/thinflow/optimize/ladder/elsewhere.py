"""Candidates made and judged by workers; their times are taken on the machine that asks."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thinflow.cluster.connecting import versions_here
from thinflow.cluster.tasks import Task
from thinflow.cluster.workers import Workers, held
from thinflow.errors import EngineUnavailable, ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.optimize.judging import KeptAnswers
from thinflow.optimize.ladder.candidates import Candidate
from thinflow.optimize.ladder.figures import figures_of
from thinflow.optimize.ladder.ground import Again, Ground
from thinflow.optimize.ladder.measured import Measured, read_measured
from thinflow.optimize.ladder.store import digest_of
from thinflow.optimize.trial_runs import require_ours
from thinflow.quantize.recipe_file import RecipeFile, recipe_of_text, recipe_text
from thinflow.typing import Progress

_LENGTH = struct.Struct("<Q")


@brief_repr
@dataclass(frozen=True)
class Made:
    """What a worker made of a candidate.

    Attributes:
        measured: all but its time.
        content: of the file.
        failure: why there is none; "" if there is.
    """

    measured: Measured | None
    content: bytes = b""
    failure: str = ""

    def stored(self) -> bytes:
        """As bytes, numbers and texts alone in front of the file."""
        found = self.measured
        head: dict[str, Any] = {"failure": self.failure, "figures": None}
        if found is not None:
            head |= {"figures": found.kept(), "recipe": recipe_text(RecipeFile(found.recipe))}
        text = json.dumps(head).encode()
        return _LENGTH.pack(len(text)) + text + self.content

    @classmethod
    def of_stored(cls, content: bytes) -> Made | None:
        """What was stored; None if it is damaged."""
        try:
            (length,) = _LENGTH.unpack_from(content)
            start = _LENGTH.size + length
            head = json.loads(content[_LENGTH.size : start])
            if head["figures"] is None:
                return cls(None, failure=head["failure"])
            found = read_measured(head["figures"], recipe_of_text(head["recipe"]).recipe)
            made = cls(found, content[start:], head["failure"])
            return made if digest_of(made.content) == found.digest else None
        except (ValueError, KeyError, TypeError, AttributeError, struct.error, ThinflowError):
            return None


@brief_repr
@dataclass(frozen=True)
class CandidateJob:
    """A task is a candidate; its result what was made of it."""

    again: Again
    identity: str

    name = "candidate"

    def run(self, argument: Candidate) -> bytes:
        ground, answers = held(self.identity, lambda: (self.again.opened(), KeptAnswers()))
        return made_of(ground, argument, answers).stored()

    def is_sound(self, content: bytes) -> bool:
        return Made.of_stored(content) is not None

    def is_final(self, content: bytes) -> bool:
        return True

    def lost(self, place: str, why: str) -> bytes:
        raise EngineUnavailable(f"this candidate ended its workers: {why}", place)


def made_of(ground: Ground[Any, Any], candidate: Candidate, answers: KeptAnswers) -> Made:
    """A candidate made and judged.

    Raises:
        FeedError: the samples do not fit.
    """
    maker = ground.make(candidate.effort)
    try:
        made = maker.quantize(ground.model, ground.calibration, candidate.recipe)
        pair = maker.judged(
            ground.model,
            made,
            ground.original,
            ground.evaluation,
            end_to_end=ground.end_to_end,
            kept=answers,
        )
        return Made(figures_of(candidate, pair, ground), pair.quantized.content)
    except ThinflowError as error:
        # Samples that do not fit are the user's to mend; what a scheme cannot do is a finding.
        require_ours(error, ground.job.data)
        return Made(None, failure=error.message)


def made_elsewhere(
    ground: Ground[Any, Any], candidates: Sequence[Candidate], progress: Progress | None
) -> dict[str, Made]:
    """Name of a candidate -> what workers made of it; empty where there are none, or they cannot.

    Raises:
        EngineUnavailable: the scheduler is lost.
    """
    workers: Workers | None = ground.job.options.workers
    if workers is None or ground.again is None or len(candidates) < 2:
        return {}
    identity = digest_of(*ground.about_answers(), json.dumps(versions_here()))
    run = workers.run_of(CandidateJob(ground.again, identity))
    tasks = [
        Task(digest_of(identity, recipe_text(RecipeFile(c.recipe)), c.effort), c, c.name) for c in candidates
    ]
    found: dict[str, Made] = {}
    for done, (number, content) in enumerate(run.results(tasks), 1):
        made = Made.of_stored(content)
        assert made is not None
        found[candidates[number].name] = made
        if progress is not None:
            progress(done, len(candidates), f"{candidates[number].name} was made")
    return found
