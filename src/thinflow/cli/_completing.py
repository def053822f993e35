"""What the completion scripts of all shells say: commands, their flags, and what may stand behind those."""

from __future__ import annotations

from typing import NamedTuple

from thinflow.cli._reference import CommandData, FlagData, command_line, every
from thinflow.cli._values import is_path, values_of


class Values(NamedTuple):
    """What may stand at a place.

    Attributes:
        words: all that it can be; empty: see the others.
        several: whether words may be joined by commas.
        path: whether it is a file or folder.
        named: whether that stands behind `NAME=`.
    """

    words: tuple[str, ...] = ()
    several: bool = False
    path: bool = False
    named: bool = False


class Flag(NamedTuple):
    """A flag: its spellings, what it is for, and its values; None where it takes none.

    Attributes:
        glued: whether its value stands behind `=`, as the old tools had it.
        again: whether it may be given more than once.
    """

    spellings: tuple[str, ...]
    text: str
    values: Values | None
    glued: bool
    again: bool


class Command(NamedTuple):
    """A command: its words, what it is for, its flags, and the values of its arguments in turn.

    Attributes:
        more: whether the last argument may be repeated.
        commands: words that may follow it, each a command of its own.
    """

    name: str
    text: str
    flags: tuple[Flag, ...]
    arguments: tuple[Values, ...]
    more: bool
    commands: tuple[str, ...]


def commands() -> list[Command]:
    """All of them; those of commands behind the command."""
    return [_command(told) for told in every(command_line()["commands"])]


def general() -> list[Flag]:
    """Flags without a command."""
    return [_flag(told, glued=False) for told in command_line()["flags"]]


def _command(told: CommandData) -> Command:
    old = told["manners"] == "tensorflow" and " " not in told["name"]
    return Command(
        told["name"],
        told["summary"].rstrip("."),
        tuple(_flag(flag, glued=old) for flag in told["flags"]),
        tuple(_values(a["name"], a["choices"]) for a in told["arguments"]),
        any(a["repeated"] for a in told["arguments"]),
        tuple(own["name"].split()[-1] for own in told["commands"]),
    )


def _flag(told: FlagData, *, glued: bool) -> Flag:
    takes = told["takes"] != "nothing"
    values = _values(told["metavar"], told["choices"]) if takes else None
    if glued and values is not None and not values.words:
        # Texts of the old tools are files more often than not, and help does not tell.
        values = Values(path=told["metavar"] == "TEXT")
    return Flag(tuple(told["spellings"]), told["help"], values, glued and takes, told["repeated"])


def _values(metavar: str, choices: list[str]) -> Values:
    if choices:
        return Values(tuple(choices))
    words, named = tuple(values_of(metavar)), metavar.startswith("NAME=")
    return Values(words, "[," in metavar, is_path(metavar), named)
