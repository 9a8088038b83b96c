"""What there is, and what it is: recipes and methods with the first lines or all of their own documentation."""

import inspect

from fedgraft import experiment, plugins, recipe, study
from fedgraft.errors import unknown

KINDS = ("recipes", "studies", *plugins.FAMILIES)
"""What can be listed."""


def everything(kind: str | None = None) -> dict[str, dict[str, str]]:
    """{kind: {name: one line}} of one kind or of all. Raises `InputError` for an unknown kind."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return {each: _entries(each) for each in KINDS if kind in (None, each)}


def explain(name: str) -> str:
    """A recipe with all its options resolved, and the documentation of every method of that name."""
    parts = []
    if name in recipe.recipes():
        parts.append(f"# recipe {name}\n\n{experiment.load(name).to_toml()}")
    families = [family for family in plugins.FAMILIES if name in plugins.names(family)]
    parts += [f"# {family}: {name}\n\n{inspect.getdoc(plugins.find(family, name))}" for family in families]
    if not parts:
        known = [*recipe.recipes(), *(each for family in plugins.FAMILIES for each in plugins.names(family))]
        raise unknown("recipe or method", name, dict.fromkeys(known))
    return "\n\n".join(parts)


def _entries(kind: str) -> dict[str, str]:
    if kind == "recipes":
        return recipe.recipes()
    if kind == "studies":
        return {name: study.load(name).title for name in study.names()}
    return {name: plugins.one_line(kind, name) for name in plugins.names(kind)}
