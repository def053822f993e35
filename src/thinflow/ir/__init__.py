"""The graph in memory. Imports numpy only when numbers are asked for."""
