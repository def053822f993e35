"""The order of axes: how ops read it, and transposes that move."""
