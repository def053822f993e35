"""Completion for zsh, in the terms of its `_arguments`."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.cli._completing import Command, Flag, Values, commands, general

_SCRIPT = """\
#compdef thinflow
# Completion of thinflow for zsh. Made by `thinflow completion zsh`.

_thinflow_named_file() {
    # The file of NAME=FILE.
    compset -P '*=' && _files
}

@functions
_thinflow_commands() {
    local -a commands=(
@commands
    )
    _describe -t commands command commands
}

_thinflow() {
    local curcontext=$curcontext state line
    _arguments -C @general '1:command:_thinflow_commands' '*::argument:->rest'
    [[ $state = rest ]] || return 0
    local verb=${line[1]}
    (( $+functions[_thinflow__$verb] )) && _thinflow__$verb
}

if [[ $funcstack[1] = _thinflow ]]; then
    _thinflow "$@"
else
    compdef _thinflow thinflow
fi
"""


def script() -> str:
    """The script."""
    told = commands()
    top = [c for c in told if " " not in c.name]
    parts = {
        "functions": "\n".join(map(_function, told)),
        "commands": "\n".join(f"        {_quoted(f'{c.name}:{c.text}')}" for c in top),
        "general": " ".join(_quoted(f"{f.spellings[0]}[{_bare(f.text)}]") for f in general()),
    }
    text = _SCRIPT
    for name, made in parts.items():
        text = text.replace(f"@{name}", made)
    return text


def _function(command: Command) -> str:
    name = command.name.replace(" ", "__")
    if command.commands:
        return _of_several(command, name)
    specs = [spec for flag in command.flags for spec in _specs(flag)]
    for place, values in enumerate(command.arguments, 1):
        last = command.more and place == len(command.arguments)
        specs.append(_quoted(f"{'*' if last else place}:argument:{_action(values)}"))
    lines = " \\\n        ".join(specs)
    return f"_thinflow__{name}() {{\n    _arguments \\\n        {lines}\n}}\n"


def _of_several(command: Command, name: str) -> str:
    words = " ".join(command.commands)
    return (
        f"_thinflow__{name}() {{\n    local curcontext=$curcontext state line\n"
        f"    _arguments -C '1:command:({words})' '*::argument:->rest'\n"
        f"    [[ $state = rest ]] && _thinflow__{name}__${{line[1]}}\n}}\n"
    )


def _specs(flag: Flag) -> Iterator[str]:
    """A specification for each spelling; one given rules the others out."""
    others = f"({' '.join(flag.spellings)})" if len(flag.spellings) > 1 else ""
    begin = "*" if flag.again else others
    value = "" if flag.values is None else f":value:{_action(flag.values)}"
    for spelling in flag.spellings:
        mark = "=" if flag.values is not None and spelling.startswith("--") else ""
        yield _quoted(f"{begin}{spelling}{mark}[{_bare(flag.text)}]{value}")


def _action(values: Values) -> str:
    if values.words:
        words = " ".join(values.words)
        return f"_sequence compadd - {words}" if values.several else f"({words})"
    if values.named:
        return "_thinflow_named_file"
    return "_files" if values.path else " "


def _bare(text: str) -> str:
    """Text for between brackets."""
    return text.replace("\\", "\\\\").replace("[", "(").replace("]", ")").replace(":", "\\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
