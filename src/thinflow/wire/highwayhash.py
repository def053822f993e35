"""HighwayHash, the 64-bit keyed hash by which Riegeli files notice damage.

Four lanes of 64 bits; https://arxiv.org/abs/1612.06257 describes it. It is for short pieces here:
four megabytes take a second.
"""

from __future__ import annotations

from collections.abc import Sequence

_PACKET = 32
_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
# Of the reference implementation, like the order of the steps below: any other number is another hash.
_START_0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_START_1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


def highway_hash(data: bytes | memoryview, key: Sequence[int]) -> int:
    """The hash of some bytes. key: four numbers of 64 bits."""
    state = _State(key)
    whole = len(data) // _PACKET * _PACKET
    for at in range(0, whole, _PACKET):
        state.update(_lanes(data[at : at + _PACKET]))
    if whole < len(data):
        state.update_rest(bytes(data[whole:]))
    return state.finish()


class _State:
    """Two sums and two products of each lane."""

    def __init__(self, key: Sequence[int]) -> None:
        self.m0, self.m1 = list(_START_0), list(_START_1)
        self.v0 = [m ^ k for m, k in zip(self.m0, key, strict=True)]
        self.v1 = [m ^ _halves_swapped(k) for m, k in zip(self.m1, key, strict=True)]

    def update(self, lanes: Sequence[int]) -> None:
        v0, v1, m0, m1 = self.v0, self.v1, self.m0, self.m1
        for i, lane in enumerate(lanes):
            v1[i] = (v1[i] + m0[i] + lane) & _MASK
            m0[i] ^= (v1[i] & _LOW) * (v0[i] >> 32)
            v0[i] = (v0[i] + m1[i]) & _MASK
            m1[i] ^= (v0[i] & _LOW) * (v1[i] >> 32)
        for source, target in ((v1, v0), (v0, v1)):
            for i in (0, 2):
                low, high = _zipped(source[i + 1], source[i])
                target[i] = (target[i] + low) & _MASK
                target[i + 1] = (target[i + 1] + high) & _MASK

    def update_rest(self, rest: bytes) -> None:
        """The last bytes, fewer than a packet."""
        size, odd = len(rest), len(rest) & 3
        packet = bytearray(_PACKET)
        packet[: size - odd] = rest[: size - odd]
        # The places where the reference's vector code puts the last one to three
        # bytes without reading beyond them.
        if size & 16:
            packet[28:] = rest[size - 4 :]
        elif odd:
            tail = rest[size - odd :]
            packet[16:19] = bytes((tail[0], tail[odd >> 1], tail[odd - 1]))
        # The number of bytes left goes into both halves of each lane, so that zeros of
        # padding differ from zeros of data.
        self.v0 = [(v + (size << 32) + size) & _MASK for v in self.v0]
        self.v1 = [_rotated(v >> 32, size) << 32 | _rotated(v & _LOW, size) for v in self.v1]
        self.update(_lanes(packet))

    def finish(self) -> int:
        # Four rounds for 64 bits of hash (the wider hashes take more), each on the lanes crosswise.
        for _ in range(4):
            self.update([_halves_swapped(self.v0[i]) for i in (2, 3, 0, 1)])
        return (self.v0[0] + self.v1[0] + self.m0[0] + self.m1[0]) & _MASK


def _lanes(packet: bytes | bytearray | memoryview) -> list[int]:
    return [int.from_bytes(packet[at : at + 8], "little") for at in range(0, _PACKET, 8)]


def _halves_swapped(x: int) -> int:
    return x >> 32 | (x & _LOW) << 32


def _rotated(half: int, count: int) -> int:
    """32 bits, rotated to the left."""
    return ((half << count) | (half >> (32 - count))) & _LOW


# Which byte of the pair (low lane 0 to 7, high lane 8 to 15) goes where.
_ZIP_LOW = (3, 12, 2, 5, 14, 1, 15, 0)
_ZIP_HIGH = (11, 4, 10, 13, 9, 6, 8, 7)


def _zipped(high: int, low: int) -> tuple[int, int]:
    pair = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    return (
        int.from_bytes(bytes([pair[i] for i in _ZIP_LOW]), "little"),
        int.from_bytes(bytes([pair[i] for i in _ZIP_HIGH]), "little"),
    )
