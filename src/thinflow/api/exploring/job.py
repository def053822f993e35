"""The whole of a page: models opened, laid out, coloured and paired."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from thinflow.analysis.shapes import infer_shapes
from thinflow.api.exploring.comparison import compared
from thinflow.api.exploring.sizes import assumed_sizes, assumption, lifted_twin, state_shapes
from thinflow.api.exploring.variables import variable_tensors
from thinflow.engines._files import engine_of
from thinflow.errors import ParameterError
from thinflow.explorer.building import Built, build
from thinflow.explorer.costs import cost_overlays
from thinflow.explorer.document import Document
from thinflow.formats import load as load_file
from thinflow.formats import metagraph, recognise, savedmodel
from thinflow.formats.checkpoint import find_prefix, open_checkpoint
from thinflow.ir.graph import Graph, Value, paused_gc
from thinflow.ir.tensor import Tensor
from thinflow.load.graphs import Source, declare_interface, load
from thinflow.typing import Progress

RUNS = 20
"""Runs of a profile."""
MOST_FEEDS = 8
"""Samples over which noise is measured, each of which runs both models with all their tensors; and that runs
of a profile take in turns."""


@dataclass(frozen=True)
class Overlays:
    """What is asked for beyond what can be read off a graph; see `thinflow.view`."""

    profile: str | None = None
    placement: str | None = None
    error: Source | None = None
    ranges: Any = None
    transforms: Any = None
    calibration: Any = None
    threads: int = 1


@dataclass(frozen=True)
class Opening:
    """How models are opened, and what of them is shown."""

    lifted: bool = False
    weights: bool = True
    tags: str | None = None
    values: bool = False


@dataclass
class Job:
    """A page in the making.

    Attributes:
        document: what is written.
    """

    opening: Opening = field(default_factory=Opening)
    overlays: Overlays = field(default_factory=Overlays)
    progress: Progress | None = None
    document: Document = field(default_factory=lambda: Document(""))

    def make(self, model: Source, other: Source | None, tabs: Sequence[Source]) -> Document:
        """Fill the document.

        Raises:
            ThinflowError: a model cannot be read, or not run where an overlay asks for it.
        """
        if self.overlays.transforms is not None and other is not None:
            raise ParameterError(
                "transforms show one model before and after", hint="leave the second model out"
            )
        with paused_gc():
            builts = [self._built(m) for m in (model, *([other] if other is not None else []))]
            if self.overlays.transforms is not None:
                builts += self._transformed(model, builts[0])
            if len(builts) == 2 and any(b.flat.is_folded for b in builts):
                self.document.notes.append("the two are not compared: nodes of such graphs have no boxes")
            elif len(builts) == 2:
                self.document.comparison = compared(builts[0], builts[1], self.document.texts)
            tabbed = [self._built(m) for m in tabs]
        self.document.title = " and ".join(dict.fromkeys(b.view.label for b in (*builts, *tabbed)))
        free = len(builts[0].view.overlays)
        self._measure(model, other, builts)
        self.document.overlay = next((found.id for found in builts[0].view.overlays[free:]), "")
        return self.document

    def _built(self, source: Source) -> Built:
        lifted = self.opening.lifted or self.overlays.transforms is not None
        if lifted:
            graph = load(source, tags=self.opening.tags)
            return self._added(graph, title_of(graph))
        graph = stored(source, self.opening.tags)
        values: dict[str, Tensor] = {}
        if not isinstance(source, Graph):
            values, problem = variable_tensors(source, self.opening.tags)
            self.document.notes += [problem] if problem else []
        twin = lifted_twin(graph)
        if twin is not None:
            state_shapes(graph, twin)
        return self._added(graph, title_of(graph), values, twin)

    def _added(
        self,
        graph: Graph,
        label: str,
        variables: Mapping[str, Tensor] | None = None,
        twin: Graph | None = None,
    ) -> Built:
        """A graph as a tab, with the overlays that cost nothing to have; `twin` knows more of its sizes."""
        built = build(
            *(graph, label, self.document.texts),
            weights=self.opening.weights,
            values=self.opening.values,
            variables=variables,
            progress=self.progress,
        )
        if not built.flat.is_folded:
            # Shapes are shown as they are known; only costs assume sizes.
            assumed = assumed_sizes(graph)
            said = assumption(assumed)
            if twin is not None:
                infer_shapes(twin, assumed_sizes(twin))
                state_shapes(graph, twin)
            built.flat.infer(assumed)
            built.view.overlays += cost_overlays(built, said)
        self.document.graphs.append(built.view)
        self.document.notes += built.flat.notes
        return built

    def _transformed(self, model: Source, before: Built) -> list[Built]:
        """The graph after some transforms, as a second tab; the first gets their ledger."""
        from thinflow.analysis.shapes import port_count
        from thinflow.api.exploring.transforms import made_overlay, outcome, touched_overlay
        from thinflow.rewrite.runner import run
        from thinflow.transforms import resolve

        graph = load(model, tags=self.opening.tags)
        result = run(graph, resolve(self.overlays.transforms), port_count=port_count, progress=self.progress)
        infer_shapes(result.graph)
        before.view.label = f"{before.view.label}, before"
        after = self._added(result.graph, "after")
        for built in (before, after):
            built.view.facts.insert(0, ("transforms", outcome(result.steps)))
        before.view.overlays.append(touched_overlay(before, result.steps, self.document.texts))
        after.view.overlays.append(made_overlay(after))
        return [after]

    # ---- what has to run

    def _measure(self, model: Source, other: Source | None, builts: Sequence[Built]) -> None:
        wanted, texts = self.overlays, self.document.texts
        shown = [model, *([other] if other is not None else [])]
        for source, built in zip(shown, builts, strict=False):
            if wanted.profile is not None:
                from thinflow.api.exploring.times import time_overlay

                engine = wanted.profile if wanted.profile != "auto" else _usual_engine(source)
                found, notes = time_overlay(
                    *(built, source, texts),
                    engine=engine,
                    threads=wanted.threads,
                    runs=RUNS,
                    feeds=self._in_turns(),
                )
                built.view.overlays.append(found)
                self.document.notes += notes
            if wanted.placement is not None:
                from thinflow.api.exploring.placement import placement_overlay

                runnable = self._runnable(source)
                built.view.overlays.append(placement_overlay(built, runnable, texts, wanted.placement))
            if wanted.ranges is not None:
                from thinflow.api.exploring.ranges import range_overlay
                from thinflow.optimize.samples import samples_for

                graph = self._runnable(source)
                feeds = ({v.name: x for v, x in s.items()} for s in samples_for(graph, wanted.ranges))
                built.view.overlays.append(range_overlay(built, graph, feeds, texts, self.progress))
        if wanted.error is not None:
            self._add_errors(model, wanted.error, other, builts)

    def _add_errors(
        self, model: Source, reference: Source, other: Source | None, builts: Sequence[Built]
    ) -> None:
        from thinflow.api.exploring.errors import error_overlay, measured_over

        a, b = self._runnable(model), self._runnable(reference)
        feeds = self._feeds(model)
        layers = measured_over(a, b, feeds)
        fed = f"{len(feeds)} samples" if len(feeds) > 1 else "one sample" if feeds else "one made-up feed"
        texts = self.document.texts
        mine = error_overlay(builts[0], layers, texts, title_of(b), second=False, fed=fed)
        builts[0].view.overlays.append(mine)
        # The same noise on the nodes of the second, if that is what stands beside the first.
        if other is reference:
            twin = error_overlay(builts[1], layers, texts, title_of(a), second=True, fed=fed)
            builts[1].view.overlays.append(twin)

    def _runnable(self, source: Source) -> Graph:
        """The model as it is run: a file of an engine's own as it is, any other as a frozen graph."""
        return load(source, tags=self.opening.tags, lift=False)

    def _in_turns(self) -> Any:
        """Some of the samples, which the runs of a profile take in turns; None without any."""
        if self.overlays.calibration is None:
            return None
        from thinflow.optimize.fed_samples import SampleFeeds

        return SampleFeeds(self.overlays.calibration, count=MOST_FEEDS)

    def _feeds(self, source: Source) -> list[dict[str, Any]]:
        """The first samples, by the names of the inputs."""
        if self.overlays.calibration is None:
            return []
        from thinflow.optimize.samples import samples_for

        samples = samples_for(self._runnable(source), self.overlays.calibration, limit=MOST_FEEDS)
        return [{v.name: x for v, x in sample.items()} for sample in islice(samples, MOST_FEEDS)]


