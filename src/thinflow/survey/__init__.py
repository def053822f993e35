"""What is in a collection of models: each found by content, looked at in a child, and told in one table.

`units` finds what belongs together (a SavedModel's folder, a checkpoint's files), `archives` looks into zip
and tar files, `look` opens one unit and tries all that can be done with it, `workers` has that done in
processes with limits, `likeness` finds the same weights under other names, `report` tells.
"""
