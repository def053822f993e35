"""The models of an evaluation: how each is opened, here or on another machine, and fed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.datasets.fields import Feeding
from thinflow.engines._files import is_file, path_of
from thinflow.engines.session import Session
from thinflow.errors import FeedError, ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.digest import graph_digest
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec
from thinflow.optimize.class_labels import checked_labels, class_numbers
from thinflow.optimize.samples import class_names_for, class_names_of, one_sample
from thinflow.optimize.stated_usage import labels_of, scaling_of, taken_text, usage_of
from thinflow.quantize.sample_files import Scaling
from thinflow.typing import Array


@brief_repr
@dataclass(frozen=True)
class ModelSource:
    """A model that is to be opened.

    Attributes:
        model: a path or a Graph; a Graph does not travel, see `shipped`.
        engine: that runs it; "" for a file's own, and the interpreter of a graph.
        options: how to load it: names of inputs and outputs, and the like.
        content: of the file, where the path means nothing to whoever opens it.
        suffix: of that file.
        names: of the classes, where they are known already.
        place: what the device is called whose engine runs it; "" for this machine.
    """

    model: Any
    engine: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    content: bytes = field(default=b"", repr=False)
    suffix: str = ""
    names: tuple[str, ...] | None = None
    place: str = ""

    @property
    def path(self) -> str:
        """Of the model; "" if it came from memory."""
        return self.model.path if isinstance(self.model, Graph) else os.fspath(self.model)

    @cached_property
    def digest(self) -> str:
        """Of what it computes, for the names of stored results."""
        if self.content:
            return hashlib.sha256(self.content).hexdigest()
        # Of the bytes: a graph would have to be read to know that it is the same.
        if not isinstance(self.model, Graph) and os.path.isfile(self.model):
            return hashlib.sha256(Path(self.model).read_bytes()).hexdigest()
        return graph_digest(self.graph)

    @cached_property
    def graph(self) -> Graph:
        """The model as a graph."""
        from thinflow.load.graphs import load

        return self.model if isinstance(self.model, Graph) else load(self.model, **self.options)

    def shipped(self) -> ModelSource:
        """The same with the bytes of the model, for other machines."""
        from thinflow.formats.graphdef import save

        if is_file(self.model):
            path = path_of(self.model)
            # As it is, byte for byte: it is what ships.
            content, suffix = Path(path).read_bytes(), os.path.splitext(path)[1]
            return replace(self, model=path, content=content, suffix=suffix)
        # The graph with its variables in it: a folder or a checkpoint is many files.
        # Its digest stays that of the bytes: two machines that load it make the same results of it.
        graph = self.graph
        with tempfile.TemporaryDirectory() as folder:
            # By its digest: two models of one name do not take each other's place.
            file = Path(folder) / "model.pb"
            save(graph, file)
            content = file.read_bytes()
        ends = {"inputs": [v.name for v in graph.inputs], "outputs": [v.name for v in graph.outputs]}
        return replace(self, model=self.path or "model.pb", content=content, suffix=".pb", options=ends)

    def unpacked(self, folder: str) -> ModelSource:
        """The same with a file in a folder of this machine in place of the bytes."""
        file = Path(folder) / f"{self.digest}{self.suffix}"
        file.write_bytes(self.content)
        return replace(self, model=str(file), content=b"")


class OpenModel:
    """A model ready to run on records.

    Attributes:
        source: what it was opened from.
        feeding: how records become what it is fed.
        names: of its classes; empty if they are not known.
        engine: that runs it.
        taken: in words, what was taken from its file.

    Args:
        labels: class names or a file of them; None: what the model's file or one beside it says.
        scaling: of pictures; None: what the model's file says.
        fields: see `Feeding`.
    """

    def __init__(
        self,
        source: ModelSource,
        labels: str | os.PathLike[str] | Sequence[str] | None,
        scaling: Scaling | None,
        fields: Mapping[str, str],
    ) -> None:
        self.source = source
        runs_file = is_file(source.model)
        graph = None if runs_file else source.graph
        model = path_of(source.model) if graph is None else graph
        # A graph is judged by the interpreter, which rounds as TensorFlow does; what ships in its own
        # runtime.
        default = "auto" if runs_file else "reference"
        self.session = Session(model, engine=source.engine or default)
        self.engine = "litert" if source.place else self.session.engine
        specs = {name: one_sample(self.session.spec(name)) for name in self.session.inputs}
        usage = usage_of(source.model if graph is None else graph)
        is_left = scaling is None or scaling.keeps_range
        stated = scaling_of(usage, specs, self.session.grids) if is_left else None
        given = Scaling(keeps_range=True) if scaling is None else scaling
        self.feeding = Feeding(specs, given.settled(stated), fields)
        ends = dict(list(self.session.outputs.items())[:1])
        self._output: TensorSpec | None = next(iter(ends.values()), None)
        self.names = self._names(labels, graph)
        self._stated = labels_of(usage, ends) if labels is None and source.names is None else None
        self._usage, self._is_stated = usage, stated is not None
        # A field that is given to no input would be passed over, and the wrong one fed.
        unknown = [name for name in fields if name != "label" and not self._is_input(name)]
        if unknown:
            hint = closest(unknown[0], specs) or f"it has: {', '.join(specs)}; and 'label'"
            raise ParameterError(f"the model has no input '{unknown[0]}'", source.path, hint)

    def _is_input(self, name: str) -> bool:
        return name.removesuffix(":0") in {n.removesuffix(":0") for n in self.session.inputs}

    def _names(self, labels: Any, graph: Graph | None) -> tuple[str, ...]:
        if self.source.names is not None:
            return self.source.names
        if graph is not None:
            return tuple(class_names_of(graph, labels) or ())
        usage = usage_of(self.source.model)
        outputs: dict[str, TensorSpec] = self.session.outputs
        stated = labels_of(usage, outputs) if labels is None else None
        if stated is not None:
            return stated.words
        return tuple(class_names_for(self.session.path, self._output, labels) or ())

    def taken(self, uses_words: bool, has_pictures: bool) -> str:
        """What was taken from its file, in words."""
        return taken_text(self._usage, self._stated if uses_words else None, self._is_stated and has_pictures)

    @property
    def keeps_state(self) -> bool:
        """True if an answer depends on the samples before."""
        return self.session.keeps_state

    def answers(self, feeds: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
        """Output name -> array, for one feed after the other; codes as the numbers they stand for."""
        grids = self.session.grids
        for arrays in self.session.run_each(None, feeds):
            found = zip(self.session.outputs, arrays, strict=True)
            yield {name: _real(array, grids.get(name)) for name, array in found}

    def class_of(self, label: Any, place: str) -> int | None:
        """The number of the class that a label says; None if it is a word or a list, and no class has names.

        Raises:
            FeedError: it is none of the model's classes.
        """
        known = self._class_index
        # Names go before numbers: there are classes called 7.
        if isinstance(label, str):
            if label in known:
                return known[label]
            if not label.isdecimal():
                if not known:
                    return None
                raise FeedError(
                    f"{place} is labelled '{label}', which is no class of the model",
                    hint=closest(label, known) or f"classes are: {', '.join(self.names[:8])}",
                )
            label = int(label)
        number = class_numbers([label], None)
        if number is None:
            return None
        # A label beyond the scores is a mistake of the whole data set, such as a background class.
        checked_labels(number, None, self._output, lambda _: place, is_scores=True)
        return number[0]

    @cached_property
    def _class_index(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def _real(array: Array, grid: tuple[float, int] | None) -> Array:
    """Codes as numbers: the largest stays the largest."""
    if array.dtype.kind not in "iu" or (grid is None and array.dtype.itemsize > 1):
        return array
    # Real numbers, so that an eight-bit model and a float one can be compared output by output; the
    # largest stays the largest, so that answers do not change.
    scale, zero = grid or (1.0, 0)
    return ((array.astype(np.float64) - zero) * scale).astype(np.float32)
