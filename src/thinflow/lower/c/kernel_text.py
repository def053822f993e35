"""Kernels: C text with words to fill in, and what each needs of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from string import Template

from thinflow.lower.c.layer import Call, function_name

_INCLUDE = re.compile(r'^#include "(?P<file>[^"]+)\.c"\n', re.MULTILINE)
_SYSTEM = re.compile(r"^#include (?P<header><[^>]+>)\n", re.MULTILINE)
_WORD = re.compile(r"\$\{?(?P<word>[a-z_]+)")


@cache
def _stored(kernel: str) -> str:
    return (files(__package__) / "kernels" / f"{kernel}.c").read_text("utf-8")


def kernels(calls: Iterable[Call]) -> tuple[list[str], list[str]]:
    """The texts of the kernels called, each behind those it needs; and the system's headers they ask for."""
    texts: dict[str, str] = {}
    headers: dict[str, None] = {}
    for call in calls:
        _add(call.kernel, call.words, call.function, texts, headers)
    return list(texts.values()), list(headers)


def _add(
    kernel: str, words: Mapping[str, str], name: str, texts: dict[str, str], headers: dict[str, None]
) -> None:
    if name in texts:
        return
    text = _stored(kernel)
    # Those that it needs come first: C wants to have seen what it calls.
    for match in _INCLUDE.finditer(text):
        other = Template(match["file"]).substitute(words)
        # What the other one is made for are those of these words that it asks for.
        passed = {word: value for word, value in words.items() if word in _asked(other)}
        _add(other, passed, function_name(other, passed), texts, headers)
    headers.update(dict.fromkeys(_SYSTEM.findall(text)))
    # Headers go to the top of the file, each once.
    body = _SYSTEM.sub("", _INCLUDE.sub("", text)).strip()
    texts[name] = Template(body).substitute(_with_types(words), name=name) + "\n"


@cache
def _asked(kernel: str) -> frozenset[str]:
    """The words that a kernel asks for, those that the kernels in front of it ask for included."""
    text = _stored(kernel)
    asked = set(_WORD.findall(text))
    if asked & {"c_type", "sum_type"}:
        asked.add("type")
    # By a word in the name of a file it may ask for any of several, which ask for the same.
    for match in _INCLUDE.finditer(text):
        if "$" not in match["file"]:
            asked |= _asked(match["file"])
    return frozenset(asked)


def _with_types(words: Mapping[str, str]) -> dict[str, str]:
    """The words, and what follows from an element type: its name in C, and the type of sums."""
    element = words.get("type", "")
    c_type = element if element in ("float", "bool") else f"{element}_t"
    return {
        **words,
        "c_type": c_type,
        "sum_type": words.get("sum_type", "float" if element == "float" else "int32_t"),
    }
