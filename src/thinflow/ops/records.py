"""Bytes that hold tables, tensors or compressed bytes."""

from __future__ import annotations

import zlib

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import STRING, DType, TensorSpec, dtype
from thinflow.ops._tensor_proto import parsed_tensor, tensor_bytes
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import StringToNumber, _map, _Textual
from thinflow.typing import Array


@op("SerializeTensor")
class SerializeTensor(OpDef):
    """x as a TensorProto, in bytes []."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, ())

    @staticmethod
    def kernel(x: Array, *, T: DType | None = None) -> Array:
        return np.array(tensor_bytes(x, T), object)


@op("ParseTensor")
class ParseTensor(OpDef):
    """The tensor in a TensorProto, bytes [] -> out_type."""

    decodes = "records"

    @staticmethod
    def infer(serialized: TensorSpec, *, out_type: DType) -> TensorSpec:
        return TensorSpec(out_type)

    @staticmethod
    def kernel(serialized: Array, *, out_type: DType) -> Array:
        element, x = parsed_tensor(serialized.item())
        require(element is out_type, f"the message holds {element}, not {out_type}")
        return x


@op("DecodeCompressed")
class DecodeCompressed(_Textual):
    """y = each string uncompressed: `ZLIB`, `GZIP`, or "" for as it is."""

    decodes = "bytes"

    @staticmethod
    def kernel(x: Array, *, compression_type: str = "") -> Array:
        require(compression_type in ("", "ZLIB", "GZIP"), f"'{compression_type}' is not ZLIB or GZIP")
        if not compression_type:
            return x
        # zlib's window of 2^15 bytes; 16 more ask for the header of gzip.
        bits = 31 if compression_type == "GZIP" else 15
        return _map(lambda s: _inflated(s, bits), object, x)


# A small string can inflate to anything.
MAX_INFLATED = 1 << 31


def _inflated(data: bytes, bits: int) -> bytes:
    """Every stream in the data, one after the other."""
    parts: list[bytes] = []
    total = 0
    while data:
        engine = zlib.decompressobj(bits)
        try:
            # One byte more than allowed: a limit of 0 would be none at all for zlib.
            parts.append(engine.decompress(data, MAX_INFLATED - total + 1))
        except zlib.error as error:
            raise FormatError(
                f"the bytes cannot be uncompressed: {error}", hint="are they compressed?"
            ) from error
        total += len(parts[-1])
        require(total <= MAX_INFLATED, f"the bytes uncompress to more than {MAX_INFLATED}")
        if not engine.eof:
            raise FormatError("the compressed bytes are cut short", hint="check what is fed to this node")
        # gzip files may be several streams in a row (RFC 1952).
        data = engine.unused_data
    return b"".join(parts)


@op("DecodeCSV")
class DecodeCSV(OpDef):
    """One tensor per column of records, like records, of the column's type.

    records, then for each column its default [] or [1], or [0] if it must be there. select_cols: which
    columns of the records are meant, in rising order. Source: RFC 4180.
    """

    decodes = "CSV"

    num_outputs = "OUT_TYPE"

    @staticmethod
    def infer(records: TensorSpec, *defaults: TensorSpec) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(d.dtype, records.shape) for d in defaults)

    @staticmethod
    def kernel(
        records: Array,
        *defaults: Array,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: tuple[int, ...] = (),
    ) -> tuple[Array, ...]:
        require(len(field_delim.encode()) == 1, "field_delim must be a single byte")
        require(
            all(d.size <= 1 and d.ndim <= 1 for d in defaults), "a default is a scalar or a vector of 0 or 1"
        )
        require(
            not select_cols or len(select_cols) == len(defaults),
            f"{len(select_cols)} columns are selected, and there are {len(defaults)} defaults",
        )
        mark = field_delim.encode()
        chosen = select_cols or tuple(range(len(defaults)))
        columns: list[list[bytes]] = [[] for _ in defaults]
        for number, record in enumerate(records.ravel().tolist()):
            found = _csv_fields(record, mark, use_quote_delim, number)
            # With select_cols further fields may follow; without it every field must have its column.
            enough = len(found) > max(chosen, default=-1) if select_cols else len(found) == len(defaults)
            require(enough, f"record {number} has {len(found)} fields, {len(defaults)} are expected")
            for column, place in zip(columns, chosen, strict=True):
                column.append(found[place])
        missing = {b"", na_value.encode()}
        return tuple(
            _column(column, default, missing, number).reshape(records.shape)
            for number, (column, default) in enumerate(zip(columns, defaults, strict=True))
        )


def _column(words: list[bytes], default: Array, missing: set[bytes], number: int) -> Array:
    y: Array = np.empty(len(words), default.dtype)
    given = [i for i, w in enumerate(words) if w not in missing]
    if len(given) < len(words):
        require(default.size == 1, f"field {number} is required but missing in a record")
        y[:] = default.item() if default.dtype.hasobject else default.ravel()[0]
    texts: Array = np.empty(len(given), object)
    texts[:] = [words[i] for i in given]
    y[given] = (
        texts if default.dtype.hasobject else StringToNumber.kernel(texts, out_type=dtype(default.dtype))
    )
    return y


def _csv_fields(record: bytes, mark: bytes, quotes: bool, number: int) -> list[bytes]:
    """The fields of one record, quotes taken off."""
    found: list[bytes] = []
    at = 0
    if not record:
        return found
    while True:
        if quotes and record[at : at + 1] == b'"':
            field, at = _quoted(record, at + 1, number)
            require(at == len(record) or record[at : at + 1] == mark, f"record {number}: text behind a quote")
        else:
            end = record.find(mark, at)
            end = len(record) if end < 0 else end
            field = record[at:end]
            plain = not quotes or not any(c in field for c in (b'"', b"\n", b"\r"))
            require(plain, f"record {number}: a field has a quote or a line's end and is not in quotes")
            at = end
        found.append(field)
        if at >= len(record):
            return found
        at += 1


def _quoted(record: bytes, at: int, number: int) -> tuple[bytes, int]:
    """A field whose opening quote has been passed, and where the next thing starts."""
    parts: list[bytes] = []
    while True:
        end = record.find(b'"', at)
        require(end >= 0, f"record {number}: a quote is not closed")
        parts.append(record[at:end])
        # Two quotes are one quote of the text (RFC 4180, rule 7).
        if record[end + 1 : end + 2] != b'"':
            return b"".join(parts), end + 1
        parts.append(b'"')
        at = end + 2
