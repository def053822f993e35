"""Codes of the linter's rules, found without importing them: completion does not wait for that."""

from __future__ import annotations

from thinflow.rewrite.discovery import registered_under


def shipped_codes() -> list[str]:
    """The code of each rule that comes with thinflow, in order."""
    found = [*registered_under("lint/rules", "rule")]
    if not found:  # there are no sources to read
        from thinflow.lint.rules import rules

        found = [one.code for one in rules()]
    return found
