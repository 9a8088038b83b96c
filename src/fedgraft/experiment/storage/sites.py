"""What a site of a federation has: its data, and what it publishes for all to agree on how data are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from fedgraft.contracts.data import Neighbours
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes.agreeing import is_unsaid
from fedgraft.experiment.storage.client_files import claimed_at, client_at, common_tables, published_at
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.matching import CLAIMED, neighbours_of
from fedgraft.experiment.storage.provenance import versions
from fedgraft.wire.layouts import Tree

PUBLISHED: Final = "published"
"""What a site calls, of what it says of itself, that by which all agree on how data are read."""
AGREED: Final = {
    "data": ("transforms", "features"),
    "task": ("features", "edge_features", "sparse", "classes", "class_names", "metapaths", "judged", "rare"),
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
        clients: names of all clients, in the order of their numbers.
        secret: that all sites have in common and the server has not; b"" = none.
        neighbours: what is known of the others.
    """

    own: Experiment
    data: Sequence[str]
    number: int
    name: str
    digest: str = ""
    clients: tuple[str, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    neighbours: Neighbours | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.neighbours = neighbours_of(self.clients, b"")

    def check(self) -> None:
        """Raise `InputError` for data that are wrong, or do not fit the recipe as far as can be told."""
        self._claimed(self.own)
        if (published := self._published(self.own)) is None:
            client_at(self.own, self.data, self.number, self.name, self.neighbours)
            return
        with without_notes():  # they are of what all agree on
            self.own.agreed_from({self.number: published}, at_sites=True)

    def read(self, recipe: bytes, told: bytes = b"") -> tuple[Any, Mapping[str, Tree]]:
        """Return the data for what a server runs, and what to say of oneself.

        There are no data until clients have agreed on how they are read, and edges between them are joined: what this
        one publishes and claims is said then. `told` is what the server has made of claims; b"" for nothing yet. Raises
        `InputError` for data that do not fit.
        """
        theirs, own = Experiment.from_toml(recipe.decode(errors="replace"), "The server's recipe"), self.own
        if theirs.agreement_known and not own.agreement_known:
            own = _reading(own, theirs)
        about: dict[str, Tree] = {"name": self.name, "tables": dict(common_tables(own, self.data)), **versions()}
        self.neighbours = neighbours_of(self.clients, told)
        said = {PUBLISHED: self._published(own), CLAIMED: None if told else self._claimed(own)}
        if open_ones := {name: each for name, each in said.items() if each is not None}:
            return None, {**about, **open_ones}
        shard, self.digest = client_at(own, self.data, self.number, self.name, self.neighbours)
        return shard, {**about, "data": self.digest}

    def _published(self, own: Experiment) -> bytes | None:
        return published_at(own, self.data, self.number, self.name, self.neighbours)

    def _claimed(self, own: Experiment) -> bytes | None:
        return claimed_at(own, self.data, self.number, self.name, self.neighbours, self.secret)


def _reading(own: Experiment, theirs: Experiment) -> Experiment:
    """Return a site's experiment with what clients agreed on, as the server's says, where its own recipe does not."""
    data, task = _knowing(own.data, theirs.data, "data"), _knowing(own.plan.task, theirs.plan.task, "task")
    return own.with_data(data).with_task(task)


def _knowing(own: Any, theirs: Any, section: str) -> Any:
    names = {each.name for each in fields(own)} if type(own) is type(theirs) else {}
    known = {name: getattr(theirs, name) for name in AGREED[section] if name in names}
    return replace(own, **{name: value for name, value in known.items() if is_unsaid(getattr(own, name))})
