"""The whole command line as data, from the parsers: commands, groups, flags, choices, defaults, examples.

`command_line()` is what completion, manual pages, the page `docs/cli.md` and `thinflow help --json` are
made of. Its values are what JSON has.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

from thinflow._version import __version__
from thinflow.cli._commands import COMMANDS, DROP_INS, GENERAL, PURPOSE, groups, module_of
from thinflow.cli._examples import COMMENT
from thinflow.cli._oldflags import OldFlags

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class ArgumentData(TypedDict):
    """A word of a command that has no flag.

    Attributes:
        name: what help calls it; its meaning, too: see `thinflow.cli._values`.
        help: one sentence.
        choices: the only words it may be; empty: any.
        required: whether the command fails without it.
        repeated: whether several may be given.
    """

    name: str
    help: str
    choices: list[str]
    required: bool
    repeated: bool


class FlagData(TypedDict):
    """A flag.

    Attributes:
        spellings: as help lists them, the long one first.
        aliases: spellings that are understood, too, and not listed.
        takes: "nothing", "value", or "optional value".
        metavar: what stands for its value in help; "" where it takes none.
        help: one sentence.
        default: its value where it is not given; None where the command decides.
        choices: the only values it takes; empty: any.
        required: whether the command fails without it.
        repeated: whether it may be given several times.
        excludes: flags that it cannot be given with.
    """

    spellings: list[str]
    aliases: list[str]
    takes: str
    metavar: str
    help: str
    default: Any
    choices: list[str]
    required: bool
    repeated: bool
    excludes: list[str]


class ExampleData(TypedDict):
    """A command to paste, and what stands behind it; "" if nothing."""

    command: str
    comment: str


class CommandData(TypedDict):
    """A command.

    Attributes:
        name: its words behind `thinflow`: one, or two of a command of a command.
        group: the title of the group that the overview lists it in.
        manners: "thinflow", or "tensorflow" for the flags of one of its old tools: `--flag=value`, one dash
            or two, booleans as words.
        summary: one line.
        details: what help says beyond that, laid out; may be empty.
        usage: on one line.
        commands: commands of its own, as `show` of `saved_model_cli`.
    """

    name: str
    group: str
    manners: str
    summary: str
    details: str
    usage: str
    arguments: list[ArgumentData]
    flags: list[FlagData]
    examples: list[ExampleData]
    commands: list[CommandData]


class ReferenceData(TypedDict):
    """The program: its groups of commands in the order of the overview, and all of them."""

    program: str
    version: str
    summary: str
    usage: str
    flags: list[FlagData]
    exit_codes: dict[str, str]
    groups: dict[str, list[str]]
    commands: list[CommandData]


EXIT_CODES = {
    "0": "done",
    "1": "failed, as with a value that a flag cannot take; of lint and verify also: something was found",
    "2": "wrong usage: the command cannot be read; of lint also a value that a flag cannot take",
    "130": "interrupted",
}


def command_line() -> ReferenceData:
    """Everything that can be typed. Imports every command, but nothing of what they do: some 50 ms."""
    return {
        "program": "thinflow",
        "version": __version__,
        "summary": PURPOSE,
        "usage": "thinflow COMMAND [OPTIONS]",
        "flags": [_switch([name], text) for name, text in GENERAL.items()],
        "exit_codes": EXIT_CODES,
        "groups": groups(),
        "commands": [command(name) for name in COMMANDS],
    }


def command(name: str) -> CommandData:
    """One command of the table."""
    module = import_module(module_of(name))
    if name not in DROP_INS:
        from thinflow.cli._parser import parser_of

        return _of_parser(parser_of(name), name, COMMANDS[name])
    for found in vars(module).values():
        if isinstance(found, OldFlags) and found.tool == name:
            return _of_old_flags(found)
    return _of_several(name, module.subparsers(), module.EXAMPLES)


def _empty(name: str, summary: str) -> CommandData:
    # A command of a command is in the group of its first word.
    first = name.partition(" ")[0]
    return {
        "name": name,
        "group": next(title for title, names in groups().items() if first in names),
        "manners": "tensorflow" if first in DROP_INS else "thinflow",
        "summary": summary,
        "details": "",
        "usage": "",
        "arguments": [],
        "flags": [],
        "examples": [],
        "commands": [],
    }


# --- argparse -----------------------------------------------------------------------------------------------


def _of_parser(parser: argparse.ArgumentParser, name: str, summary: str) -> CommandData:
    data = _empty(name, summary)
    data["details"] = (parser.description or "").removeprefix(summary).strip()
    data["usage"] = _usage(parser)
    data["examples"] = examples(getattr(parser, "examples", ""))
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        text = formatter._expand_help(action) if action.help else ""
        if action.option_strings:
            data["flags"].append(_flag(parser, action, text))
        else:
            data["arguments"].append(_argument(action, text))
    return data


def _usage(parser: argparse.ArgumentParser) -> str:
    # A width, as the formatter would ask for that of the terminal; one that breaks no line.
    formatter = argparse.RawDescriptionHelpFormatter(parser.prog, width=100_000)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)
    return formatter.format_help().strip().removeprefix("usage: ")


def _argument(action: argparse.Action, text: str) -> ArgumentData:
    return {
        "name": str(action.metavar or action.dest),
        "help": text,
        "choices": [str(c) for c in action.choices or ()],
        "required": action.nargs not in ("?", "*"),
        "repeated": action.nargs in ("+", "*"),
    }


def _flag(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> FlagData:
    known = parser._option_string_actions
    switch = action.nargs == 0
    return {
        "spellings": sorted(action.option_strings, key=lambda spelling: not spelling.startswith("--")),
        "aliases": [s for s, a in known.items() if a is action and s not in action.option_strings],
        "takes": "nothing" if switch else "optional value" if action.nargs == "?" else "value",
        "metavar": "" if switch else str(action.metavar or action.dest.upper()),
        "help": text,
        "default": _default(action),
        "choices": [str(c) for c in action.choices or ()],
        "required": action.required,
        "repeated": isinstance(action, argparse._AppendAction),
        "excludes": _excluded(parser, action),
    }


def _default(action: argparse.Action) -> Any:
    """What JSON can say of it; a switch is off unless it is given, whatever it stores."""
    if action.nargs == 0:
        return False
    return None if action.default in (argparse.SUPPRESS, []) else action.default


def _excluded(parser: argparse.ArgumentParser, action: argparse.Action) -> list[str]:
    beside = (g._group_actions for g in parser._mutually_exclusive_groups if action in g._group_actions)
    return [max(a.option_strings, key=len) for group in beside for a in group if a is not action]


# --- the old tools ------------------------------------------------------------------------------------------


def _of_old_flags(old: OldFlags) -> CommandData:
    data = _empty(old.tool, COMMANDS[old.tool])
    names = [name for name, _ in old.arguments]
    data["usage"] = " ".join(["thinflow", old.tool, *names, "[--flag=value ...]"])
    data["arguments"] = [
        {"name": name, "help": text, "choices": [], "required": True, "repeated": False}
        for name, text in old.arguments
    ]
    for name, (default, text) in old.flags.items():
        aliases = [_dashed(other) for other, meant in old.aliases.items() if meant == name]
        flag = _switch([f"--{name}"], text)
        kind = {bool: "BOOL", int: "N", str: "TEXT"}[type(default)]
        takes = "optional value" if isinstance(default, bool) else "value"
        data["flags"].append(
            {**flag, "aliases": aliases, "takes": takes, "metavar": kind, "default": default}
        )
    data["examples"] = examples(old.examples)
    return data


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def _of_several(name: str, parsers: Mapping[str, argparse.ArgumentParser], text: str) -> CommandData:
    """A command of commands, each with a parser."""
    data = _empty(name, COMMANDS[name])
    data["usage"] = f"thinflow {name} {'|'.join(parsers)} [OPTIONS]"
    data["examples"] = examples(text)
    for own, parser in parsers.items():
        data["commands"].append(_of_parser(parser, f"{name} {own}", parser.description or ""))
    return data


def _switch(spellings: list[str], text: str) -> FlagData:
    """A flag that takes nothing."""
    return {
        "spellings": spellings,
        "aliases": [],
        "takes": "nothing",
        "metavar": "",
        "help": text,
        "default": False,
        "choices": [],
        "required": False,
        "repeated": False,
        "excludes": [],
    }


# --- all of them --------------------------------------------------------------------------------------------


def examples(text: str) -> list[ExampleData]:
    """The commands of an `EXAMPLES` text, and the comments behind them."""
    found: list[ExampleData] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        command, *comment = COMMENT.split(line, maxsplit=1)
        found.append({"command": command.strip(), "comment": " ".join(comment)})
    return found


def every(commands: Sequence[CommandData]) -> Iterator[CommandData]:
    """The commands, and behind each its own."""
    for one in commands:
        yield one
        yield from one["commands"]
