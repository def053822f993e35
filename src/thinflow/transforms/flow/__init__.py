"""Functions, loops and branches, for the transforms in `loops_and_branches` and others.

- functionalize: frames, Switch and Merge become While, If and Case (raise_control_flow);
- frames: the way back (lower_control_flow);
- bodies: copies of bodies, and functions made of them, for both;
- dependence, narrowing: dead arguments and results go (prune_loop_variables);
- constant_branches: branches that are never taken go (remove_training_ops);
- library: the functions of a graph, and transforms that act inside them.
"""
