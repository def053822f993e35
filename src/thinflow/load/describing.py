"""Contents of the files of a model, before anything of it is opened.

Of a SavedModel or a MetaGraph its graphs, signatures and variables, in words and as data; of a checkpoint
each variable: whether its bytes are sound, and what its numbers are like.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FormatError, ThinflowError
from thinflow.formats import metagraph, recognise, savedmodel
from thinflow.formats.checkpoint import Checkpoint, open_checkpoint
from thinflow.formats.metagraph import Endpoint, MetaGraph, Signature
from thinflow.formats.slices import Place
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING, VARIANT, TensorSpec
from thinflow.load.checkpoint_keys import variables
from thinflow.progress import counted
from thinflow.typing import Array


@brief_repr
@dataclass
class GraphInfo:
    """One graph of a model.

    Attributes:
        tags: of a SavedModel's graph.
        signatures: by key.
        nodes: of the main graph.
        functions: in its library.
        variables: nodes of the main graph that are variables.
        assets: names of the files it needs.
        has_objects: whether TensorFlow 2 wrote it.
        version: of the TensorFlow that wrote it; "" if it does not say.
    """

    tags: tuple[str, ...]
    signatures: Mapping[str, Signature]
    nodes: int
    functions: int
    variables: int
    assets: Sequence[str]
    has_objects: bool
    version: str


@brief_repr
@dataclass
class ModelInfo:
    """A SavedModel or a MetaGraph.

    Attributes:
        path: its folder or file.
        format: "savedmodel" or "metagraph".
        graphs: in the order of the file.
        checkpoint: where the values are; None without variables, or if they are missing.
        problem: why the checkpoint cannot be read; "" if it can.
        facts: what Keras noted of the model: topic -> text.
    """

    path: str
    format: str
    graphs: list[GraphInfo]
    checkpoint: Checkpoint | None = None
    problem: str = ""
    shards: int = 0
    value_bytes: int = field(default=0)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The kind of model: "a TensorFlow 2 SavedModel"."""
        if self.format != "savedmodel":
            return "a MetaGraph"
        return f"a TensorFlow {2 if any(g.has_objects for g in self.graphs) else 1} SavedModel"

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "path": self.path,
            "format": self.format,
            "graphs": [_graph_data(g) for g in self.graphs],
            "variables": len(self.checkpoint) if self.checkpoint is not None else None,
            "variable_bytes": self.value_bytes,
            "shards": self.shards,
            "problem": self.problem,
            **({"keras": self.facts} if self.facts else {}),
        }


def describe(path: str | os.PathLike[str]) -> ModelInfo | None:
    """Content of a SavedModel or a MetaGraph; None for a file of another kind.

    Raises:
        FormatError: no such file, or a damaged one.
    """
    kind = recognise(path).name
    if kind == "savedmodel":
        graphs = savedmodel.read(path).graphs
    elif kind == "metagraph":
        graphs = [metagraph.read(path)]
    else:
        return None
    info = ModelInfo(os.fspath(path), kind, [_graph_info(g) for g in graphs])
    info.facts = dict(graphs[0].graph.facts)
    prefix = next((g.checkpoint for g in graphs if g.checkpoint is not None), None)
    if prefix is not None:
        _look_at(info, prefix)
    return info


def _look_at(info: ModelInfo, prefix: Path) -> None:
    try:
        info.checkpoint = open_checkpoint(prefix)
        info.value_bytes = sum(size_bytes(info.checkpoint, name) for name in info.checkpoint)
    except ThinflowError as error:
        # A model whose checkpoint is damaged or gone can still be described.
        info.problem = error.message
    # A checkpoint of version 1 may be a single file without a number.
    info.shards = len(list(prefix.parent.glob(f"{_escaped(prefix.name)}*-?????-of-?????"))) or 1


def _escaped(name: str) -> str:
    from glob import escape

    return escape(name)


def size_bytes(checkpoint: Checkpoint, name: str) -> int:
    """Bytes of a variable's numbers; of text those that are stored."""
    spec = checkpoint.spec(name)
    if spec.dtype is not None and spec.dtype.itemsize:
        count = spec.dtype.itemsize
        for size in spec.shape or ():
            count *= size or 0
        return count
    return checkpoint.tensor(name).storage.stored_bytes


