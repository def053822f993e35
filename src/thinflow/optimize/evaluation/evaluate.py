"""The work of `thinflow.evaluate`: models are opened, samples cut into shards, and results put together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from thinflow.cluster.store import Store
from thinflow.datasets.opening import open_dataset
from thinflow.datasets.shard import SHARD_SAMPLES, Damaged
from thinflow.device.base import Device, DeviceLost, Devices
from thinflow.device.engine import DeviceEngine, engine_on
from thinflow.device.finding import find_devices
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.optimize.evaluation.items import Items
from thinflow.optimize.evaluation.measured import LeftOut, SampleAnswer
from thinflow.optimize.evaluation.metric import MetricSpec, metric_spec
from thinflow.optimize.evaluation.metrics.classes import Confusion
from thinflow.optimize.evaluation.models import ModelSource, OpenModel
from thinflow.optimize.evaluation.report import Evaluation, Evaluations
from thinflow.optimize.evaluation.running import Answers, Data, run_here
from thinflow.optimize.evaluation.shard_result import NO_ANSWER, Merged
from thinflow.optimize.evaluation.work import ShardWorker, Work, open_models
from thinflow.optimize.quality import Quality
from thinflow.optimize.quality_page import Preview, Shown, preview
from thinflow.optimize.samples import read_class_names
from thinflow.quantize.sample_files import Scaling, UnreadableSample
from thinflow.typing import FilePath, Progress

_USUAL = ("top(k=5)", "confusion")


def evaluate(
    source: Any,
    data: Any,
    *,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
    engine: str | None = None,
    strict: bool = False,
    store: FilePath | None = None,
    cluster: Any = None,
    device: Devices | None = None,
    shard_samples: int = SHARD_SAMPLES,
    progress: Progress | None = None,
    **names: Any,
) -> Evaluation | Evaluations:
    """The work of `thinflow.evaluate`, whose arguments these are; names: as for `load`.

    Raises:
        ParameterError: the samples have no labels, and nothing else was asked for.
    """
    several = isinstance(source, list | tuple)
    sources = list(source) if several else [source]
    work = Work(
        tuple(_source(one, engine or "", names) for one in sources),
        labels=_given_names(labels),
        scaling=scaling,
        fields=dict(fields or {}),
        metrics=_specs(metrics, len(sources) > 1),
        strict=strict,
    )
    options: dict[str, Any] = {
        "asked": bool(metrics),
        "store": None if store is None else os.fspath(store),
        "cluster": cluster,
        "shard_samples": shard_samples,
        "progress": progress,
    }
    if device is None:
        found = _evaluate_all(sources, data, work, **options)
    else:
        _require_device(engine, cluster)
        places = find_devices(device)
        if len(places) > 1 and not several:
            raise ParameterError(
                "several devices make several results", hint="give the model in a list, too: [MODEL]"
            )
        found = _evaluate_there(sources, data, work, places, options)
    return found if several else found[0]


def _require_device(engine: str | None, cluster: Any) -> None:
    """Refuse what does not go with a device.

    Raises:
        ParameterError: another engine, or a cluster.
    """
    if engine not in (None, "auto", "litert"):
        raise ParameterError(f"devices run LiteRT, and no '{engine}'", hint="leave the engine out")
    if cluster is not None:
        raise ParameterError(
            "a cluster and a device are both to run the models",
            hint="give one of them: --cluster or --device",
        )


def _evaluate_there(
    sources: Sequence[Any], data: Any, work: Work, places: Sequence[Device], options: Mapping[str, Any]
) -> Evaluations:
    """The same with the models on devices, all of them asked about the same samples together; what was
    judged before one was lost is in the store.
    """
    with ExitStack() as connected:
        asked, unreached = _reached(places, connected, options["progress"])
        # Each model on one device after the other: of one model, the first device is what others are beside.
        pairs = [(model, there) for model in work.models for there in asked]
        models = tuple(replace(m, engine=there.name, place=there.device.name) for m, there in pairs)
        facts = "; ".join(str(there.connection.facts) for there in asked)
        try:
            found = _evaluate_all(sources, data, replace(work, models=models, device=facts), **options)
        except DeviceLost as error:
            kept = (
                "what was judged is kept" if options["store"] else "--store FOLDER would keep what is judged"
            )
            error.hint = f"{error.hint}; {kept}"
            raise
        for one, (_, there) in zip(found, pairs, strict=True):
            one.device, one.place = f"{there.device.name}: {there.connection.facts}", there.device.name
    found.unreached = unreached
    return found


def _reached(
    places: Sequence[Device], connected: ExitStack, progress: Progress | None
) -> tuple[list[DeviceEngine], list[str]]:
    """Those devices that can be used, and of the others why not.

    Raises:
        EngineUnavailable: none can be used.
    """
    asked: list[DeviceEngine] = []
    unreached: list[str] = []
    for place in places:
        try:
            asked.append(connected.enter_context(engine_on(place, progress, in_a_row=True)))
        except EngineUnavailable as error:
            # As in a table of times: the others are asked all the same.
            if not asked and place is places[-1]:
                raise
            unreached.append(f"{place.name}: not asked: {error.problem}")
    return asked, unreached


def _given_names(labels: str | os.PathLike[str] | Sequence[str] | None) -> tuple[str, ...] | None:
    found = read_class_names(labels)
    return None if found is None else tuple(found)


def _source(model: Any, engine: str, names: Mapping[str, Any]) -> ModelSource:
    given = {name: value for name, value in names.items() if value is not None}
    return ModelSource(model if isinstance(model, Graph) else Path(model), engine, given)


def _specs(metrics: Sequence[str], several: bool) -> tuple[MetricSpec, ...]:
    usual = [*_USUAL, *(["cosine"] if several else [])]
    asked = [metric_spec(text) for text in metrics]
    # What was asked for replaces what is usual: top(k=3) instead of top(k=5).
    taken = {spec.name for spec in asked}
    return (*(s for s in map(metric_spec, usual) if s.name not in taken), *asked)


def _evaluate_all(
    sources: Sequence[Any],
    data: Any,
    work: Work,
    *,
    asked: bool,
    store: str | None,
    cluster: Any,
    shard_samples: int,
    progress: Progress | None,
) -> Evaluations:
    if not sources:
        raise ParameterError("there are no models to evaluate", hint="name at least one")
    opened = open_models(work)
    samples = _open(data, opened[0], shard_samples)
    check = partial(_check, alone=len(opened) == 1 and not asked)
    # Before any work: a store that cannot be written to is told now, and not after an hour.
    kept = Store(store)
    # Samples from Python are in no file: nothing would tell their results from those of others.
    kept = kept if samples.path else Store()
    if cluster is None:
        merged, answers = run_here(ShardWorker(work, opened), samples, kept, check, progress)
    else:
        from thinflow.optimize.evaluation.cluster import run_on_cluster

        merged, answers = run_on_cluster(work, opened, samples, kept, check, cluster, progress)
    _check_all(merged, alone=len(opened) == 1 and not asked)
    return _results(merged, answers, opened)


def _open(data: Any, model: OpenModel, shard_samples: int) -> Data:
    if isinstance(data, str | os.PathLike):
        return open_dataset(os.fspath(data), shard_samples)
    return Items(data, model.feeding.inputs, shard_samples)


# ------------------------------------------------------------------------------------------- what is refused


def _check(merged: Merged, *, alone: bool) -> None:
    """Refuse a single model without labels, as soon as that is seen.

    Raises:
        ParameterError: nothing can be right or wrong.
    """
    any_label, numbers = merged.labelled
    if not merged.samples or not alone:
        return
    # With the first shard: an hour of work without a label would be for nothing.
    if not any_label:
        raise _without_labels(None)
    if not numbers:
        raise _without_labels(merged.words)
    if not any(meter.result().correct is not None for meter in merged.meters):
        raise ParameterError(
            "the first output is no row of scores, so that its answers are neither right nor wrong",
            hint="name the output with a score for each class: --outputs NAME",
        )


def _check_all(merged: Merged, *, alone: bool) -> None:
    """Refuse what says nothing in the end.

    Raises:
        FeedError: there are no samples, or some have a label and others none.
    """
    if not merged.samples:
        first = next(iter(merged.failed.values()), "") or next(
            (f"{place}: {problem}" for place, problem in merged.damaged), ""
        )
        if first:
            raise FeedError(f"no sample could be read: {first}")
        raise FeedError("there are no samples", hint="give at least one")
    # A sample without a label counts for nothing, which would make another figure of the same name.
    any_label, numbers = merged.labelled
    if 0 < any_label < merged.samples:
        raise FeedError(f"{merged.samples - any_label} of {merged.samples} samples have no label")
    if alone and numbers < any_label:
        raise _without_labels(merged.words)


def _without_labels(found: Sequence[Any] | None) -> ParameterError:
    """The error where nothing can be right or wrong.

    Args:
        found: labels that are no numbers of classes; None if there are none at all.
    """
    if found is None:
        return ParameterError(
            "the samples have no labels", hint="name files LABEL_something, or give a 'labels' array"
        )
    few = ", ".join(sorted({str(label) for label in found})[:3])
    return ParameterError(
        f"the samples are labelled with words ({few}), and the order of the classes is not known",
        hint="give a file of class names, one a line: --labels labels.txt",
    )


# ------------------------------------------------------------------------------------------- what comes of it


def _results(merged: Merged, answers: Answers, opened: Sequence[OpenModel]) -> Evaluations:
    left_out = LeftOut(merged.damaged_count, merged.damaged, merged.failed)
    models = [_evaluation(n, model, merged, answers, left_out) for n, model in enumerate(opened)]
    return Evaluations(models, partial(_wrong, answers, opened, None))


def _evaluation(
    place: int, model: OpenModel, merged: Merged, answers: Answers, left_out: LeftOut
) -> Evaluation:
    quality = merged.meters[place].result()
    known = {f.name: getattr(quality, f.name) for f in fields(quality)}
    confusion = next((m.pairs for m in merged.metrics[place] if isinstance(m, Confusion)), {})
    figures = [f for one in merged.metrics[place] for f in one.figures() if f.value is not None]
    ran = sorted({text.partition(" on ")[2] for text in merged.engines}) or ["this machine"]
    on = [model.source.place] if model.source.place else ran
    preprocessing = model.feeding.scaling.text() if merged.has_pictures else ""
    taken = model.taken(merged.named, merged.has_pictures)
    outputs = tuple(model.session.outputs)
    return Evaluation(
        **(known | {"taken": taken, "outputs": outputs}),
        source=model.source.path,
        engine=f"{model.engine} on {' and '.join(on)}",
        figures=figures,
        confusion=dict(confusion),
        classes=model.names,
        preprocessing=preprocessing,
        left_out=left_out,
        show=partial(_shown, answers, model),
        wrong=partial(_wrong, answers, [model], place),
    )


def _wrong(answers: Answers, models: Sequence[OpenModel], place: int | None) -> Iterator[SampleAnswer]:
    """All samples that were answered wrongly, one shard at a time.

    Args:
        place: of the model that was wrong; None: any.
    """
    for start, result in answers.results():
        for number, where in result.wrong.items():
            label = int(result.labels[number])
            given = result.answers[:, number].tolist()
            mine = given if place is None else [given[place]]
            right = label if label >= 0 else given[0]
            # Samples are listed where any model was wrong; of one model only its own mistakes count.
            if place is not None and mine[0] == right:
                continue
            told = tuple(_word(model, answer) for model, answer in zip(models, mine, strict=True))
            yield SampleAnswer(start + number, where, _word(models[0], label) if label >= 0 else "", told)


def _word(model: OpenModel, answer: int) -> str:
    if answer == NO_ANSWER:
        return ""
    return model.names[answer] if 0 <= answer < len(model.names) else str(answer)


def _shown(answers: Answers, model: OpenModel, quality: Quality) -> Shown:
    """What the samples look like whose answers are told; their shards are read again."""
    numbers = sorted({one.number for one in quality.judged})
    previews: dict[int, Preview] = {}
    places: dict[int, str] = {}
    # Samples that could not be read have no number: both walks leave out the same ones.
    bounds = [*answers.starts, quality.samples]
    for n, shard in enumerate(answers.shards):
        wanted = [number - bounds[n] for number in numbers if bounds[n] <= number < bounds[n + 1]]
        for number, place, found in _looked_at(answers, shard, model, wanted):
            previews[bounds[n] + number], places[bounds[n] + number] = found, place
    return Shown(previews, places, model.names)


def _looked_at(
    answers: Answers, shard: Any, model: OpenModel, wanted: Sequence[int]
) -> Iterator[tuple[int, str, Preview]]:
    """Number, place and looks of some samples of a shard, as they were counted when they were judged."""
    if not wanted:
        return
    judged = -1
    for record in answers.data.records(shard):
        if isinstance(record, Damaged):
            continue
        try:
            feed = model.feeding.feed(record)
        except UnreadableSample:
            continue
        judged += 1
        if judged in wanted:
            yield judged, os.path.basename(record.place), preview(feed.values())
        if judged >= wanted[-1]:
            return
