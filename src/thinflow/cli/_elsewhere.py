"""Which commands have a flag that another one was given."""

from __future__ import annotations

from thinflow.cli._reference import command_line, every

_NAMED = 3


def sentence(flag: str, verb: str) -> str:
    """`--engine is a flag of thinflow run and thinflow verify`; "" if the verb has it, or nobody.

    Args:
        flag: as it was spelt; the dashes of an old tool may be one or two.
        verb: the command that it was given to.
    """
    found = _commands_with(flag)
    if not found or any(name == verb or name.startswith(f"{verb} ") for name in found):
        return ""
    names = [f"thinflow {name}" for name in found[:_NAMED]]
    names += ["others"] if len(found) > _NAMED else []
    told = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"{flag} is a flag of {told}"


def _commands_with(flag: str) -> list[str]:
    """The commands that have it, in the order of the overview."""
    name = flag.lstrip("-")
    wanted = f"--{name}" if len(name) > 1 else f"-{name}"
    commands = every(command_line()["commands"])
    return [
        c["name"] for c in commands if any(wanted in (*f["spellings"], *f["aliases"]) for f in c["flags"])
    ]