def _graph_info(meta: MetaGraph) -> GraphInfo:
    return GraphInfo(
        tags=meta.tags,
        signatures=meta.signatures,
        nodes=len(meta.graph),
        functions=len(meta.graph.functions),
        variables=sum(1 for _ in variables(meta.graph)),
        assets=[path.name for _, path in meta.assets()],
        has_objects=meta.has_objects,
        version=meta.message.meta_info_def.tensorflow_version,
    )


def _graph_data(graph: GraphInfo) -> dict[str, Any]:
    return {
        "tags": list(graph.tags),
        "signatures": {
            key: {"inputs": _ends(s.inputs), "outputs": _ends(s.outputs), "method": s.method}
            for key, s in graph.signatures.items()
        },
        "nodes": graph.nodes,
        "functions": graph.functions,
        "variables": graph.variables,
        "assets": list(graph.assets),
        "tensorflow": graph.version,
    }


def _ends(endpoints: Mapping[str, Endpoint]) -> dict[str, Any]:
    return {
        name: {
            "value": e.value,
            "dtype": e.spec.dtype.name if e.spec.dtype is not None else None,
            "shape": list(e.spec.shape) if e.spec.shape is not None else None,
        }
        for name, e in endpoints.items()
    }


# --- checkpoints --------------------------------------------------------------------------------------------


_CHUNK = 1 << 20  # elements looked at together, so that large variables take little memory


@dataclass(frozen=True)
class NumberStats:
    """Statistics of the numbers of a variable.

    Attributes:
        minimum, maximum, mean: of those that are finite; None if none is, or if their sum overflows.
        nans, infinities: how many are not.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    nans: int
    infinities: int


@brief_repr
@dataclass(frozen=True)
class VariableState:
    """A variable as it stands in the files.

    Attributes:
        name: its key.
        spec: element type and shape.
        places: shards and bytes, one for each part.
        problem: what is wrong with it, and where; "" if its checksum is right.
        stats: None for text, complex numbers, objects, and what cannot be read.
    """

    name: str
    spec: TensorSpec
    places: list[Place]
    problem: str
    stats: NumberStats | None = None


def variable_states(checkpoint: Checkpoint, *, with_stats: bool = False) -> Iterator[VariableState]:
    """The state of each variable, in order. Every byte is read; damage to one leaves the others.

    Args:
        checkpoint: open.
        with_stats: look at the numbers, too.
    """
    names = checkpoint.keys_of_all()
    for name in counted(names, len(names), "checking variables"):
        yield _state(checkpoint, name, with_stats)


def _state(checkpoint: Checkpoint, name: str, with_stats: bool) -> VariableState:
    spec = checkpoint.spec(name)
    places: list[Place] = []
    try:
        places = checkpoint.places(name)
        if spec.dtype is VARIANT:  # an object that only TensorFlow can build, numbers it has none
            return VariableState(name, spec, places, "")
        value = checkpoint.tensor(name).numpy()
    except FormatError as error:
        return VariableState(name, spec, places, error.message)
    stats = number_stats(value) if with_stats and spec.dtype is not STRING else None
    return VariableState(name, spec, places, "", stats)


def number_stats(values: Array) -> NumberStats | None:
    """Statistics of the numbers of an array; None if it holds no ordered ones."""
    if values.dtype.kind in "cOSU":
        return None
    flat = values.reshape(-1)
    lows, highs, total, count, nans, infinities = [], [], 0.0, 0, 0, 0
    for start in range(0, flat.size, _CHUNK):
        with np.errstate(all="ignore"):  # any bits may stand in a file
            # In float64, where sums of float16 and of large integers do not overflow.
            chunk = flat[start : start + _CHUNK].astype(np.float64)
            finite = chunk[np.isfinite(chunk)]
            total += float(finite.sum())
        missing = int(np.isnan(chunk).sum())
        nans, infinities = nans + missing, infinities + chunk.size - finite.size - missing
        count += finite.size
        if finite.size:
            lows.append(float(finite.min()))
            highs.append(float(finite.max()))
    if not count:
        return NumberStats(None, None, None, nans, infinities)
    # float64 values near the limit may still add up to infinity.
    mean = total / count if math.isfinite(total) else None
    return NumberStats(min(lows), max(highs), mean, nans, infinities)
