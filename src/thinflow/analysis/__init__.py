"""Facts about a graph without running it: shapes, cost, memory, what goes in and out."""
