"""What a project has settled, in its thinflow.toml: one file, of which each part reads its own tables.

`toml_text` reads and writes the text, `project` finds the file, `table` asks for what is in a table and says
what cannot be there.
"""
