"""The loops and branches of TF1 graphs: frames, steps, and functions made of them.

    frames           finds loops (Enter, Merge, Switch, NextIteration, Exit), so that each runs as one step
    steps            finds branchings as well (Switch and Merge of one predicate), and puts all in order
    functionalize    makes functions of a loop's or a branch's nodes; edits no graph

The interpreter runs frames. Lowering and engines ask for steps and functions; `transforms.flow` puts TF2's
While and If in the place of loops and branches with them.
"""
