"""Functions, loops and branches: inlined, functionalized, narrowed, and lowered to frames."""
