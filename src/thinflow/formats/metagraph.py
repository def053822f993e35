"""MetaGraphs: a graph with what TensorFlow wrote beside it: signatures, variables, savers, objects.

A `.meta` file beside a checkpoint is one; a SavedModel holds one or more. The graph inside stays lazy: its
weights are views of the mapped file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats import graphdef
from thinflow.formats.files import map_file
from thinflow.formats.format import Format, Sample
from thinflow.formats.slices import WHOLE, Slice
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec, dtype
from thinflow.wire import protos
from thinflow.wire.fields import iter_fields, read_varint

TEXT_STARTS = frozenset(
    {b"meta_info_def", b"graph_def", b"saver_def", b"collection_def", b"signature_def", b"asset_file_def"}
)
INIT_OP_KEY = "__saved_model_init_op"
_SAVER_WORDS = frozenset(
    {b"filename_tensor_name", b"save_tensor_name", b"restore_op_name", b"max_to_keep", b"sharded", b"version"}
)
_GRAPH_FIELD = 2
# Where exporters of different ages name the op.
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op", "table_initializer")
_ASSETS = "saved_model_assets"
# TensorFlow 2 notes these ops as outputs of signatures that nobody is to call.
_PSEUDO_SIGNATURES = frozenset({INIT_OP_KEY, "__saved_model_train_op"})


@dataclass(frozen=True)
class Endpoint:
    """One input or output of a signature.

    Attributes:
        value: name of the value in the graph, `node:port`.
        spec: what the signature says of it.
    """

    value: str
    spec: TensorSpec


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs for a caller, by the names the exporter gave.

    Attributes:
        key: its name.
        inputs, outputs: by name, sorted.
        method: what kind of model it is, such as "tensorflow/serving/predict".
    """

    key: str
    inputs: Mapping[str, Endpoint]
    outputs: Mapping[str, Endpoint]
    method: str = ""


@dataclass(frozen=True)
class VariableInfo:
    """Entry of the collections for one variable of TensorFlow 1.

    Attributes:
        name: of its node.
        full_name: of the partitioned variable it is a part of; its own name otherwise.
        part: which part; None for a whole variable.
    """

    name: str
    full_name: str
    part: Slice | None = None


@dataclass
class MetaGraph:
    """One graph and what belongs to it.

    Attributes:
        graph: as it stands in the file, variables and all.
        message: the MetaGraphDef without its graph.
        path: the file.
        folder: the SavedModel's folder, for its assets; the file's folder otherwise.
        checkpoint: prefix of the checkpoint that holds its variables; None if there is none.
    """

    graph: Graph
    message: Any
    path: Path
    folder: Path
    checkpoint: Path | None = None
    _signatures: dict[str, Signature] | None = field(default=None, repr=False)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of a SavedModel's graph, sorted."""
        return tuple(sorted(self.message.meta_info_def.tags))

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """Signatures by key, without those that only name an op."""
        if self._signatures is None:
            self._signatures = {
                key: _signature(key, self.message.signature_def[key])
                for key in sorted(self.message.signature_def)
                if key not in _PSEUDO_SIGNATURES
            }
        return self._signatures

    @property
    def init_ops(self) -> list[str]:
        """The nodes that prepare tables when the model is loaded."""
        names = [n for key in _INIT_COLLECTIONS for n in self._collection(key).node_list.value]
        if INIT_OP_KEY in self.message.signature_def:
            # Newer exporters keep the op under a signature, older ones in a collection.
            names += [info.name for info in self.message.signature_def[INIT_OP_KEY].outputs.values()]
        return list(dict.fromkeys(name.partition(":")[0] for name in names))

    @property
    def has_objects(self) -> bool:
        """True if TensorFlow 2 wrote it, with the objects the variables belong to."""
        return bool(self.message.object_graph_def.nodes)

    def variables(self) -> list[VariableInfo]:
        """The variables the collections of TensorFlow 1 tell of."""
        variables: dict[str, VariableInfo] = {}
        # A variable may be in several collections; local ones are in none of the others.
        for key in ("variables", "trainable_variables", "local_variables", "model_variables"):
            for raw in self._collection(key).bytes_list.value:
                info = _variable(raw)
                variables[info.name] = info
        return list(variables.values())

    def assets(self) -> Iterator[tuple[str, Path]]:
        """The nodes that name a file of the model, each with that file.

        Raises:
            FormatError: the file would lie outside the folder of assets.
        """
        for asset in self._asset_messages():
            yield asset.tensor_info.name.partition(":")[0], asset_path(self.folder, asset.filename)

    def _asset_messages(self) -> Iterator[Any]:
        """Those of TensorFlow 2, or those in the collection of TensorFlow 1."""
        yield from self.message.asset_file_def
        known = {asset.tensor_info.name for asset in self.message.asset_file_def}
        for packed in self._collection(_ASSETS).any_list.value:
            asset = protos.parse("AssetFileDef", packed.value)
            if asset.tensor_info.name not in known:
                yield asset

    def _collection(self, key: str) -> Any:
        """A collection; an empty one if there is none of the name, which looking it up would make."""
        collections = self.message.collection_def
        return collections[key] if key in collections else protos.message("CollectionDef")()


