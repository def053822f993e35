"""Codes of the linter's rules, found without importing them: completion does not wait for that."""

from __future__ import annotations

from thinflow.ir.discovery import Index


def shipped_codes() -> list[str]:
    """The code of each rule that comes with thinflow, in order."""
    found = Index(["thinflow.lint.rules"], ["rule"])
    if found.computed:  # there are no sources to read
        from thinflow.lint.rules import rules

        return [one.code for one in rules()]
    return sorted(found.names)
