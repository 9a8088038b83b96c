"""List recipes, studies and methods, each with the first line of its own documentation."""

from fedgraft.errors import unknown
from fedgraft.experiment.recipes.method_names import FAMILIES, names, one_line
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.reports.studies import study_files

KINDS = ("recipes", "studies", *FAMILIES)
"""What can be listed."""


def everything(kind: str | None = None) -> dict[str, dict[str, str]]:
    """{kind: {name: one line}} of one kind or of all. Raises `InputError` for an unknown kind."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return {each: _entries(each) for each in KINDS if kind in (None, each)}


def _entries(kind: str) -> dict[str, str]:
    if kind == "recipes":
        return recipes()
    if kind == "studies":
        return study_files.titles()
    return {name: one_line(kind, name) for name in names(kind)}