def _usual_engine(source: Source) -> str:
    """The engine of a file's own, else LiteRT."""
    return engine_of(source.path if isinstance(source, Graph) else os.fspath(source)) or "litert"


def stored(source: Source, tags: str | None) -> Graph:
    """The graph as its file has it, in the file's own ops, with variables and functions; shapes inferred.

    What people see in other viewers under the names they know. What thinflow makes of it, on which transforms
    and schemes work, is `load`'s.
    """
    if isinstance(source, Graph):
        graph = source.clone()  # guessing the ends writes them into the graph
    else:
        kind = recognise(source).name
        if kind == "checkpoint":
            graph = weights_alone(source)
        elif kind == "savedmodel":
            graph = savedmodel.read(source).select(tags).graph
        else:
            graph = metagraph.read(source).graph if kind == "metagraph" else load_file(source)
        signature_ends(os.fspath(source), graph, tags)
    declare_interface(graph)
    return graph


def weights_alone(path: str | os.PathLike[str]) -> Graph:
    """The tensors of a checkpoint as constants of a graph that has nothing else."""
    checkpoint = open_checkpoint(find_prefix(path))
    graph = Graph()
    graph.path = os.fspath(path)
    for name in checkpoint:
        graph.constant(checkpoint[name], graph.unique_name(name))
    return graph


def signature_ends(path: str, graph: Graph, tags: str | None) -> None:
    """Declare what the signatures of a SavedModel take and give; nothing for models without any."""
    kind = recognise(path).name
    if kind not in ("savedmodel", "metagraph"):
        return
    meta = savedmodel.read(path).select(tags) if kind == "savedmodel" else metagraph.read(path)
    inputs: dict[Value, None] = {}
    outputs: dict[Value, None] = {}
    for signature in meta.signatures.values():
        for found, ends in ((inputs, signature.inputs), (outputs, signature.outputs)):
            names = [e.value for e in ends.values() if e.value.partition(":")[0] in graph]
            found.update(dict.fromkeys(map(graph.value, names)))
    if outputs:
        graph.inputs, graph.outputs = list(inputs), list(outputs)


def title_of(graph: Graph) -> str:
    """The name of the graph's file, or "graph"."""
    return Path(graph.path).name or "graph"
