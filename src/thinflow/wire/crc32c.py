"""CRC-32C (Castagnoli), the checksum of TensorFlow's tables, checkpoints and record files.

The reflected polynomial is 0x82F63B78; register and result are inverted (RFC 3720, appendix B.4). Long data
is cut into lanes of equal length that numpy advances side by side, and their registers are then joined
pairwise: the register is a linear function of what it was before and of the data, so that appending n bytes
to a lane is a multiplication by a matrix over the two-element field that depends on n alone.
"""

from __future__ import annotations

import functools
import sys
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer

    Words = np.ndarray[Any, np.dtype[np.uint32]]

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
# The constant of LevelDB, whose tables and records TensorFlow took over.
_MASK_DELTA = 0xA282EAD8
_SHORT = 1 << 10  # below this many bytes numpy's overhead is larger than its gain
_LANES = 1 << 12
_BLOCK = 1 << 22  # bytes turned into lanes at a time: what the second-level cache holds


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The checksum of bytes, or of more bytes after those whose checksum is `crc`."""
    view = memoryview(data).cast("B")
    register = crc ^ _ONES
    whole = len(view) - len(view) % (4 * _LANES) if len(view) >= 4 * _LANES else 0
    for start in range(0, whole, _BLOCK):
        register = _advance_lanes(register, view[start : min(start + _BLOCK, whole)])
    return _advance(register, view[whole:]) ^ _ONES


def masked(crc: int) -> int:
    """The form in which checksums are stored, so that the checksum of data with checksums in it is no special
    case: rotated right by 15 bits, plus a constant.
    """
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def _advance(register: int, view: memoryview) -> int:
    """The register after the bytes of `view`, one after the other, four by four where there are many."""
    table = _byte_table()
    if len(view) > _SHORT:
        low, high = _half_tables()
        words = len(view) // 4
        # The register's four bytes are all pushed out by four more bytes of data, so they can be looked up
        # together; two tables of 65,536 words halve the lookups that four of 256 would need.
        for word in _words(view[: 4 * words]):
            mixed = register ^ word
            register = low[mixed & 0xFFFF] ^ high[mixed >> 16]
        view = view[4 * words :]
    for byte in view:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _words(view: memoryview) -> array[int]:
    """Four bytes each as a number, the lowest first on any machine."""
    words = array("I", bytes(view))
    if sys.byteorder == "big":
        words.byteswap()
    return words


@functools.cache
def _byte_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@functools.cache
def _half_tables() -> tuple[list[int], list[int]]:
    """The register after four more zero bytes, by its lower and by its upper half."""
    low, high = _half_arrays()
    # Lists: indexing one with a Python int is several times cheaper than making
    # a numpy scalar of each element.
    return low.tolist(), high.tolist()


@functools.cache
def _half_arrays() -> tuple[Words, Words]:
    import numpy as np

    table = np.array(_byte_table(), np.uint32)
    low = np.arange(1 << 16, dtype=np.uint32)
    high = low << np.uint32(16)
    for _ in range(4):
        low = table[low & 0xFF] ^ (low >> np.uint32(8))
        high = table[high & 0xFF] ^ (high >> np.uint32(8))
    return low, high


def _advance_lanes(register: int, view: memoryview) -> int:
    """The register after a block of 4 * lanes * n bytes."""
    import numpy as np

    low, high = _half_arrays()
    # Row k holds the k-th word of every lane: one step of the loop below advances all lanes by four bytes.
    columns = np.ascontiguousarray(np.frombuffer(view, "<u4").reshape(_LANES, -1).T)
    state = np.zeros(_LANES, np.uint32)
    # Only the first lane goes on from what came before; the others start at zero, as linearity wants.
    state[0] = register
    for column in columns:
        state ^= column
        state = low[state & np.uint32(0xFFFF)] ^ high[state >> np.uint32(16)]
    length = 4 * len(columns)
    while len(state) > 1:
        # Register of A followed by B = register of A followed by len(B) zeros,
        # xor the register of B from zero.
        state = _append_zeros(state[0::2], length) ^ state[1::2]
        length *= 2
    return int(state[0])


def _append_zeros(state: Words, count: int) -> Words:
    """Registers after `count` more zero bytes each."""
    import numpy as np

    result = np.zeros_like(state)
    for shift, table in zip((0, 8, 16, 24), _zeros_tables(count), strict=True):
        result ^= table[(state >> np.uint32(shift)) & np.uint32(0xFF)]
    return result


@functools.lru_cache(maxsize=64)
def _zeros_tables(count: int) -> tuple[Words, Words, Words, Words]:
    """Registers after `count` zero bytes, for each value of each of the register's four bytes."""
    import numpy as np

    # Linear: a register's result is the xor of those of its bits, gathered here for each value of a byte.
    columns = _zeros_matrix(count)
    tables = []
    for byte in range(4):
        table = np.zeros(256, np.uint32)
        for bit in range(8):
            has_bit = (np.arange(256) >> bit) & 1 == 1
            table[has_bit] ^= np.uint32(columns[8 * byte + bit])
        tables.append(table)
    return tables[0], tables[1], tables[2], tables[3]


@functools.lru_cache(maxsize=256)
def _zeros_matrix(count: int) -> tuple[int, ...]:
    """The registers that `count` zero bytes make of those with a single bit set, lowest bit first."""
    if count == 1:
        table = _byte_table()
        return tuple(table[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32))
    # By halves: n zero bytes are n / 2 of them appended twice, so gigabytes take some thirty products.
    half = _zeros_matrix(count // 2)
    doubled = tuple(_times(half, column) for column in half)
    if count % 2 == 0:
        return doubled
    single = _zeros_matrix(1)
    return tuple(_times(single, column) for column in doubled)


def _times(matrix: tuple[int, ...], register: int) -> int:
    result = 0
    # Over the two-element field sums are xors: the columns at the register's ones, added up.
    for column in matrix:
        if register & 1:
            result ^= column
        register >>= 1
    return result
