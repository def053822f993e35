"""Examples in help, as a shell reads them."""

from __future__ import annotations


def commands_shown(text: str) -> list[str]:
    """The commands behind `examples:`, each in one line, without comments."""
    examples = text.partition("examples:\n")[2].replace(" \\\n", " ")
    lines = [line.strip() for line in examples.splitlines()]
    return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]
