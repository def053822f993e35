"""The main job: unknown model in; proven, measured, small model out.

`job` runs the steps, `report` tells of them.
"""
