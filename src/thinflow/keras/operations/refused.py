"""Functions that are not read, why, and what to do instead."""

from __future__ import annotations

CALLING = frozenset(
    {
        *("AssociativeScan", "Cond", "ForiLoop", "Function", "JVP"),
        *("Map", "Scan", "Switch", "VectorizedMap", "WhileLoop"),
    }
)
"""Those that call a function of Python, which the file only names or has as bytecode."""
REFUSED = {
    "Argpartition": (
        "which of the elements comes first among the smaller ones it leaves open",
        "use keras.ops.argsort in its place",
    ),
    "CTCLoss": ("it is a loss, which training asks for", "give --outputs in front of it"),
    "Eig": ("its results are complex", "use keras.ops.eigh where the matrix is symmetric"),
    "ElasticTransform": (
        "it draws random numbers",
        "leave it out of the model that infers, or give --outputs in front of it",
    ),
}
"""Name -> why it is refused, and the next step."""
