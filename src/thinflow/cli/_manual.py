"""Manual pages, in roff: one of thinflow and one of each command, made of the parsers.

They are written when the package is built, so that no file in the sources can grow old: `hatch_build.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from thinflow.cli._examples import laid_out
from thinflow.cli._reference import (
    ArgumentData,
    CommandData,
    ExampleData,
    FlagData,
    ReferenceData,
    command,
    command_line,
)

_SECTION = 1

_EXAMPLE = 72
"""Columns of an example: man sets off all text by seven, and terminals have 80."""


def page(name: str = "") -> str:
    """The page of a command; without a name that of thinflow."""
    return _of_command(command(name)) if name else _of_all(command_line())


def file_name(name: str = "") -> str:
    """`thinflow-run.1`."""
    return f"{'-'.join(filter(None, ['thinflow', name]))}.{_SECTION}"


def write_pages(folder: str) -> list[str]:
    """Write all pages into a folder, which is made; their paths."""
    os.makedirs(folder, exist_ok=True)
    told = command_line()
    made = {"": _of_all(told)} | {one["name"]: _of_command(one) for one in told["commands"]}
    paths = []
    for name, text in made.items():
        paths.append(os.path.join(folder, file_name(name)))
        with open(paths[-1], "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return paths


def _of_all(told: ReferenceData) -> str:
    lines = [_title("thinflow"), *_name("thinflow", told["summary"].removeprefix("thinflow "))]
    lines += [".SH SYNOPSIS", ".B thinflow", ".I COMMAND", "[OPTIONS]"]
    commands = {one["name"]: one for one in told["commands"]}
    for group, names in told["groups"].items():
        lines.append(f'.SH "{_plain(group.upper())}"')
        for name in names:
            lines += [
                ".TP",
                f".BR {_plain(f'thinflow-{name}')} ({_SECTION})",
                _text(commands[name]["summary"]),
            ]
    lines += _flags(told["flags"], [])
    lines.append(".SH EXIT STATUS")
    for code, meaning in told["exit_codes"].items():
        lines += [".TP", f".B {code}", _text(meaning)]
    lines += [
        ".SH ENVIRONMENT",
        *(".TP", ".B NO_COLOR", "if set, nothing is coloured"),
        *(".TP", ".B FORCE_COLOR", "if set, progress is drawn and coloured where there is no terminal, too"),
        *(".TP", ".B THINFLOW_DEBUG", "if set and not 0, errors come with their traceback"),
        *(".TP", ".B THINFLOW_KEY_FILE", "file with the key of encrypted packages"),
    ]
    return "\n".join(lines) + "\n"


def _of_command(told: CommandData) -> str:
    title = f"thinflow-{told['name']}"
    lines = [_title(title), *_name(title, told["summary"]), ".SH SYNOPSIS", *_synopsis(told)]
    if told["details"]:
        lines += [".SH DESCRIPTION", *_as_it_is(told["details"])]
    lines += _flags(told["flags"], told["arguments"])
    for own in told["commands"]:
        lines += [f'.SH "{_plain(own["name"].upper())}"', _text(own["summary"]), ".PP", *_synopsis(own)]
        lines += _entries(own["flags"], own["arguments"])
    lines += _examples(told["examples"])
    lines += [".SH SEE ALSO", f".BR thinflow ({_SECTION})"]
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    from thinflow._version import __version__

    return f'.TH "{_plain(name.upper())}" {_SECTION} "" "thinflow {__version__}" "Commands"'


def _name(name: str, summary: str) -> list[str]:
    return [".SH NAME", f"{_plain(name)} \\- {_plain(summary)}"]


def _synopsis(told: CommandData) -> list[str]:
    words = [_italic(a["name"], a["required"], a["repeated"]) for a in told["arguments"]]
    if told["commands"]:
        words.append("|".join(own["name"].split()[-1] for own in told["commands"]))
    flags = "[\\-\\-flag=value ...]" if told["manners"] == "tensorflow" else "[OPTIONS]"
    return [f".B thinflow {_plain(told['name'])}", " ".join([*words, flags])]


def _italic(name: str, required: bool, repeated: bool) -> str:
    word = f"\\fI{_plain(name)}\\fR{' ...' if repeated else ''}"
    return word if required else f"[{word}]"


def _flags(flags: Sequence[FlagData], arguments: Sequence[ArgumentData]) -> list[str]:
    entries = _entries(flags, arguments)
    return [".SH OPTIONS", *entries] if entries else []


def _entries(flags: Sequence[FlagData], arguments: Sequence[ArgumentData]) -> list[str]:
    lines = []
    for argument in arguments:
        lines += [".TP", f"\\fI{_plain(argument['name'])}\\fR", _text(argument["help"])]
    for flag in flags:
        lines += [
            ".TP",
            ", ".join(_spelt(flag, spelling) for spelling in flag["spellings"]),
            _text(flag["help"]),
        ]
    return lines


def _spelt(flag: FlagData, spelling: str) -> str:
    bold = f"\\fB{_plain(spelling)}\\fR"
    if flag["takes"] == "nothing":
        return bold
    value = f"\\fI{_plain('|'.join(flag['choices']) or flag['metavar'])}\\fR"
    return f"{bold} [{value}]" if flag["takes"] == "optional value" else f"{bold} {value}"


def _examples(examples: Sequence[ExampleData]) -> list[str]:
    if not examples:
        return []
    lines = [".SH EXAMPLES"]
    for example in examples:
        comment = f"  # {example['comment']}" if example["comment"] else ""
        lines += [".PP", *_as_it_is(laid_out(f"{example['command']}{comment}", _EXAMPLE))]
    return lines


def _as_it_is(text: str) -> list[str]:
    """Lines that are not filled."""
    return [".nf", *map(_text, text.splitlines()), ".fi"]


def _text(text: str) -> str:
    """A line of text; one that begins with a dot or an apostrophe is no request."""
    plain = _plain(text)
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain


def _plain(text: str) -> str:
    """Text in which nothing commands roff, and dashes and quotes can be pasted."""
    marks = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
    return "".join(marks.get(letter, letter) for letter in text)
