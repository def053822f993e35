"""Names of models and layers as C knows them."""

from __future__ import annotations

import re

from thinflow.errors import ParameterError
from thinflow.errors.plain_text import one_line

# Words of C99 and C++, and names that the C library may have as macros.
_TAKEN = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long main mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq errno stdin stdout stderr assert NULL EOF
    """,
    )
)


_HEADERS = frozenset(
    re.findall(
        r"\w+",
        """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdarg
    stdbool stddef stdint stdio stdlib string tgmath time wchar wctype
    """,
    )
)


def require_own_header(name: str) -> None:
    """Refuse the name of a header of the C library, which another of that name would hide.

    Raises:
        ParameterError: it is one.
    """
    if name.lower() in _HEADERS:
        raise ParameterError(
            f"{name}.h is a header of the C library, which the network's own would hide",
            hint=f"give another name: net_{name}.c",
        )


def identifier(name: str, prefix: str = "net") -> str:
    """A name as C takes it: other characters become _, and the prefix goes before what may not begin one."""
    # Letters of ASCII only: what more a compiler takes differs.
    found = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not found:
        return prefix
    return f"{prefix}_{found}" if found[0].isdigit() or found in _TAKEN else found


def unique(name: str, taken: set[str]) -> str:
    """A name that is not taken, by a number behind it if need be; it is taken then."""
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


def comment(text: str) -> str:
    """Text of a model fit for a comment: in one line, nothing in it that would end or begin one."""
    # A backslash at the end would go on into the next line, and ??/ is one in C99.
    plain = one_line(text).encode("ascii", "replace").decode().replace("\\", "/")
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
