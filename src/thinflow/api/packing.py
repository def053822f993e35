"""Models with a checksum, or encrypted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from thinflow.errors import ParameterError
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph


def pack(
    source: Source,
    path: str | os.PathLike[str],
    *,
    key: bytes | str | None = None,
    obfuscate: bool = True,
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
) -> int:
    """Write a model as a package that every function here opens; the bytes written.

    Args:
        source: any model thinflow opens as a graph; a .tflite or .onnx is packed as it is, together
            with the weights that it keeps in files beside it.
        path: target, for example model.tfpack.
        key: passphrase, or 32 bytes, to encrypt with; None: in the clear, with a checksum.
        obfuscate: replace the names of nodes that are neither input nor output.
        inputs, outputs: names to keep, which the package says are the model's inputs and outputs; default:
            the graph's own, else the best guess.

    Raises:
        ParameterError: encryption without the cryptography package, or an empty key.
        WriteError: it cannot be written.
    """
    from thinflow.engines._files import path_of
    from thinflow.formats.packed_bytes import Interface, write_pack

    secret = key.encode() if isinstance(key, str) else key
    # An empty passphrase is most likely a variable that was not set.
    if secret is not None and not secret:
        raise ParameterError("the key is empty", hint="give a passphrase, or 32 random bytes")
    kind = _stored_kind(source)
    if kind:
        from thinflow.formats.one_piece import as_one_piece

        return write_pack(path, [as_one_piece(path_of(source), kind)], kind=kind, secret=secret)
    from thinflow.formats import graphdef

    graph = _prepared(source, obfuscate, inputs, outputs)
    return write_pack(path, graphdef.to_chunks(graph), secret=secret, interface=Interface.of(graph))


def _stored_kind(source: Source) -> str:
    """ "tflite" or "onnx" for such a model, told by its content; else ""."""
    from thinflow.engines._files import engine_of
    from thinflow.formats.format import formats

    engine = engine_of(source)
    # What cannot be read as a graph cannot be put into one piece.
    return next((f.name for f in formats() if engine and f.engine == engine and f.load is not None), "")


def _prepared(source: Source, obfuscate: bool, inputs: list[str] | None, outputs: list[str] | None) -> Graph:
    from thinflow.api.transforming import transform
    from thinflow.load.graphs import load

    graph = load(source, inputs=inputs, outputs=outputs)
    if not obfuscate:
        return graph
    names = [[v.name for v in values] for values in (graph.inputs, graph.outputs)]
    # Names are all that changes: there is nothing to verify.
    return transform(graph, "obfuscate_names", names[0], names[1], verify=False)


def unpack(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, key: bytes | str | None = None
) -> int:
    """Write the model of a package to a file in the clear; the bytes written.

    Raises:
        FormatError: not a package, a wrong key, or a changed file.
    """
    from thinflow.formats.files import write_file
    from thinflow.formats.packed_bytes import open_pack

    secret = key.encode() if isinstance(key, str) else key
    return write_file(path, [open_pack(source).model(secret)])


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The key in a file: 32 bytes, 64 hexadecimal digits, or a passphrase."""
    from thinflow.formats.packed_bytes import read_key_file as read

    return read(path)
