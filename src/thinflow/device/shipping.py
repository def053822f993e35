"""Models as devices take them: a .tflite file each, with what it is fed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thinflow.bench.inputs import FeedSeries
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile import named_samples, tflite_samples, whole_program
from thinflow.bench.targets import GraphSubject, OnnxSubject, Subject, TFLiteSubject, lifted
from thinflow.engines._files import file_content
from thinflow.errors import EngineUnavailable, ThinflowError
from thinflow.formats.sealing import may_write_copies
from thinflow.ir.graph import Graph
from thinflow.tflite.writer import write_program
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class Shipped:
    """A model for devices.

    Attributes:
        name: in tables.
        path: of the .tflite file on this machine.
        samples: arrays of each sample that it is fed, in the order of the file.
        subject: what it was made from.
    """

    name: str
    path: str
    samples: tuple[tuple[Array, ...], ...]
    subject: Subject

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Those of the first sample."""
        return self.samples[0]


@contextmanager
def shipped(sources: Any, **options: Any) -> Iterator[list[Shipped]]:
    """Models as .tflite files. Those that are none become some, which last as long as this.

    Args:
        sources: as for `benchmark`.
        options: feeds, shapes, inputs, outputs and how to open the models, as for `benchmark`.

    Raises:
        EngineUnavailable: a model does not go whole into such a file.
        FormatError: a file is not a model.
    """
    with TemporaryDirectory(prefix="thinflow-") as folder:
        # As for a benchmark here: names, sizes and feeds are the same in both tables.
        subjects = open_subjects(sources, **options)
        yield [_shipped(subject, Path(folder) / f"{n}.tflite") for n, subject in enumerate(subjects)]


def _shipped(subject: Subject, path: Path) -> Shipped:
    if isinstance(subject, TFLiteSubject):
        content = file_content(subject.path)
        if not isinstance(content, str):
            raise sealed(subject.name)
        samples = tuple(map(tuple, tflite_samples(subject, content)))
        return Shipped(subject.name, content, samples, subject)
    if isinstance(subject, OnnxSubject):
        return _written(_graph_subject(subject, *lifted(subject)), path)
    if isinstance(subject, GraphSubject):
        return _written(subject, path)
    raise EngineUnavailable(
        "devices run the main graph of a file, and no signature", subject.name, hint="leave --signature out"
    )


def _graph_subject(subject: Subject, graph: Graph, samples: Sequence[Sequence[Array]]) -> GraphSubject:
    given = FeedSeries(tuple(samples))
    return GraphSubject(subject.name, subject.path, graph, subject.size_bytes, given)


def _written(subject: GraphSubject, path: Path) -> Shipped:
    samples = named_samples(subject)
    # An input that nothing reads is not in the file.
    inputs = write_whole(subject, path)
    fed = tuple(tuple(by_name[name] for name in inputs) for by_name in samples)
    return Shipped(subject.name, str(path), fed, subject)


def write_whole(subject: GraphSubject, path: Path) -> list[str]:
    """Write a graph, all of it as one .tflite file, for any processor; the names of the file's inputs.

    Raises:
        EngineUnavailable: not all of it goes into such a file.
    """
    if not may_write_copies():
        raise sealed(subject.name)
    try:
        # Not for this machine's processor, which the device has not.
        lowered = whole_program(subject, matrix_unit=False)
    except ThinflowError as error:
        raise EngineUnavailable(
            error.problem,
            error.where,
            hint="devices run whole .tflite files: see what `thinflow convert` makes of it",
        ) from error
    with path.open("wb") as file:
        for chunk in write_program(lowered.program)[1]:
            file.write(chunk)
    return list(lowered.inputs)


def sealed(name: str) -> EngineUnavailable:
    """The error of a package, which devices are not sent."""
    return EngineUnavailable(
        "a package is not sent to a device, where others could read it",
        name,
        hint="unpack it first: thinflow unpack",
    )
