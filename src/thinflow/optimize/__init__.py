"""The main job: unknown model in; proven, measured, small model out.

`job` runs the steps, `verdict`, `report` and `page` tell of them.
"""
