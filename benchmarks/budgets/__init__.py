"""One file per budget; the file name is the budget's name.

Each defines `TITLE`, `IN_QUICK` (whether --quick runs it) and `measure(bench) -> list[Line]`.
"""
