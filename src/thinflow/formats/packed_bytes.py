"""Bytes of models, packed (.tfpack) or in files of their own; nothing is ever unpacked to a file.

    "thinpack" | u32 length of the header | header, JSON | padding to 64 bytes | payload

The header of a graph in the clear names its inputs and outputs; in an encrypted package those names stand in
front of the model, encrypted with it, and the header says how many bytes they take.

A payload in the clear starts at a multiple of 64 bytes and is used where it is, mapped; its SHA-256 stands in
the header. An encrypted one is decrypted in memory. See `docs/protecting-models.md` for what this protects,
and what not.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from thinflow.errors import FormatError, ParameterError, ThinflowError
from thinflow.formats import sealing
from thinflow.formats.files import map_file, write_file
from thinflow.formats.sealing import note_secret
from thinflow.ir.graph import Graph

MAGIC = b"thinpack"
KEY_VARIABLE = "THINFLOW_KEY"
KEY_FILE_VARIABLE = "THINFLOW_KEY_FILE"
# As for memmapped packages: tensors inside are used where they lie.
_ALIGNMENT = 64
_MAX_HEADER_BYTES = 1 << 20
_MAX_KEY_BYTES = 1 << 16
_VERSION = 1
_NAMED_VERSION = 2
"""Of encrypted packages with names in front of the model, which older readers would take for the model."""
_DAMAGED = "fetch the file again"

_KINDS = frozenset({"tflite", "onnx"})
"""Kinds of packed models that engines run as they are."""


@dataclass(frozen=True)
class Interface:
    """Names of a graph's inputs and outputs, which a GraphDef does not state.

    Attributes:
        inputs, outputs: names of values.
        aliases: other names, such as a signature's -> those.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Interface:
        """The interface of a graph."""
        inputs, outputs = (tuple(v.name for v in values) for values in (graph.inputs, graph.outputs))
        known = {name.removesuffix(":0") for name in (*inputs, *outputs)}
        return cls(inputs, outputs, {n: v for n, v in graph.aliases.items() if v.removesuffix(":0") in known})

    @classmethod
    def read(cls, data: Any) -> Interface:
        """The interface that `data` tells; nothing of None.

        Raises:
            FormatError: it is of another form.
        """
        if data is None:
            return cls()
        try:
            inputs, outputs = (tuple(str(n) for n in data[key]) for key in ("inputs", "outputs"))
            return cls(inputs, outputs, {str(n): str(v) for n, v in data["aliases"].items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError("the names of its inputs and outputs are damaged", hint=_DAMAGED) from error

    @classmethod
    def from_json(cls, text: bytes) -> Interface:
        """The interface in a piece of JSON; nothing in none.

        Raises:
            FormatError: it is damaged.
        """
        try:
            return cls.read(_from_json(text) if text else None)
        except ValueError as error:
            raise FormatError("the names of its inputs and outputs are damaged", hint=_DAMAGED) from error

    def data(self) -> dict[str, Any] | None:
        """The same for JSON; None if nothing is known."""
        if not (self.inputs or self.outputs):
            return None
        return {"inputs": list(self.inputs), "outputs": list(self.outputs), "aliases": dict(self.aliases)}

    def apply(self, graph: Graph) -> None:
        """Set the inputs and outputs of a graph.

        Raises:
            FormatError: it has no such values.
        """
        try:
            graph.inputs = [graph.value(n) for n in self.inputs]
            graph.outputs = [graph.value(n) for n in self.outputs]
        except ThinflowError as error:
            raise FormatError(
                f"it names an input or output that is not there: {error.problem}", hint=_DAMAGED
            ) from error
        graph.aliases = {**graph.aliases, **self.aliases}


@dataclass(frozen=True)
class Pack:
    """An open package.

    Attributes:
        header: what stands in front of the payload.
        raw: that header as bytes, with the magic and its length.
        payload: as stored.
        path: of the file.
    """

    header: dict[str, Any]
    raw: bytes
    payload: memoryview
    path: str

    @property
    def is_encrypted(self) -> bool:
        """True if a key is needed."""
        return "encryption" in self.header

    def model(self, secret: bytes | None = None) -> memoryview:
        """The model's bytes: a view of the file, or decrypted in memory.

        Args:
            secret: key or passphrase; default: looked for, see `find_secret`.

        Raises:
            FormatError: wrong key, or a changed file.
            ParameterError: no key is there.
        """
        return self.contents(secret)[0]

    def contents(self, secret: bytes | None = None) -> tuple[memoryview, Interface]:
        """As `model`, and the names of its inputs and outputs.

        Raises:
            FormatError: wrong key, or a changed file.
            ParameterError: no key is there.
        """
        try:
            if not self.is_encrypted:
                return self._checked(), Interface.read(self.header.get("interface"))
            model = memoryview(self._decrypted(secret))
            size = self.header.get("interface_bytes", 0)
            if not isinstance(size, int) or not 0 <= size <= min(len(model), _MAX_HEADER_BYTES):
                raise FormatError("the header is damaged", hint=_DAMAGED)
            return model[size:], Interface.from_json(bytes(model[:size]))
        except FormatError as error:
            _typed_keys.pop(self.path, None)  # to be asked for again
            raise error.at(self.path) from error

    def _checked(self) -> memoryview:
        # The names count, too: a package whose inputs were swapped would else pass.
        digest = hashlib.sha256(_text(self.header["interface"]) if "interface" in self.header else b"")
        digest.update(self.payload)
        if digest.hexdigest() != self.header.get("sha256"):
            raise FormatError("the checksum is wrong: the file was changed or cut off", hint=_DAMAGED)
        return self.payload

    def _decrypted(self, secret: bytes | None) -> bytes:
        settings = self.header["encryption"]
        try:
            salt, prefix = bytes.fromhex(settings["salt"]), bytes.fromhex(settings["nonce"])
        except (KeyError, TypeError, ValueError) as e:
            raise FormatError("the header does not say how it is encrypted", hint=_DAMAGED) from e
        if len(prefix) != sealing.NONCE_PREFIX_BYTES or len(salt) != sealing.SALT_BYTES:
            raise FormatError("the header does not say how it is encrypted", hint=_DAMAGED)
        key = sealing.key_of(find_secret(self.path) if secret is None else secret, salt)
        # The whole front is authenticated, padding included.
        model = sealing.opened(self.payload, key, prefix, self.raw)
        # After decryption, since a wrong key reveals nothing.
        note_secret()
        return model


def open_pack(path: str | os.PathLike[str]) -> Pack:
    """The package in a file; the payload is not looked at.

    Raises:
        FormatError: it is none, or its header is damaged.
    """
    where = os.fspath(path)
    buffer = map_file(path, unpack=False)
    try:
        size = int.from_bytes(buffer[len(MAGIC) : len(MAGIC) + 4], "little")
        start = len(MAGIC) + 4
        if bytes(buffer[: len(MAGIC)]) != MAGIC or not 0 < size <= _MAX_HEADER_BYTES:
            raise FormatError("this is not a packed model", hint=_DAMAGED)
        header = _from_json(bytes(buffer[start : start + size]))
        if not isinstance(header, dict) or header.get("version") not in (_VERSION, _NAMED_VERSION):
            raise FormatError("it was packed by another version", hint="update thinflow")
        # Rounded up.
        at = -(-(start + size) // _ALIGNMENT) * _ALIGNMENT
        if len(buffer) < at:
            raise FormatError("the file was cut off", hint=_DAMAGED)
    except ValueError as e:
        raise FormatError("the header is damaged", where, _DAMAGED) from e
    except FormatError as e:
        raise e.at(where) from e
    return Pack(header, bytes(buffer[:at]), buffer[at:], where)


def find_secret(path: str) -> bytes:
    """The key: from the file that THINFLOW_KEY_FILE names, from THINFLOW_KEY, or typed at a terminal.

    Raises:
        ParameterError: there is none.
    """
    file = os.environ.get(KEY_FILE_VARIABLE)
    if file:
        return read_key_file(file)
    text = os.environ.get(KEY_VARIABLE)
    if text:
        return text.encode()
    if sys.stdin is not None and sys.stdin.isatty():
        return _typed(path)
    raise ParameterError(
        f"{path} is encrypted and no key is there", hint=f"set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}"
    )


_typed_keys: dict[str, str] = {}


def _typed(path: str) -> bytes:
    """A key asked for at the terminal, once per package however often it is opened."""
    from getpass import getpass

    if path not in _typed_keys:
        _typed_keys[path] = getpass(f"key for {path}: ")
    return _typed_keys[path].encode()


def child_environment(path: str) -> dict[str, str]:
    """Environment variables by which a child process opens a package whose key was typed."""
    return {KEY_VARIABLE: _typed_keys[path]} if path in _typed_keys else {}


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The key in a file: 32 bytes, 64 hexadecimal digits, or a passphrase.

    Raises:
        ParameterError: it cannot be read, or is too long to be one.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as e:
        raise ParameterError(
            f"the key file {os.fspath(path)} cannot be read: {e.strerror}", hint="check the path"
        ) from e
    if len(data) > _MAX_KEY_BYTES:
        raise ParameterError(f"{os.fspath(path)} is too long to be a key", hint="name the file with the key")
    return data


def write_pack(
    path: str | os.PathLike[str],
    chunks: Iterable[bytes | memoryview],
    *,
    kind: str = "graphdef",
    secret: bytes | None = None,
    interface: Interface | None = None,
) -> int:
    """Write a package; the bytes written.

    Args:
        path: target.
        chunks: the model. Of a plain package it is gone through twice, once for its checksum.
        kind: what the model is.
        secret: key or passphrase to encrypt with; None: in the clear.
        interface: names of inputs and outputs, for a model that does not say.
    """
    # Views of weights, not copies: going through them twice costs reading, not memory.
    pieces = list(chunks)
    header: dict[str, Any] = {"version": _VERSION, "kind": kind}
    named = interface.data() if interface is not None else None
    # Names of inputs and outputs are a part of what an encrypted package hides; there
    # they go in front of the model.
    if secret is None:
        if named is not None:
            header["interface"] = named
        digest = hashlib.sha256(_text(named) if named is not None else b"")
        for piece in pieces:
            digest.update(piece)
        header["sha256"] = digest.hexdigest()
        return write_file(path, [_front(header), *pieces])
    if named is not None:
        pieces = [_text(named), *pieces]
        header |= {"version": _NAMED_VERSION, "interface_bytes": len(pieces[0])}
    salt, prefix = sealing.new_salt(), os.urandom(sealing.NONCE_PREFIX_BYTES)
    header["encryption"] = {
        "cipher": "AES-256-GCM",
        "salt": salt.hex(),
        "nonce": prefix.hex(),
    }
    front = _front(header)
    key = sealing.key_of(secret, salt)

    def content() -> Iterator[bytes]:
        yield front
        yield from sealing.sealed(iter(pieces), key, prefix, front)

    return write_file(path, content())


def _from_json(text: bytes) -> Any:
    """The data in a piece of JSON.

    Raises:
        ValueError: it is none, or brackets are nested without end.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _text(data: Any) -> bytes:
    """JSON that is the same for the same data."""
    return json.dumps(data, sort_keys=True).encode()


def _front(header: dict[str, Any]) -> bytes:
    """Everything before the payload."""
    text = _text(header)
    front = MAGIC + len(text).to_bytes(4, "little") + text
    return front.ljust(-(-len(front) // _ALIGNMENT) * _ALIGNMENT, b"\0")


def packed_kind(path: str | os.PathLike[str]) -> str:
    """ "tflite" or "onnx" for a package that holds such a model; else ""."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return ""
        kind = str(open_pack(path).header.get("kind"))
    except (OSError, ThinflowError):
        return ""  # whoever opens it says what is wrong
    return kind if kind in _KINDS else ""


def content_of(path: str | os.PathLike[str]) -> bytes | str:
    """The source that an engine opens: the path of a file, or the bytes of the model in a package.

    Raises:
        FormatError: a wrong key, or a changed package.
        ParameterError: it is encrypted and no key is there.
    """
    return bytes(open_pack(path).model()) if packed_kind(path) else os.fspath(path)


def bytes_of(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a model, mapped where they lie in the clear.

    Raises:
        FormatError: no such file; a wrong key, or a changed package.
    """
    return open_pack(path).model() if packed_kind(path) else map_file(path, unpack=False)
