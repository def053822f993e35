"""The selection of rules: codes, names and prefixes of codes, as users and settings give them."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.errors import ParameterError
from thinflow.lint.rules import Rule, rules, suggestion


def selected(select: Sequence[str] | None, ignore: Sequence[str]) -> list[Rule]:
    """The rules that are to look, by code.

    A longer prefix wins over a shorter one, so that TF3 may be ignored and TF301 selected; of two that are
    equally long, ignoring wins.

    Args:
        select: codes, names, or prefixes of codes; None or "ALL" for all rules.
        ignore: the same.

    Raises:
        ParameterError: one of them is none.
    """
    known = rules()
    chosen = _weights(known, ["ALL"] if select is None else select, select=True)
    left = _weights(known, ignore, select=False)
    return [one for one in known if chosen.get(one.code, -1) > left.get(one.code, -1)]


def _weights(known: Sequence[Rule], items: Sequence[str], *, select: bool) -> dict[str, int]:
    """Code -> the length of the longest of these that means it."""
    weights: dict[str, int] = {}
    for item in items:
        meant = {one.code: _weight(one, item) for one in known}
        if max(meant.values(), default=-1) < 0:
            what = "selects" if select else "ignores"
            hint = suggestion(item, {key: one for one in known for key in (one.code, one.name)})
            raise ParameterError(f"'{item}' {what} no rule", hint=hint)
        for code, weight in meant.items():
            if weight >= 0:
                weights[code] = max(weights.get(code, -1), weight)
    return weights


def _weight(one: Rule, item: str) -> int:
    """The number of characters of a code that an item settles; -1 if it does not mean the rule."""
    if item.upper() == "ALL":
        return 0
    if item.lower().replace("-", "_") == one.name:
        return len(one.code)
    return len(item) if item and one.code.startswith(item.upper()) else -1
