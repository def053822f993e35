"""Pictures of graphs: DOT text for Graphviz, and SVG and HTML of our own where that is not installed."""
