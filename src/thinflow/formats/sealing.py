"""Authenticated encryption of a payload in chunks, and whether an encrypted model is in memory.

AES-256-GCM, through the `cryptography` package. Every chunk has a nonce of its own: 4 random bytes of the
file, then whether it is the last and its number, so that chunks can be neither swapped, nor left out, nor cut
off. What stands in front of the payload is authenticated with each of them. A passphrase becomes a key by
scrypt (RFC 7914).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

from thinflow.errors import FormatError, ParameterError

KEY_BYTES = 32
SALT_BYTES = 16
NONCE_PREFIX_BYTES = 4
TAG_BYTES = 16
CHUNK_BYTES = 1 << 20
_SCRYPT_COST = 1 << 17  # with r=8: 128 MB and some tenths of a second
_INSTALL = "install it: pip install 'thinflow[pack]'"


def _aead(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as e:
        raise ParameterError("encryption needs the cryptography package", hint=_INSTALL) from e
    return AESGCM(key)


def key_of(secret: bytes, salt: bytes) -> bytes:
    """The key of one file: 32 bytes or 64 hexadecimal digits through HKDF, a passphrase through scrypt.

    Through the salt every file gets a key of its own, so that no nonce ever meets the same key again.

    Raises:
        ParameterError: the secret is empty, or the cryptography package is missing.
    """
    # A key file often ends with a line break; 32 random bytes may contain anything and are left alone.
    secret = secret.strip() if len(secret) != KEY_BYTES else secret
    if not secret:
        raise ParameterError("the key is empty", hint="give a passphrase, or 32 random bytes")
    try:
        import cryptography  # noqa: F401 - to say what is missing
    except ImportError as e:
        raise ParameterError("encryption needs the cryptography package", hint=_INSTALL) from e
    return _derived(secret, salt)


@functools.lru_cache(maxsize=16)
def _derived(secret: bytes, salt: bytes) -> bytes:
    """Kept, since a command may open a package more than once and scrypt takes its time on purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    raw = _raw_key(secret)
    if raw is None:
        kdf: Any = Scrypt(salt=salt, length=KEY_BYTES, n=_SCRYPT_COST, r=8, p=1)
    else:
        kdf = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=b"thinflow pack")
    derived: bytes = kdf.derive(secret if raw is None else raw)
    return derived


def _raw_key(secret: bytes) -> bytes | None:
    """The 32 bytes of a key that is no passphrase."""
    if len(secret) == KEY_BYTES:
        return secret
    if len(secret) == 2 * KEY_BYTES:
        try:
            return bytes.fromhex(secret.decode("ascii"))
        except (UnicodeDecodeError, ValueError):
            return None
    return None


def new_salt() -> bytes:
    """Random bytes that make equal passphrases give different keys."""
    return os.urandom(SALT_BYTES)


def sealed(chunks: Iterator[bytes | memoryview], key: bytes, prefix: bytes, header: bytes) -> Iterator[bytes]:
    """The payload encrypted, `CHUNK_BYTES` of it at a time.

    Args:
        chunks: the payload in pieces of any size.
        key: 32 bytes.
        prefix: the random bytes of the nonces, never used with this key before.
        header: authenticated with every chunk.
    """
    aead = _aead(key)
    number = 0
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) > CHUNK_BYTES:  # the last one is closed below, and is never empty but for no payload
            piece = bytes(held[:CHUNK_BYTES])
            del held[:CHUNK_BYTES]
            yield aead.encrypt(_nonce(prefix, number, last=False), piece, header)
            number += 1
    yield aead.encrypt(_nonce(prefix, number, last=True), bytes(held), header)


def opened(data: memoryview, key: bytes, prefix: bytes, header: bytes) -> bytes:
    """The payload, decrypted in memory.

    Raises:
        FormatError: the key is wrong, or something was changed or cut off.
    """
    from cryptography.exceptions import InvalidTag

    aead = _aead(key)
    size = CHUNK_BYTES + TAG_BYTES
    count = max(1, -(-len(data) // size))
    pieces = []
    for number in range(count):
        # Only the last chunk may be shorter, so that the length alone tells how many there are.
        piece = data[number * size : (number + 1) * size]
        nonce = _nonce(prefix, number, last=number == count - 1)
        try:
            pieces.append(aead.decrypt(nonce, bytes(piece), header))
        except InvalidTag as e:
            what = "the key is wrong, or the file was changed" if number == 0 else "the file was changed"
            raise FormatError(
                f"it cannot be decrypted: {what}", hint="check the key; else fetch the file again"
            ) from e
    return b"".join(pieces)


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    # 4 + 1 + 7 = 12 bytes, the nonce that GCM uses as it is; any other length would be hashed first.
    return prefix + bytes([last]) + number.to_bytes(7, "big")


# --- secrets in memory --------------------------------------------------------------------------------------
#
# Whether this process has read an encrypted model. From then on no copy of any model goes to a temporary
# file, not even of one that was made from it: what was decrypted stays in memory. It holds for the whole
# process, since a graph may have been changed, cut up or converted on its way to an engine.


_met = False


def note_secret() -> None:
    """An encrypted model is in memory now."""
    global _met
    _met = True


def may_write_copies() -> bool:
    """True if a temporary file may hold a model."""
    return not _met
