"""Pictures of graphs: DOT text for Graphviz, and SVG of our own where that is not installed."""
