"""From variables to constants: SavedModels, MetaGraphs and graphs with checkpoints become graphs that run."""
