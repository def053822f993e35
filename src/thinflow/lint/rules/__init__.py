"""Rules of the linter: each a function in a file of this folder, found by being there.

    @rule("TF201", Severity.WARNING)
    def float64(c: Context) -> Iterator[LintFinding]:
        \"\"\"Weights or values in double precision.

        Why: ...

        Mend: ...

        Ignore: ...
        \"\"\"

The first digit of a code is its theme, see `THEMES`. The file has the name of the function.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from thinflow.errors import ParameterError, closest
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity

THEMES = {
    "TF1": "left over from training",
    "TF2": "weights",
    "TF3": "structure",
    "TF4": "inputs and outputs",
    "TF5": "runtimes of phones",
    "TF6": "eight bits",
    "TF7": "activations",
}
"""Prefix of codes -> what they are about."""

_CODE = re.compile(r"T?F?[-_ ]?(\d\w{0,3})|TF\w{0,3}", re.ASCII | re.IGNORECASE)
Check = Callable[[Context], Iterator[LintFinding]]


@dataclass(frozen=True)
class Rule:
    """One rule of the linter.

    Attributes:
        code: such as "TF201".
        severity: of its findings.
        check: yields them.
        needs_runs: whether it looks at values of runs, which takes samples or made-up inputs.
    """

    code: str
    severity: Severity
    check: Check
    needs_runs: bool = False

    @property
    def name(self) -> str:
        """Such as "float64"."""
        return self.check.__name__

    @property
    def title(self) -> str:
        """The first paragraph of its documentation, on one line."""
        return self.paragraphs[0]

    @property
    def paragraphs(self) -> list[str]:
        """Its documentation, each paragraph on one line."""
        text = inspect.cleandoc(self.check.__doc__ or "")
        return [" ".join(part.split()) for part in text.split("\n\n")]

    def data(self) -> dict[str, object]:
        """For machines."""
        about = {"code": self.code, "name": self.name, "severity": str(self.severity)}
        return {**about, "needs_runs": self.needs_runs, "documentation": self.paragraphs}


_RULES: dict[str, Rule] = {}


def rule(code: str, severity: Severity, *, needs_runs: bool = False) -> Callable[[Check], Check]:
    """Decorator that makes a function a rule under its own name."""

    def register(check: Check) -> Check:
        other = _RULES.get(code)
        # The same module may come twice: one that is reloaded.
        if other is not None and other.check.__module__ != check.__module__:
            raise RuntimeError(f"{code} is defined in both {other.check.__module__} and {check.__module__}")
        _RULES[code] = Rule(code, severity, check, needs_runs)
        return check

    return register


def rules() -> list[Rule]:
    """All rules, by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return [_RULES[code] for code in sorted(_RULES)]


def find(code: str) -> Rule:
    """A rule by its code or name.

    Raises:
        ParameterError: there is none; the hint has the closest.
    """
    known = {key: one for one in rules() for key in (one.code, one.name)}
    found = known.get(code) or known.get(code.upper()) or known.get(code.lower().replace("-", "_"))
    if found is None:
        raise ParameterError(f"there is no rule '{code}'", hint=suggestion(code, known))
    return found


def suggestion(code: str, known: dict[str, Rule]) -> str:
    """A hint for a code that does not exist."""
    shape = _CODE.fullmatch(code)
    if shape is None:
        return closest(code.lower(), known) or "`thinflow lint --list` lists the rules"
    meant = f"TF{shape[1] or ''}".upper()
    if meant in known:
        return f"did you mean '{meant}'?"
    # Digits that happen to be alike are no hint: what a code begins with says what it is about.
    codes = sorted(k for k in known if k.isupper() and k.startswith(meant[:3]))
    about = THEMES.get(meant[:3])
    themes = ", ".join(f"{prefix} ({what})" for prefix, what in THEMES.items())
    near = f"{meant[:3]} ({about}) is {codes[0]} to {codes[-1]}" if about else f"themes are {themes}"
    return f"{near}; `thinflow lint --list` lists the rules"
