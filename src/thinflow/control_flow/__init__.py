"""The loops and branches of TF1 graphs: frames, steps, and functions made of them."""
