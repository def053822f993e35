"""Are two models the same, and where not: matching, proof, verification, divergence, diff."""
