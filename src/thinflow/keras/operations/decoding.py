"""Labels from what a network says of each step of a sequence."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.nodes import common
from thinflow.keras.operations.elementwise import tensor
from thinflow.keras.registry import Result, operation


@operation("CTCDecode")
def ctc_decode(c: Call) -> Result:
    """Labels without blanks, -1 behind them, and scores.

    x [b, t, c], lengths [b] -> [paths, b, t], [b, paths]
    """
    x = tensor(c, "inputs", 0)
    lengths = c.cast(tensor(c, "sequence_lengths", 1), INT32)
    steps = c.cast(c.transpose(x, (1, 0, 2)), common(c.type_of(x), FLOAT))
    classes, given = c.size(x, -1), c.get("mask_index", 0)
    blank = classes - 1 if given is None else c.axis(c.integer("mask_index", 0), classes)
    shape = c.cast(c.sizes_vector([c.dim(x, 0), c.dim(x, 1)]), INT64)

    def dense(places: Value, labels: Value) -> Value:
        # Labels are written with their places, which the decoders give in their order.
        options: dict[str, Any] = {"T": c.type_of(labels), "Tindices": INT64, "validate_indices": True}
        table = c.emit("SparseToDense", places, shape, labels, c.const(-1, like=labels), **options)
        return c.cast(table, INT32)

    if c.choice("strategy", "greedy", "beam_search") == "greedy":
        c.read.update(("beam_width", "top_paths"))
        node = c.node("CTCGreedyDecoder", steps, lengths, blank_index=blank,
                      merge_repeated=c.flag("merge_repeated", True))  # fmt: skip
        return [c.expand(dense(node.output(0), node.output(1)), 0), node.output(3)]
    if given is not None and c.integer("mask_index", 0) < 0:
        raise c.refuse("its mask_index is negative, for which Keras takes each class twice")
    # Keras merges what repeats in any case, and the decoder wants the blank last.
    c.read.add("merge_repeated")
    paths = c.integer("top_paths", 1)
    order = [*(n for n in range(classes) if n != blank), blank]
    kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(steps), "Tindices": INT32, "Taxis": INT32}
    steps = c.emit("GatherV2", steps, c.const(order, "order"), c.const(2, "axis"), **kinds)
    node = c.node("CTCBeamSearchDecoder", steps, lengths, beam_width=c.integer("beam_width", 100),
                  top_paths=paths, merge_repeated=False)  # fmt: skip
    tables = [dense(node.output(n), node.output(paths + n)) for n in range(paths)]
    labels = c.emit("Pack", *tables, N=paths, axis=0, name="stack")
    moved = activations.where(c, c.emit("GreaterEqual", labels, blank), c.emit("AddV2", labels, 1), labels)
    return [moved, node.output(3 * paths)]
