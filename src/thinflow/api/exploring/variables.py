"""Values of variables that lie in the checkpoint beside a graph."""

from __future__ import annotations

import os

from thinflow.errors import ThinflowError
from thinflow.formats import metagraph, recognise, savedmodel
from thinflow.formats.checkpoint import open_checkpoint
from thinflow.ir.tensor import Tensor
from thinflow.load.checkpoint_keys import keys_of, tensor_of


def variable_tensors(path: str | os.PathLike[str], tags: str | None) -> tuple[dict[str, Tensor], str]:
    """Values by the names of the variables' nodes, read when somebody asks for the numbers.

    Returns:
        The values, and why there are none of some; "" if nothing is wrong. Files of other kinds have none.
    """
    kind = recognise(path).name
    if kind not in ("savedmodel", "metagraph"):
        return {}, ""
    found: dict[str, Tensor] = {}
    try:
        meta = savedmodel.read(path).select(tags) if kind == "savedmodel" else metagraph.read(path)
        if meta.checkpoint is None:
            return {}, ""
        checkpoint = open_checkpoint(meta.checkpoint)
        for name, key in keys_of(meta.graph, checkpoint, meta).items():
            found[name] = tensor_of(checkpoint, key)
    except ThinflowError as error:
        return found, f"the values of variables are not shown: {error.message}"
    return found, ""
