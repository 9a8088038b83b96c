"""A recipe's encoder: the section [model]."""

from fedgraft.contracts.encoder import Encoder, LayeredEncoder
from fedgraft.errors import InputError, require
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.sections import Section


def build_encoder(section: Section, task: str, needed: type[Encoder]) -> Encoder:
    """Return the encoder of a section, which must be of the kind that a task needs."""
    used = without_layers(section)
    if "layers" not in used and "layers" in section:
        wanted, layers = len(section["hidden"]), section["layers"]
        require(layers == wanted, "model.layers", f"{wanted}, as many as model.hidden has widths, or left out", layers)
    built: Encoder = discovery.build("models", "model", used)
    if not isinstance(built, needed):
        fitting = [name for name in discovery.names("models") if issubclass(discovery.find("models", name), needed)]
        raise InputError(f"model {section['name']!r} does not fit task {task!r}; {', '.join(fitting)} do.")
    return built


def without_layers(section: Section) -> Section:
    """A model's section but for `layers` where `hidden` is a list, which says how many there are."""
    if not isinstance(section.get("hidden"), list | tuple):
        return section
    if not issubclass(discovery.class_of("models", "model", section), LayeredEncoder):
        return section
    return {key: value for key, value in section.items() if key != "layers"}
