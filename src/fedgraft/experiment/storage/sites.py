"""What a site of a federation has: its data, and what it publishes for all to agree on how data are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes.agreeing import is_unsaid
from fedgraft.experiment.storage.client_files import client_at, common_tables, published_at
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.provenance import versions
from fedgraft.wire.layouts import Tree

PUBLISHED: Final = "published"
"""What a site calls, of what it says of itself, that by which all agree on how data are read."""
AGREED: Final = {
    "data": ("transforms", "features"),
    "task": ("features", "sparse", "classes", "class_names", "metapaths", "judged", "rare"),
}
"""Options of sections on which clients agree as a run begins, where the recipe does not say them."""


@dataclass
class Site:
    """A client's data at its site.

    Args:
        own: the recipe of its federation.
        data: where its data are, as `client_at` takes it.
        number: which client it is, 0, 1 ...
        name: of the client.
        digest: fingerprint of its data, once they are read.
    """

    own: Experiment
    data: Sequence[str]
    number: int
    name: str
    digest: str = ""

    def check(self) -> None:
        """Raise `InputError` for data that are wrong, or do not fit the recipe as far as can be told."""
        if (published := self._published(self.own)) is None:
            client_at(self.own, self.data, self.number, self.name)
            return
        with without_notes():  # they are of what all agree on
            self.own.agreed_from({self.number: published}, at_sites=True)

    def read(self, recipe: bytes) -> tuple[Any, Mapping[str, Tree]]:
        """Return the data for what a server runs, and what to say of oneself.

        There are no data until clients have agreed on how they are read: what this one publishes is said then. Raises
        `InputError` for data that do not fit.
        """
        theirs, own = Experiment.from_toml(recipe.decode(errors="replace"), "The server's recipe"), self.own
        if theirs.agreement_known and not own.agreement_known:
            own = _reading(own, theirs)
        about: dict[str, Tree] = {"name": self.name, "tables": dict(common_tables(own, self.data)), **versions()}
        if (published := self._published(own)) is not None:
            return None, {**about, PUBLISHED: published}
        shard, self.digest = client_at(own, self.data, self.number, self.name)
        return shard, {**about, "data": self.digest}

    def _published(self, own: Experiment) -> bytes | None:
        return published_at(own, self.data, self.number, self.name)


def _reading(own: Experiment, theirs: Experiment) -> Experiment:
    """Return a site's experiment with what clients agreed on, as the server's says, where its own recipe does not."""
    data, task = _knowing(own.data, theirs.data, "data"), _knowing(own.plan.task, theirs.plan.task, "task")
    return own.with_data(data).with_task(task)


def _knowing(own: Any, theirs: Any, section: str) -> Any:
    names = {each.name for each in fields(own)} if type(own) is type(theirs) else {}
    known = {name: getattr(theirs, name) for name in AGREED[section] if name in names}
    return replace(own, **{name: value for name, value in known.items() if is_unsaid(getattr(own, name))})
