"""The rewriting engine: patterns, transforms, their string form, and the ledger of what happened."""
