"""Forms of operators, by family."""
