"""What several transforms need: constants behind values, effects of nodes, padding of convolutions."""