def asset_path(folder: Path, name: str) -> Path:
    """A file below FOLDER/assets.

    Raises:
        FormatError: the name leads elsewhere.
    """
    home = folder / "assets"
    path = home / name
    if not name or os.path.isabs(name) or ".." in Path(name).parts:
        raise FormatError(
            f"the asset '{name}' would lie outside the model's folder", str(folder), "do not trust this model"
        )
    # The text of a name may be harmless where a link in the folder is not.
    if path.exists() and not path.resolve().is_relative_to(home.resolve()):
        raise FormatError(
            f"the asset '{name}' is a link out of the model's folder", str(folder), "copy the file there"
        )
    return path


def _signature(key: str, message: Any) -> Signature:
    def endpoints(infos: Any) -> dict[str, Endpoint]:
        endpoints: dict[str, Endpoint] = {}
        for name in sorted(infos):
            endpoints.update(_endpoints(name, infos[name]))
        return endpoints

    return Signature(key, endpoints(message.inputs), endpoints(message.outputs), message.method_name)


def _endpoints(name: str, info: Any) -> Iterator[tuple[str, Endpoint]]:
    """The values of one TensorInfo: one, or the parts of a sparse or composite tensor."""
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        parts = info.coo_sparse
        yield f"{name}/indices", Endpoint(parts.indices_tensor_name, TensorSpec(dtype("int64"), (None, None)))
        yield (
            f"{name}/values",
            Endpoint(parts.values_tensor_name, TensorSpec(dtype(int(info.dtype)), (None,))),
        )
        yield f"{name}/shape", Endpoint(parts.dense_shape_tensor_name, TensorSpec(dtype("int64"), (None,)))
    elif kind == "composite_tensor":
        for number, part in enumerate(info.composite_tensor.components):
            yield from _endpoints(f"{name}/{number}", part)
    else:
        yield name, Endpoint(info.name, spec_of(info))


def spec_of(info: Any) -> TensorSpec:
    """Element type and shape of a TensorInfo."""
    if info.tensor_shape.unknown_rank:
        return TensorSpec(dtype(int(info.dtype)), None)
    sizes = tuple(None if d.size < 0 else d.size for d in info.tensor_shape.dim)
    return TensorSpec(dtype(int(info.dtype)), sizes)


def _variable(raw: bytes) -> VariableInfo:
    message = protos.parse("VariableDef", raw)
    name = message.variable_name.partition(":")[0]
    info = message.save_slice_info_def
    if not info.full_name:
        return VariableInfo(name, name)
    if len(info.var_offset) != len(info.full_shape) or len(info.var_shape) != len(info.full_shape):
        raise FormatError(f"what the graph says of the part '{name}' does not fit together")
    extents = tuple(
        # As the keys of checkpoints spell a whole dimension.
        (start, WHOLE if not start and length == full else length)
        for start, length, full in zip(info.var_offset, info.var_shape, info.full_shape, strict=True)
    )
    return VariableInfo(name, info.full_name, Slice(extents))


