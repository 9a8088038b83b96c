"""Sections [model] that name a class of torch in place of an encoder: the encoder that takes it, and its options."""

from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.given_networks import imported, is_given
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe


def with_encoder(recipe: Recipe) -> Recipe:
    """Return a recipe whose [model] names an encoder; where it named a class of torch, the one that takes that.

    Raises `InputError` where no encoder does.
    """
    section = recipe.section("model")
    path = section.get("name", "")
    if not isinstance(path, str) or ":" not in path or is_given(path):
        return recipe
    value = imported(path, "model.name")
    if isinstance(value, type) and issubclass(value, Encoder):
        return recipe
    options = {key: value for key, value in section.items() if key != "name"}
    for name in discovery.names("models"):
        if (taken := discovery.find("models", name).options_from(path, value, options)) is not None:
            return recipe.with_sections({"model": {"name": name, **taken}})
    raise InputError(
        f"model.name = {path!r} must be a class of torch.nn.Module, or an encoder of fedgraft; got {value!r}."
    )
