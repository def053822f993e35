"""Text in other encodings: decoding to code points, encoding, transcoding, scripts."""

from __future__ import annotations

import codecs
import re
from functools import cache
from itertools import pairwise

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import INT32, INT64, STRING, DType, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import _map, _Textual
from thinflow.typing import Array

_MARK = 0xDC00
"""A lone low surrogate, which no text decodes to, plus a length: that many bytes are no text."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(_MARK + error.end - error.start), error.end


@cache
def _codec(name: str) -> codecs.CodecInfo:
    """Python's codec for one of ICU's names; both ignore case, `-` and `_`."""
    # Here and not at import, for the cache runs it once per encoding only; registering again is harmless.
    codecs.register_error("thinflow.marked", _marked)
    plain = re.sub(r"[-_ ]", "", name).lower()
    try:
        # Without a mark of byte order, ICU takes these to be big endian.
        return codecs.lookup({"utf16": "utf-16-be", "utf32": "utf-32-be"}.get(plain, name))
    except LookupError:
        raise UnsupportedOp(f"'{name}' is no text encoding that is known here", hint="use UTF-8") from None


def _decoded(data: bytes, encoding: str) -> list[tuple[int, int]]:
    """(code point, or minus one for bytes that are no text; number of bytes) for each character."""
    codec = _codec(encoding)
    text, _ = codec.decode(data, "thinflow.marked")
    found: list[tuple[int, int]] = []
    lengths: dict[str, int] = {}
    for character in text:
        point = ord(character)
        # One of the marks that `_marked` put in: its distance is the number of bytes.
        if _MARK < point < 0xE000:
            found.append((-1, point - _MARK))
            continue
        # Codecs do not tell where a character began; encoding it again gives its length.
        if character not in lengths:
            lengths[character] = len(codec.encode(character)[0])
        found.append((point, lengths[character]))
    return found


def _cleaned(
    characters: list[tuple[int, int]], errors: str, replacement: int, controls: bool
) -> list[tuple[int, int]]:
    """The characters, what is wrong among them replaced or left out as `errors` says."""
    kept: list[tuple[int, int]] = []
    for point, length in characters:
        wrong = point < 0 or (controls and point <= 0x1F)
        require(not (wrong and errors == "strict"), "the text is not valid in its encoding", _HINT)
        if wrong and errors == "ignore":
            # Left out of the text, but its bytes still count for the offsets behind it.
            kept.append((-1, length))
        else:
            kept.append((replacement if wrong else point, length))
    return kept


_HINT = "errors='replace' puts a sign in its place"


def _encoded(points: list[int], encoding: str) -> bytes:
    return "".join(map(chr, points)).encode(
        {"UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}.get(encoding, "utf-8")
    )


def _is_character(point: int) -> bool:
    return 0 <= point < 0xD800 or 0xE000 <= point <= 0x10FFFF


@op("UnicodeTranscode")
class UnicodeTranscode(_Textual):
    """y = each string in another encoding; `errors` says what becomes of what is no text."""

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        output_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
    ) -> Array:
        def convert(data: bytes) -> bytes:
            found = _cleaned(
                _decoded(data, input_encoding), errors, replacement_char, replace_control_characters
            )
            return _encoded([p for p, _ in found if p >= 0], output_encoding)

        return _map(convert, object, x)


@op("UnicodeDecodeWithOffsets")
class UnicodeDecodeWithOffsets(OpDef):
    """(row splits, code points, byte offsets) of the characters of each string.

    x, n strings -> Tsplits [n+1], int32 [m], int64 [m].
    """

    num_outputs = 3

    @staticmethod
    def infer(x: TensorSpec, *, Tsplits: DType = INT64) -> tuple[TensorSpec, ...]:
        count = None if x.size is None else x.size + 1
        return TensorSpec(Tsplits, (count,)), TensorSpec(INT32, (None,)), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
        Tsplits: DType = INT64,
    ) -> tuple[Array, ...]:
        points, offsets, splits = list[int](), list[int](), [0]
        for data in x.ravel().tolist():
            at = 0
            found = _cleaned(
                _decoded(data, input_encoding), errors, replacement_char, replace_control_characters
            )
            for point, length in found:
                if point >= 0:
                    points.append(point)
                    offsets.append(at)
                at += length
            splits.append(len(points))
        return np.array(splits, Tsplits.numpy()), np.array(points, np.int32), np.array(offsets, np.int64)


@op("UnicodeDecode")
class UnicodeDecode(OpDef):
    """As UnicodeDecodeWithOffsets, without the offsets."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, Tsplits: DType = INT64) -> tuple[TensorSpec, ...]:
        return UnicodeDecodeWithOffsets.infer(x, Tsplits=Tsplits)[:2]

    @staticmethod
    def kernel(
        x: Array,
        *,
        input_encoding: str,
        errors: str = "replace",
        replacement_char: int = 65533,
        replace_control_characters: bool = False,
        Tsplits: DType = INT64,
    ) -> tuple[Array, ...]:
        return UnicodeDecodeWithOffsets.kernel(
            x,
            input_encoding=input_encoding,
            errors=errors,
            replacement_char=replacement_char,
            replace_control_characters=replace_control_characters,
            Tsplits=Tsplits,
        )[:2]


