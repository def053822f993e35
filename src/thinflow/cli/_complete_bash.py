"""Completion for bash, also the one of macOS (3.2)."""

from __future__ import annotations

from collections import defaultdict

from thinflow.cli._completing import Command, Values, commands, general

_SCRIPT = """\
# Completion of thinflow for bash. Made by `thinflow completion bash`.

_thinflow_flags() {
    case "$1" in
@flags
    esac
}

# What stands behind a flag of a command: words, list:words, file, or nothing.
_thinflow_behind() {
    case "$1 $2" in
@behind
    esac
}

_thinflow_argument() {
    case "$1 $2" in
@arguments
    *) echo file ;;
    esac
}

_thinflow_fill() {
    local kind=$1 words lead
    case "$kind" in
    file)
        local IFS=$'\\n'
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$cur"))
        return ;;
    list:*)
        # The words behind the last comma.
        words=${kind#list:}
        lead=${cur%"${cur##*,}"}
        COMPREPLY=($(compgen -P "$lead" -W "$words" -- "${cur##*,}")) ;;
    *)
        COMPREPLY=($(compgen -W "$kind" -- "$cur")) ;;
    esac
}

_thinflow() {
    local cur=${COMP_WORDS[COMP_CWORD]} flag="" verb=${COMP_WORDS[1]} first=2 i place=0 kind word
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        COMPREPLY=($(compgen -W "@top" -- "$cur"))
        return
    fi
    case "$verb " in
@several
    esac
    # bash takes words apart at `=`.
    i=$((COMP_CWORD - 1))
    if [ "$cur" = "=" ]; then
        cur=""
    elif [ "${COMP_WORDS[i]}" = "=" ]; then
        i=$((i - 1))
    fi
    flag=${COMP_WORDS[i]}
    if [ "$i" -ge 3 ] && [ "${flag#-}" = "$flag" ] && [ "$i" -lt $((COMP_CWORD - 1)) ]; then
        i=$((i - 1))
        flag=${COMP_WORDS[i]}
    fi
    if [ "$i" -ge "$first" ] && [ "${flag#-}" != "$flag" ]; then
        kind=$(_thinflow_behind "$verb" "$flag")
        if [ -n "$kind" ]; then
            [ "$kind" = any ] || _thinflow_fill "$kind"
            return
        fi
    fi
    case "$cur" in
    -*)
        COMPREPLY=($(compgen -W "$(_thinflow_flags "$verb")" -- "$cur"))
        case "${COMPREPLY[*]}" in *=) compopt -o nospace 2>/dev/null ;; esac
        return ;;
    esac
    for ((i = first; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case "$word" in
        -*) [ -n "$(_thinflow_behind "$verb" "$word")" ] && i=$((i + 1)) ;;
        *) place=$((place + 1)) ;;
        esac
    done
    _thinflow_fill "$(_thinflow_argument "$verb" "$place")"
}

complete -F _thinflow thinflow
"""


def script() -> str:
    """The script."""
    told = commands()
    parts = {
        "flags": [_case(c.name, " ".join(_spelt(c))) for c in told if c.flags],
        "behind": _behind(told),
        "arguments": [
            _case(f"{c.name} {place}", _kind(values))
            for c in told
            for place, values in enumerate(c.arguments)
            if values.words
        ],
        "several": [line for c in told if c.commands for line in _of_several(c)],
        "top": [*(c.name for c in told if " " not in c.name), *(f.spellings[0] for f in general())],
    }
    text = _SCRIPT
    for name, lines in parts.items():
        text = text.replace(f"@{name}", (" " if name == "top" else "\n").join(lines))
    return text


def _spelt(command: Command) -> list[str]:
    return [f"{s}=" if flag.glued and flag.values else s for flag in command.flags for s in flag.spellings]


def _behind(told: list[Command]) -> list[str]:
    """A case for each kind of value, of all flags of all commands."""
    places: dict[str, list[str]] = defaultdict(list)
    for command in told:
        for flag in command.flags:
            if flag.values is not None:
                places[_kind(flag.values)] += [f"{command.name} {s}" for s in flag.spellings]
    return [_case('"|"'.join(names), kind) for kind, names in places.items()]


def _kind(values: Values) -> str:
    words = " ".join(values.words)
    if words:
        return f"list:{words}" if values.several else words
    return "file" if values.path else "any"


def _case(pattern: str, told: str) -> str:
    return f'    "{pattern}") echo "{told}" ;;'


def _of_several(command: Command) -> list[str]:
    """A command of commands: the second word is one, or completed to one."""
    words = " ".join(command.commands)
    # While it is typed it is no command yet.
    fill = f'COMPREPLY=($(compgen -W "{words}" -- "$cur")); return'
    return [
        f'    "{command.name} "*) [ "$COMP_CWORD" = 2 ] && {{ {fill}; }}',
        f'        verb="{command.name} ${{COMP_WORDS[2]}}" first=3 ;;',
    ]
