"""Why benchmark_model did not run a model, and what helps."""

from __future__ import annotations

from thinflow.device.android.bridge import Done
from thinflow.device.android.output import Output
from thinflow.device.android.told import About
from thinflow.errors import EngineUnavailable
from thinflow.errors.plain_text import one_line

_KILLED, _ABORTED, _CRASHED = 137, 134, 139
_LONGEST = 240
_WHERE = "LiteRT's releases have one for each ABI; `file` tells what one is for"


def refusal(done: Done, told: Output, model: str, device: str, about: About) -> EngineUnavailable:
    """The error of a process that ended without times.

    Args:
        told: what it printed, read.
        model, device: names of these.
    """
    text = done.text.lower()
    where = f"{device}, {model}" if model else device
    if "no space left on device" in text:
        return EngineUnavailable("there is no space left on the device", where, hint="make room there")
    if "not executable" in text or "exec format error" in text:
        return EngineUnavailable(
            f"this benchmark_model is not for the device, which runs {', '.join(about.abis)}",
            where,
            hint=_WHERE,
        )
    if told.refused:
        return EngineUnavailable(_short(told.refused[0]), where, hint="take another delegate, or none")
    if "cannot link executable" in text:
        line = next((x for x in done.text.splitlines() if "ibrary" in x), "")
        return EngineUnavailable(
            f"this benchmark_model does not start: {_short(line)}",
            where,
            hint="take one that brings its libraries with it",
        )
    if "taskset" in text and ("not found" in text or "invalid" in text or "failed" in text):
        return EngineUnavailable("the device lets nothing be bound to CPUs", where, hint="leave cpus out")
    # By signal 9, which on a phone comes from the watch over its memory.
    if done.status == _KILLED:
        return EngineUnavailable(
            "Android ended it, most likely for want of memory",
            where,
            hint="close apps, or take a smaller model",
        )
    if done.status in (_ABORTED, _CRASHED):
        how = "aborted" if done.status == _ABORTED else "crashed"
        return EngineUnavailable(f"benchmark_model {how} there{_said(told)}", where, hint=_HELP)
    return EngineUnavailable(f"benchmark_model fails there{_said(told) or _last(done)}", where, hint=_HELP)


_HELP = "a newer benchmark_model knows more operators; `thinflow inspect` says which the model needs"


def _said(told: Output) -> str:
    return f": {_short('; '.join(dict.fromkeys(told.errors)))}" if told.errors else ""


def _last(done: Done) -> str:
    lines = [line for line in done.text.splitlines() if line.strip()]
    return f": {_short(lines[-1])}" if lines else f", exit code {done.status}"


def _short(text: str) -> str:
    plain = one_line(text.strip())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