@op("UnicodeEncode")
class UnicodeEncode(OpDef):
    """y = strings of the code points of each row.   points int32 [m], splits [n+1] -> [n]."""

    @staticmethod
    def infer(points: TensorSpec, splits: TensorSpec) -> TensorSpec:
        (count,) = rank_of(splits, 1, "splits")
        return TensorSpec(STRING, (None if count is None else max(count - 1, 0),))

    @staticmethod
    def kernel(
        points: Array,
        splits: Array,
        *,
        errors: str = "replace",
        output_encoding: str,
        replacement_char: int = 65533,
    ) -> Array:
        ends = splits.tolist()
        require(
            bool(ends) and ends[0] == 0 and ends[-1] == len(points), "the splits do not fit the code points"
        )
        require(ends == sorted(ends), "the splits go back")
        characters = [(p if _is_character(p) else -1, 0) for p in points.tolist()]
        clean = [p for p, _ in _cleaned(characters, errors, replacement_char, False)]
        y: Array = np.empty(len(ends) - 1, object)
        for row, (start, end) in enumerate(pairwise(ends)):
            y[row] = _encoded([p for p in clean[start:end] if p >= 0], output_encoding)
        return y


@op("UnicodeScript")
class UnicodeScript(OpDef):
    """y = ICU's number of the script of each code point, int32; -1 for what is no code point."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, x.shape)

    @staticmethod
    def kernel(x: Array) -> Array:
        return script_of(x)


# ---- The script of each Unicode code point, in ICU's numbers (`UScriptCode`).
#
# The table says for each run of code points how far it starts behind the one before, in base 36, and its
# script. Source: Unicode's Scripts.txt as in the ICU of TensorFlow 2.21.


@cache
def _runs() -> tuple[Array, Array]:
    """Starts of the runs, and their scripts."""
    pairs = [entry.split(".") for entry in _RUNS.split()]
    starts = np.cumsum([int(gap, 36) for gap, _ in pairs])
    return starts, np.array([int(script) for _, script in pairs], np.int32)


def script_of(points: Array) -> Array:
    """The script of each code point, int32; -1 for numbers that are none."""
    starts, scripts = _runs()
    found = scripts[np.searchsorted(starts, points, side="right") - 1]
    return np.where((points < 0) | (points > 0x10FFFF), np.int32(-1), found)


# gap.script: 103 is ICU's USCRIPT_UNKNOWN (unassigned), 0 its USCRIPT_COMMON, 25 Latin.
_RUNS = """
0.0 1t.25 q.0 6.25 q.0 1b.25 1.0 f.25 1.0 5.25 n.0 1.25 v.0 1.25 ch.0 13.25 5.0 5.5 2.0 k.1 34.14 4.0
1.14 3.103 2.14 4.0 1.14 1.103 4.14 1.0 1.14 1.0 1.14 3.103 1.14 1.103 1.14 k.103 1.14 1r.7 e.14 g.8
3p.1 2.8 4p.103 1.3 12.103 2.3 1e.103 2.3 3.103 1.19 1j.103 8.19 r.103 4.19 6.103 b.2 5.0 1.2 6.0 1.2
e.0 1.2 1.103 1.2 1.0 1.2 w.0 1.2 a.1 b.2 q.1 1.2 30.0 1.2 y.34 e.103 1.34 1o.103 2.34 3.2 1c.37 1e.103
e.87 1n.103 2.87 3.126 1a.103 2.126 f.103 1.84 s.103 2.84 1.103 1.34 b.103 1h.2 l.103 1.2 i.103 b.2 f.0
1.2 t.10 29.1 4.10 f.0 2.10 q.4 4.103 1.4 8.103 2.4 2.103 2.4 m.103 1.4 7.103 1.4 1.103 3.4 4.103 2.4
9.103 2.4 2.103 2.4 4.103 8.4 1.103 4.4 2.103 1.4 5.103 2.4 p.103 2.16 3.103 1.16 6.103 4.16 2.103 2.16
m.103 1.16 7.103 1.16 2.103 1.16 2.103 1.16 2.103 2.16 1.103 1.16 5.103 4.16 2.103 2.16 3.103 3.16 1.103
7.16 4.103 1.16 1.103 7.16 h.103 a.15 3.103 1.15 9.103 1.15 3.103 1.15 m.103 1.15 7.103 1.15 2.103 1.15
5.103 2.15 a.103 1.15 3.103 1.15 3.103 2.15 1.103 f.15 4.103 2.15 c.103 7.15 7.103 1.31 3.103 1.31 8.103
2.31 2.103 2.31 m.103 1.31 7.103 1.31 2.103 1.31 5.103 2.31 9.103 2.31 2.103 2.31 3.103 7.31 3.103 4.31
2.103 1.31 5.103 2.31 i.103 a.35 2.103 1.35 6.103 3.35 3.103 1.35 4.103 3.35 2.103 1.35 1.103 1.35 2.103
3.35 2.103 3.35 3.103 3.35 c.103 4.35 5.103 3.35 3.103 1.35 4.103 2.35 1.103 6.35 1.103 e.35 l.103 5.36
d.103 1.36 3.103 1.36 n.103 1.36 g.103 3.36 8.103 1.36 3.103 1.36 4.103 7.36 2.103 1.36 3.103 5.36 4.103
2.36 a.103 7.36 9.21 d.103 1.21 3.103 1.21 n.103 1.21 a.103 1.21 5.103 2.21 9.103 1.21 3.103 1.21 4.103
7.21 2.103 7.21 1.103 1.21 4.103 2.21 a.103 1.21 2.103 d.26 d.103 1.26 3.103 1.26 1f.103 1.26 3.103 1.26
6.103 4.26 g.103 2.26 q.103 1.33 3.103 1.33 i.103 3.33 o.103 1.33 9.103 1.33 1.103 2.33 7.103 3.33 1.103
4.33 6.103 1.33 1.103 1.33 8.103 6.33 a.103 2.33 3.103 c.38 1m.103 4.0 1.38 s.103 11.24 2.103 1.24 1.103
1.24 5.103 1.24 o.103 1.24 1.103 1.24 n.103 2.24 5.103 1.24 1.103 1.24 6.103 2.24 a.103 2.24 4.103 w.39
20.103 1.39 10.103 4.39 13.103 1.39 10.103 1.39 f.103 1.39 7.0 4.39 2.103 11.28 4g.12 12.103 1.12 1.103
5.12 1.103 2.12 17.0 1.12 4.18 74.11 21.103 1.11 4.103 2.11 7.103 1.11 1.103 1.11 4.103 2.11 15.103 1.11
4.103 2.11 x.103 1.11 4.103 2.11 7.103 1.11 1.103 1.11 4.103 2.11 f.103 1.11 1l.103 1.11 4.103 2.11
1v.103 2.11 w.103 3.11 q.103 6.6 2e.103 2.6 6.103 2.40 hs.29 t.103 3.32 23.0 3.32 b.103 7.42 d.103 1.42
7.103 b.43 l.0 2.103 9.44 k.103 c.45 d.103 1.45 3.103 1.45 2.103 c.23 2m.103 2.23 a.103 6.23 a.103 6.27
2.0 2.27 1.0 1.27 9.103 1.27 a.103 6.27 2h.103 7.27 17.103 5.40 1y.103 a.48 v.103 1.48 c.103 4.48 c.103
4.48 1.103 3.48 c.52 u.103 2.52 5.103 b.59 18.103 4.59 q.103 6.59 b.103 3.59 2.23 w.55 s.103 2.55 2.106
1r.103 1.106 t.103 2.106 b.103 6.106 a.103 6.106 e.103 2.1 h.103 1r.62 24.103 4.62 19.103 3.113 1s.63
1g.103 8.63 4.82 1k.103 3.82 f.103 3.82 3.109 1c.8 9.103 7.12 17.103 2.12 3.113 8.103 8.1 3.0 1.1 d.0
1.1 7.0 4.1 1.0 6.1 1.0 3.1 2.0 1.103 5.25 12.14 5.8 1.25 1d.14 5.25 4.14 5.25 d.8 1.25 1y.14 1.1 1m.103
1.1 5.25 74.14 m.103 2.14 6.103 2.14 12.103 2.14 6.103 2.14 8.103 1.14 1.103 1.14 1.103 1.14 1.103 1.14
v.103 2.14 1h.103 1.14 f.103 1.14 e.103 2.14 6.103 1.14 j.103 2.14 3.103 1.14 9.103 1.0 c.1 2.0 2f.103
1.0 b.25 1.103 2.0 b.25 1.0 f.103 1.25 d.103 3.0 w.103 g.1 x.103 f.0 12.14 1.0 3.25 2.0 6.25 1.0 r.25
1.0 h.25 15.0 3.103 4.0 if.103 p.0 b.103 l.0 ps.46 74.0 hg.103 2.0 w.103 1.0 2x.56 1b.103 1.56 1b.103
1.25 w.7 38.103 5.7 7.12 12.103 1.12 1.103 5.12 1.103 2.60 1k.103 7.60 2.103 e.60 1.11 n.103 9.11 7.103
1.11 7.103 1.11 7.103 1.11 7.103 1.11 7.103 1.11 7.103 1.11 7.103 1.11 7.103 1.8 w.0 2b.103 19.17 q.103
1.17 2h.103 c.17 5y.103 q.0 c.103 4.0 5.17 1.0 1.17 1.0 p.17 9.1 4.18 2.0 8.17 4.0 4.103 1.20 2e.103 2.1
2.0 2.20 3.0 1.22 2i.0 2.22 3.103 5.5 17.103 1.18 2m.103 1.0 g.5 w.0 10.103 c.22 g.18 v.103 1.0 1s.18
v.0 29.22 1b.0 1.22 2g.0 4o.17 534.0 1s.17 g71.103 3.41 wd.103 3.41 1j.103 9.131 1c.99 8c.103 k.8 2o.130
2g.103 8.0 y.25 2u.0 3.25 1h.103 2.25 9.103 16.25 b.58 19.103 3.0 a.103 6.90 1k.103 8.111 1y.103 8.111
c.103 6.10 w.79 1a.0 1.79 1.110 10.103 b.110 1.18 t.103 3.78 26.103 1.0 1.78 a.103 4.78 2.28 v.103 1.66
1j.103 9.66 e.103 2.66 a.103 2.66 4.28 w.127 1v.103 o.127 5.115 n.103 a.11 6.103 2.11 6.103 2.11 6.103
9.11 7.103 1.11 7.103 1.25 17.0 1.25 9.14 1.25 4.0 2.103 4.6 28.115 1a.103 2.115 a.103 6.18 8mc.103 c.18
n.103 4.18 1d.103 6is.17 a6.103 2.17 2y.103 12.25 7.103 c.3 5.103 5.19 q.103 1.19 5.103 1.19 1.103 1.19
2.103 1.19 2.103 1.19 a.2 36.103 h.2 a3.0 2.103 g.2 1s.103 2.2 1i.103 14.2 e.103 2.1 g.0 a.103 6.1 e.8
2.0 z.103 1.0 j.103 1.0 4.103 4.2 5.103 1.2 3r.103 2.0 1.103 1.0 w.25 q.0 6.25 q.0 b.22 a.0 1.22 19.0
2.18 v.103 3.18 6.103 2.18 6.103 2.18 6.103 2.18 3.103 3.0 7.103 1.0 7.103 a.0 5.103 2.49 c.103 1.49
q.103 1.49 j.103 1.49 2.103 1.49 f.103 2.49 e.103 y.49 3f.103 5.0 3.103 4.0 19.103 3.0 9.14 27.103 1.0
d.103 3.14 1.103 1b.0 19.1 1.103 3m.107 t.103 3.104 1d.103 f.1 1.0 r.103 4.30 10.103 9.30 3.13 r.103
5.89 17.103 5.53 u.103 1.53 1.61 10.103 4.61 e.103 16.9 28.51 1c.50 u.103 2.50 a.103 6.171 10.103 4.171
10.103 4.136 14.103 8.159 1g.103 b.159 1.103 40.83 8n.103 9.83 m.103 a.83 8.103 48.47 6.103 2.47 1.103
1.47 18.103 1.47 2.103 3.47 1.103 2.47 1.116 m.103 1.116 9.144 w.143 v.103 8.143 9.103 1c.162 j.103
1.162 2.103 5.162 5.91 s.103 3.91 1.108 q.103 5.108 1.103 1s.86 w.141 o.103 4.141 k.103 2.141 1a.57
4.103 1.57 2.103 5.57 8.103 1.57 3.103 1.57 t.103 2.57 3.103 4.57 a.103 7.57 9.103 7.133 w.142 w.103
w.121 13.103 4.121 c.103 9.117 1i.103 3.117 7.125 m.103 2.125 8.122 j.103 5.122 8.123 i.103 7.123 4.103
c.123 7.103 28.88 21.103 1j.76 1f.103 d.76 1f.103 7.76 6.182 14.103 8.182 a.103 86.2 v.103 1.192 16.103
1.192 3.103 2.192 2.103 26.184 14.103 8.183 16.103 2e.189 s.103 k.185 n.103 9.65 26.103 4.65 u.103 f.65
1.120 1u.103 b.120 1.103 2.152 p.103 7.152 a.103 6.118 1h.103 1.118 i.103 8.160 13.103 9.151 2o.103 1.33
k.103 b.157 i.103 1.157 18.103 1t.164 7.103 1.164 1.103 1.164 4.103 1.164 f.103 1.164 b.103 6.145 1n.103
5.145 a.103 6.137 4.103 1.137 8.103 2.137 2.103 2.137 m.103 1.137 7.103 1.137 2.103 1.137 5.103 1.1
1.137 9.103 2.137 2.103 2.137 3.103 2.137 1.103 6.137 1.103 5.137 7.103 2.137 7.103 3.137 5.103 3v.170
2k.103 1.170 5.103 u.158 20.103 8.158 a.103 4m.166 1i.103 2.166 12.103 y.163 1x.103 b.163 a.103 6.27
d.103 j.153 1l.103 7.153 a.103 1i.161 r.103 2.161 f.103 4.161 g.103 5c.178 1o.103 2s.146 2b.103 c.146
1.190 7.103 2.190 1.103 2.190 8.103 1.190 2.103 1.190 u.103 1.190 2.103 2.190 c.103 9.190 a.103 1y.187
8.103 2.187 1a.103 2.187 b.103 r.177 20.103 8.176 2b.103 t.165 1l.103 7b.168 9.103 1.168 19.103 1.168
e.103 a.168 t.103 3.169 w.103 2.169 m.103 1.169 e.103 21.175 7.103 1.175 2.103 1.175 18.103 3.175 1.103
1.175 2.103 1.175 9.103 8.175 a.103 6.179 6.103 1.179 2.103 1.179 11.103 1.179 2.103 1.179 6.103 7.179
a.103 8m.180 p.103 53.131 1.103 f.35 1e.103 d.35 1.101 pm.103 2u.101 33.103 1.101 5.103 b.101 5g.103
24c.71 tr.103 1.71 9.103 347.156 g7.103 6nt.130 ft.103 7.149 v.103 1.149 a.103 4.149 2.103 2o.134 u.103
2.134 6.103 a.75 1y.103 a.75 a.103 1.75 7.103 1.75 l.103 5.75 j.103 j4.181 2j.103 2t.92 23.103 4.92
1l.103 7.92 h.103 1s.154 1.150 1.0 2.191 1.103 b.17 2.103 e.154 4qg.103 8.154 lc.191 d2.103 16.154 9.103
6wn.22 1.20 7y.103 1d.20 3.103 h.22 4.103 8.150 b0.103 1s4.135 2z.103 5.135 d.103 3.135 9.103 7.135
a.103 2.135 4.0 4.103 3to.0 6u.103 a.0 13.103 2.0 1q.1 3.0 h.1 8.0 2.1 7.0 u.1 4.0 1n.103 n.14 1y.103
4a.0 k.103 c.0 2f.103 9.0 p.103 3r.0 2d.103 1.0 1z.103 1.0 2.103 2.0 1.103 2.0 2.103 2.0 4.103 1.0 c.103
1.0 1.103 1.0 7.103 1.0 1t.103 1.0 4.103 2.0 8.103 1.0 7.103 1.0 s.103 1.0 4.103 1.0 5.103 1.0 1.103 3.0
7.103 1.0 9g.103 2.0 84.103 2.0 1e.112 i4.103 f.112 5.103 1.112 f.103 11s.56 7.103 1.56 h.103 2.56 7.103
1.56 2.103 1.56 5.103 5x.186 19.103 3.186 e.103 2.186 a.103 4.186 2.103 a8.188 1m.103 5.188 1.103 zk.140
5h.103 2.140 g.103 15.167 24.103 4.167 a.103 4.167 2.103 lt.0 1w.103 24.0 1p.103 5e.2 4.103 1.2 r.103
1.2 2.103 1.2 1.103 2.2 1.103 1.2 a.103 1.2 4.103 1.2 1.103 1.2 1.103 6.2 1.103 4.2 1.103 1.2 1.103 1.2
1.103 1.2 3.103 1.2 2.103 1.2 1.103 2.2 1.103 1.2 1.103 1.2 1.103 1.2 1.103 1.2 1.103 1.2 2.103 1.2
1.103 2.2 4.103 1.2 7.103 1.2 4.103 1.2 4.103 1.2 1.103 1.2 a.103 1.2 h.103 5.2 3.103 1.2 5.103 1.2
h.103 1g.2 2.103 7i.0 18.103 4.0 2s.103 c.0 f.103 2.0 f.103 1.0 f.103 1.0 11.103 a.0 4u.103 1k.0 q.20
1.0 2.103 d.0 18.103 4.0 9.103 7.0 2.103 e.0 6.103 4a.0 rc.103 8.0 d.103 3.0 d.103 3.0 38.103 c.0 2h.103
7.0 c.103 k.0 c.103 4.0 1k.103 8.0 a.103 6.0 14.103 8.0 u.103 2.0 2.103 26.0 3d.103 1.0 2a.103 1.0
3r.103 c.0 e.103 2.0 5.103 3.0 3.103 5.0 7.103 9.0 p.103 7.0 7.103 9.0 3.103 d.0 7.103 15.0 43.103 1.0
1j.103 11.0 a.103 sm.17 wym.103 y.17 379.103 b.17 66.103 2.17 4g2.103 e.17 5rl.103 2e7.17 f2.103 15u.17
3t7.103 fcfq.0 1.103 u.0 2o.103 3k.1 6o.103
"""
