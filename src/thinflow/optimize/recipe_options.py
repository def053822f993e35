"""Options that say how a model is quantized: a scheme, a recipe or its file, and an effort."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

from thinflow.errors import ParameterError
from thinflow.ir.digest import graph_digest
from thinflow.ir.graph import Graph
from thinflow.optimize.climb import require_effort
from thinflow.optimize.trials import Climb, trial_lines
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile, read_recipe, write_recipe
from thinflow.typing import FilePath


@dataclass(frozen=True)
class OpenedRecipe:
    """What options say together.

    Attributes:
        recipe: all choices; None if only a scheme was chosen, or nothing.
        effort: how much is tried beyond it.
        file: where the recipe is from; None if from no file.
    """

    recipe: Recipe | None
    effort: str
    file: RecipeFile | None = None


def opened_recipe(recipe: Recipe | FilePath | None, effort: str | None) -> OpenedRecipe:
    """A recipe as given, or from the file that was named.

    A recipe of a file is repeated as it is, unless an effort is given: then more is tried from it on.

    Raises:
        FormatError: the file cannot be read.
        ParameterError: it holds what does not exist, or there is no such effort.
    """
    if effort is not None:
        require_effort(effort)
    if isinstance(recipe, (str, os.PathLike)):
        found = read_recipe(recipe)
        return OpenedRecipe(found.recipe, effort or "none", found)
    return OpenedRecipe(recipe, effort or "default")


def with_choices(recipe: Recipe | FilePath | None, choices: dict[str, Any]) -> Recipe | FilePath:
    """A recipe made of single choices; or the given one, if they do not contradict it.

    Args:
        recipe: given besides; None if it was not.
        choices: fields of `Recipe` that were chosen one by one.

    Raises:
        ParameterError: a choice contradicts the recipe.
    """
    if recipe is None:
        return Recipe(**choices)
    stated = read_recipe(recipe).recipe if isinstance(recipe, (str, os.PathLike)) else recipe
    chosen = replace(stated, **choices)
    for field in fields(Recipe):
        said, there = getattr(chosen, field.name), getattr(stated, field.name)
        if said != there:
            raise ParameterError(
                f"{field.name} is {_shown(said)} and the recipe's is {_shown(there)}",
                hint="leave it out, or change it in the recipe",
            )
    return recipe


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def save_recipe(path: FilePath, way: Climb, graph: Graph, samples: str) -> int:
    """Write the recipe that a model was made by; the bytes written.

    Args:
        graph: the model as it was opened.
        samples: where they are from, in words.

    Raises:
        WriteError: it cannot be written.
    """
    found = RecipeFile(way.recipe, os.path.basename(graph.path or ""), graph_digest(graph))
    return write_recipe(path, found, samples=samples, tried=trial_lines(way.trials))


def recipe_notes(file: RecipeFile | None, graph: Graph) -> list[str]:
    """Sentences on a recipe that was found for another model."""
    note = "" if file is None else file.note(graph_digest(graph))
    return [note] if note else []
