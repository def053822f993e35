"""Budgets of models, as a project settles them in its thinflow.toml, and whether models keep them.

A budget is a function under `@budget`, in a file of `budgets/kinds` that has the name of its key.
`file` says which budgets a model has, `subject` is the model as they see it, `job` asks each, `report` tells.
"""
