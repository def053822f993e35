"""Completion for fish: a `complete` command for each flag and argument."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.cli._completing import Command, Flag, Values, commands, general

_BEGIN = """\
# Completion of thinflow for fish. Made by `thinflow completion fish`.

function __thinflow_at
    # Whether the words behind thinflow are those of a command, without its flags.
    set -l words (commandline -opc)
    set -l count (count $argv)
    test (count $words) -gt $count; and test "$words[2..$(math $count + 1)]" = "$argv"
end

function __thinflow_alone
    test (count (commandline -opc)) -eq 1
end

function __thinflow_list
    # Words behind the last comma.
    set -l before (string match -r '.*,' -- (commandline -ct))
    for word in $argv
        echo "$before$word"
    end
end

function __thinflow_named_file
    # The file of NAME=FILE.
    set -l parts (string match -r '^([^=]*=)(.*)$' -- (commandline -ct))
    test (count $parts) -eq 3; and string replace -r '^' $parts[2] (__fish_complete_path $parts[3])
end

complete -c thinflow -f
"""


def script() -> str:
    """The script."""
    lines = [_BEGIN, *(_line("__thinflow_alone", flag.spellings, flag.text) for flag in general())]
    for command in commands():
        lines.extend(_lines(command))
    return "\n".join(lines) + "\n"


def _lines(command: Command) -> Iterator[str]:
    if " " not in command.name:
        told = _quoted(command.text)
        yield f"complete -c thinflow -n __thinflow_alone -a {command.name} -d {told}"
    here = _quoted(f"__thinflow_at {command.name}")
    if command.commands:
        yield f"complete -c thinflow -n {here} -a {_quoted(' '.join(command.commands))}"
    for flag in command.flags:
        yield _line(here, flag.spellings, flag.text) + _values(flag)
    words = [word for values in command.arguments for word in values.words]
    if words:
        yield f"complete -c thinflow -n {here} -a {_quoted(' '.join(words))}"
    if any(values.path for values in command.arguments):
        yield f"complete -c thinflow -n {here} -F"


def _line(condition: str, spellings: tuple[str, ...], text: str) -> str:
    spelt = " ".join(f"-l {s[2:]}" if s.startswith("--") else f"-s {s[1:]}" for s in spellings)
    return f"complete -c thinflow -n {condition} {spelt} -d {_quoted(text)}"


def _values(flag: Flag) -> str:
    values = flag.values
    if values is None:
        return ""
    return f" -x -a {_quoted(_listed(values))}" if _listed(values) else " -r -F" if values.path else " -x"


def _listed(values: Values) -> str:
    words = " ".join(values.words)
    if values.several:
        return f"(__thinflow_list {words})"
    return words or ("(__thinflow_named_file)" if values.named else "")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
