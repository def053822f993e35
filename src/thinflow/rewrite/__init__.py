"""The rewriting engine: patterns, transforms, the transform string, and the ledger of what happened and why."""