# --- reading ------------------------------------------------------------------------------------------------


def from_bytes(data: memoryview, path: Path, folder: Path) -> MetaGraph:
    """The MetaGraph in a serialized MetaGraphDef. Weights in the graph are views of `data`.

    Raises:
        FormatError: it is none, or has no graph.
    """
    rest: list[memoryview] = []
    graph_data: memoryview | None = None
    at = 0
    for number, _, start, end in iter_fields(data, 0, len(data)):
        if number == _GRAPH_FIELD:
            # Kept out of the message, which protobuf would copy, weights and all, and refuse above 2 GiB.
            graph_data = data[start:end]
        else:
            rest.append(data[at:end])
        at = end
    if graph_data is None:
        raise FormatError("this MetaGraph holds no graph", hint="export it again with its graph")
    message = protos.parse("MetaGraphDef", b"".join(rest))
    graph = graphdef.from_bytes(graph_data)
    graph.path = str(path)
    return MetaGraph(graph, message, path, folder)


def read(path: str | os.PathLike[str]) -> MetaGraph:
    """The MetaGraph in a file of either encoding, with the checkpoint beside it.

    Raises:
        FormatError: no such file, or not a MetaGraph.
    """
    where = Path(path)
    buffer = map_file(path)
    try:
        if Sample(where, bytes(buffer[:4096])).word() in TEXT_STARTS:
            buffer = memoryview(protos.serialize(protos.from_text("MetaGraphDef", bytes(buffer))))
        found = from_bytes(buffer, where, where.parent)
    except FormatError as error:
        raise error.at(str(where)) from error
    found.checkpoint = _checkpoint_beside(where)
    return found


def read_saver(path: str | os.PathLike[str]) -> Any:
    """The SaverDef message in a file of either encoding.

    Raises:
        FormatError: no such file, or not a SaverDef.
    """
    buffer = bytes(map_file(path))
    try:
        if Sample(Path(path), buffer[:4096]).word() in _SAVER_WORDS:
            return protos.from_text("SaverDef", buffer)
        return protos.parse("SaverDef", buffer)
    except FormatError as error:
        raise error.at(os.fspath(path)) from error


def _checkpoint_beside(path: Path) -> Path | None:
    """`model.ckpt-7.meta` belongs to `model.ckpt-7`."""
    prefix = path.with_name(path.name.removesuffix(".gz").removesuffix(".meta"))
    if prefix.name == path.name:
        return None
    from glob import escape

    has_files = Path(f"{prefix}.index").is_file() or prefix.is_file()
    return prefix if has_files or any(path.parent.glob(f"{escape(prefix.name)}-?????-of-?????")) else None


def is_metagraph(sample: Sample) -> bool:
    """True if a file is a MetaGraph: text by its first word, binary by its first field.

    That is a MetaInfoDef, where a GraphDef has a node. Field 2 of a node is its op, an identifier; field 2 of
    a MetaInfoDef is a list of ops, which begins with the tag of its first one.
    """
    if sample.word() in TEXT_STARTS:
        return True
    head = sample.head
    if head[:1] != b"\x0a":
        return False
    try:
        # The first field of a MetaGraph is its MetaInfoDef; only what lies in the sample can be looked at.
        size, at = read_varint(head, 1)
        end = min(at + size, len(head))
        while at < end:
            tag, at = read_varint(head, at)
            length, at = read_varint(head, at)
            if tag == 0x12:
                return head[at : at + 1] == b"\x0a"
            if tag not in (0x0A, 0x22, 0x2A, 0x32):  # the other texts of a MetaInfoDef
                return False
            at += length
    except FormatError:
        return False
    # No list of ops where one could look: the other texts of a MetaInfoDef tell enough.
    return bool(size)


FORMAT = Format("metagraph", "a MetaGraph", is_metagraph, rank=30)
