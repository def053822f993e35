"""Types of inputs and outputs that the language of a runtime can hand over."""

from __future__ import annotations

from collections.abc import Collection

from thinflow.deploy.contract import AppInput, AppOutput, Contract
from thinflow.errors import UnsupportedOp


def require_types(contract: Contract, types: Collection[str], runtime: str) -> None:
    """Refuse a model whose inputs or outputs a runtime's language cannot hand over.

    Args:
        contract: of the model.
        types: those that it can, as numpy calls them.
        runtime: for the message.

    Raises:
        UnsupportedOp: it takes or gives others.
    """
    ends: list[AppInput | AppOutput] = [*contract.inputs, *contract.outputs]
    for one in ends:
        # Inside the model every type may occur: the runtime's kernels take it from there.
        if one.dtype not in types:
            raise UnsupportedOp(
                f"'{one.name}' is {one.dtype}, and {runtime} hands over {', '.join(types)} alone",
                contract.source,
                "ship a model that takes and gives floats: it may have eight bits inside",
            )
