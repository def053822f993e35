"""The release of LiteRT that a model needs."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, Status, not_meant
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import release
from thinflow.budgets.subject import Subject
from thinflow.tflite.releases import Release, first_release, last_known

_CUSTOM = "CUSTOM"


@budget("litert", read=release)
def litert(model: Subject, limit: Release) -> BudgetItem:
    """The oldest release of LiteRT, or of TensorFlow Lite before it, that has to run a .tflite file."""
    if model.program is None:
        return not_meant("it is no .tflite file")
    used = {(o.code, o.version) for block in model.program.subgraphs for o in block.operators}
    # Whoever has operators of their own brings kernels for them.
    needs = {(code, version): first_release(code, version) for code, version in used if code != _CUSTOM}
    wrong = [one for one, since in needs.items() if since is not None and since > limit]
    newer = [one for one, since in needs.items() if since is None]
    if newer and limit <= last_known():
        wrong += newer
    if wrong:
        told = ", ".join(_need(code, version) for code, version in sorted(wrong))
        return BudgetItem(Status.OVER, f"{told}, not {_text(limit)}", mend="thinflow inspect MODEL")
    if newer:
        told = ", ".join(f"{code} version {version}" for code, version in sorted(newer))
        why = f"{told} came after {_text(last_known())}; in which release is not known here"
        return BudgetItem(Status.UNSURE, why)
    oldest = max((since for since in needs.values() if since is not None), default=(1, 5))
    return BudgetItem(Status.WITHIN, f"it runs from {_text(oldest)} on, {_text(limit)} is asked for")


def _need(code: str, version: int) -> str:
    since = first_release(code, version)
    told = f"{_text(since)}" if since is not None else f"a later release than {_text(last_known())}"
    return f"{code} version {version} needs {told}"


def _text(found: Release) -> str:
    return f"{found[0]}.{found[1]}"
