"""Runs a graph with the numpy kernels: slow, exact, and the reference for every other engine.

A `Plan` is the part of a graph that some outputs need, in an order that works, with the loops of TF1 (Enter,
Merge, Switch, NextIteration, Exit) gathered into steps of their own; see `control_flow.frames`. A branch that
is not taken carries `DEAD` values, as in TensorFlow: a node that reads one or waits for a dead node does not
run and passes it on, and Merge takes whichever input is alive. The bodies of functions are plans as well; see
`calls`.

    Plan       steps in order, and when each value can be dropped      plan
    task       one step, ready to run: a node, or a loop of TF1        tasks
    runner     computes a node's outputs: control flow, a call,        tasks, calls
               a resource of the session, or
    kernel     the numpy function of its op                            kernels
"""

from __future__ import annotations

from thinflow.interpreter.kernels import as_array, run_node
from thinflow.interpreter.plan import Plan, run_graph

__all__ = ["Plan", "as_array", "run_graph", "run_node"]
