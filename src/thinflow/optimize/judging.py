"""Smaller models beside the original graph, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from thinflow.analysis.interface import is_class_scores, is_softmax
from thinflow.engines._child import run_file
from thinflow.errors import FeedError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import counterparts, without_states
from thinflow.optimize.answers_ahead import answers_ahead
from thinflow.optimize.converted import ConvertedModel, RuntimeModel
from thinflow.optimize.detections import places_of, role_of
from thinflow.optimize.quality import Quality, QualityMeter, is_ranked
from thinflow.optimize.quantized import SmallerModel
from thinflow.optimize.samples import Samples, as_declared
from thinflow.optimize.sqnr import LogitsMeter, logits_meter
from thinflow.typing import Array, Progress

_INTERPRETED, _AT_ITS_ENDS = "the part with the rest interpreted", "the part at its own ends"


class KeptAnswers:
    """Answers of the original graph by number of the sample, kept from one comparison to the next.

    The interpreter takes many times as long for them as a runtime. Once they fill `most_bytes`, the others
    are computed each time.
    """

    def __init__(self, most_bytes: int = 256_000_000) -> None:
        self._room = most_bytes
        self._kept: dict[int, list[Array]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def of(self, number: int, computed: list[Array]) -> list[Array]:
        """The answers to a sample: those that are here, or else what was computed, which may stay."""
        if number not in self._kept:
            self._room -= sum(a.nbytes for a in computed)
            if self._room < 0:
                return computed
            self._kept[number] = computed
        return self._kept[number]


def compare_models(
    model: ConvertedModel[Any],
    contents: Mapping[str, bytes],
    original: Graph,
    samples: Samples,
    *,
    threads: int = 2,
    progress: Progress | None = None,
    end_to_end: bool = True,
    smaller: Mapping[str, SmallerModel[Any]] | None = None,
    kept: KeptAnswers | None = None,
) -> dict[str, Quality]:
    """Quality of models (by name) for a runtime beside the original graph in the interpreter, end to end on
    all samples; or at the models' own ends, where the rest of the graph cannot run.

    Where the original has the same core inputs, what stands before the core runs once per sample.

    Args:
        smaller: those of the models whose logits are measured, too, beside those of `model`.
        kept: the original's answers of comparisons before this one, with the same samples.

    Raises:
        EngineCrashed: the runtime crashed or hung on the first sample, which a child process tries first.
        FeedError: there are no samples.
    """
    for name, content in contents.items():
        # In a child process: a crash of the runtime would take this one along.
        first = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(content, model.engine, first, threads=threads, name=f"the {name} model")
    core = model.core
    judged = original if end_to_end else core.graph
    read = original.outputs if end_to_end else core.outputs
    ends = original.inputs if end_to_end else judged.inputs
    matches = counterparts(core.graph.inputs, judged.inputs, judged)
    fed = dict(zip(core.graph.inputs, matches, strict=True))
    meters: dict[str, QualityMeter] = {}
    measured = {
        name: logits_meter(model.program, one.quantized.program, core.states, threads=threads)
        for name, one in (smaller or {}).items()
    }
    logits = {name: meter for name, meter in measured.items() if meter is not None}
    runtimes = _opened(model, contents, logits, threads)
    ran = dict.fromkeys([*runtimes.values(), *(meter.before for meter in logits.values())])
    # States are handed on to the next call, and are no answers of this one.
    shown = [i for i, v in enumerate(read) if v in without_states(judged, read)]
    kept = KeptAnswers(0) if kept is None else kept

    def given(number: int, feed: Mapping[Value, Array]) -> Mapping[Value, Array] | None:
        # The original may want types that the runtime's graph had widened.
        known = number in kept
        return None if known else {(to := fed.get(v, v)): as_declared(to, a) for v, a in feed.items()}

    feeds = ((feed, given(number, feed)) for number, feed in enumerate(samples))
    for number, (feed, computed) in enumerate(answers_ahead(judged, read, ends, feeds)):
        before = kept.of(number, computed)
        arrays = core.before(feed)
        found = {runtime: runtime.run(arrays) for runtime in ran}
        for name, runtime in runtimes.items():
            # Behind the outputs may come logits.
            results = found[runtime][: len(core.outputs)]
            after = core.after(results, feed) if end_to_end else results
            if name not in meters:
                # Only the first answers tell whether there is a vector of scores.
                values, answers = [read[i] for i in shown], [before[i] for i in shown]
                answer = _answer_of(values, answers, samples)
                meters[name] = QualityMeter(
                    samples.labels,
                    ranked=answer is not None,
                    answer=answer or 0,
                    places=places_of(values, answers),
                )
            meters[name].add([before[i] for i in shown], [after[i] for i in shown])
        for meter in logits.values():
            meter.add(found[meter.before], found[meter.after])
        if progress is not None:
            progress(number + 1, samples.count or 0, "comparing answers")
    if contents and not meters:
        raise FeedError("there are no samples to judge on", hint="give at least one")
    qualities = {name: one.result() for name, one in meters.items()}
    for name, quality in qualities.items():
        quality.logits = logits[name].score if name in logits else None
        quality.outputs = tuple(read[i].name for i in shown)
        if model.coverage.is_part:
            quality.part = _INTERPRETED if end_to_end else _AT_ITS_ENDS
    return qualities


def _opened(
    model: ConvertedModel[Any],
    contents: Mapping[str, bytes],
    logits: Mapping[str, LogitsMeter[Any]],
    threads: int,
) -> dict[str, RuntimeModel]:
    """The models by name; those that meters of logits have open are the same, so that each runs once."""
    found = {}
    for name, content in contents.items():
        before = next((meter.before for meter in logits.values() if content is model.content), None)
        found[name] = logits[name].after if name in logits else before or model.open(content, threads=threads)
    return found


def _answer_of(values: Sequence[Value], outputs: Sequence[Array], samples: Samples) -> int | None:
    """The number of the output with a top answer: a vector that labels or the graph say holds scores.

    Coordinates of a box have a largest one, too, which answers nothing.
    """
    vectors = [i for i, a in enumerate(outputs) if is_ranked(a) and role_of(values[i]) != "boxes"]
    # What stands beside shares of classes are numbers of another kind.
    shares = [i for i in vectors if is_softmax(values[i])]
    if shares:
        return shares[0]
    is_scored = 0 in vectors and (samples.labels is not None or is_class_scores(values[0]))
    return 0 if is_scored else None
