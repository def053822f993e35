"""Changes from one graph to another, in structure, weights and shapes."""
