"""The calibration doctor: what is wrong with samples, told before a model is quantized with them.

A function becomes a check by `@check`, in a module of this folder. It is given an `Exam` and yields findings.
Of the checks of one group only the first that finds something speaks: samples of noise also lack variety.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from thinflow.quantize.doctor.exam import Exam
from thinflow.quantize.doctor.findings import Finding

Check = Callable[[Exam], Iterator[Finding]]


class _Registered(NamedTuple):
    """A check, and when it is made."""

    order: int
    group: str
    check: Check


_CHECKS: dict[str, _Registered] = {}


def check(*, order: int, group: str = "") -> Callable[[Check], Check]:
    """Decorator that makes a function a check under its own name.

    Args:
        order: the smaller goes first: causes before what follows from them.
        group: of checks of which one is enough; "" for one that always speaks.
    """

    def register(function: Check) -> Check:
        _CHECKS[function.__name__] = _Registered(order, group, function)
        return function

    return register


def checks() -> list[str]:
    """Names of all checks, in order."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_CHECKS, key=lambda name: (_CHECKS[name].order, name))


def findings(exam: Exam) -> list[Finding]:
    """What all checks find, causes first. A check that finds nothing to look at yields nothing."""
    found: list[Finding] = []
    spoken: set[str] = set()
    for name in checks():
        one = _CHECKS[name]
        if one.group and one.group in spoken:
            continue
        said = [finding._replace(check=name) for finding in one.check(exam)]
        if any(finding.warns for finding in said):
            spoken.add(one.group)
        found += said
    return found
