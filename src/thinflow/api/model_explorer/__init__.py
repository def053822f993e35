"""Models for Google's Model Explorer, without their frameworks: files for it, and an extension of it.

    model-explorer model.pb --extensions=thinflow.api.model_explorer

Model Explorer loads `main` of an extension, which only there may import it.
"""
