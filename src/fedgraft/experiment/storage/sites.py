"""What a site of a federation has: its data, and what it publishes for all to agree on how data are read."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from fedgraft import wire
from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import PeerClients
from fedgraft.engine.protocol.codes import SECRET
from fedgraft.engine.protocol.transport import keyed
from fedgraft.errors import InputError, RefusedError, WireError, require
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes.agreeing import is_unsaid
from fedgraft.experiment.storage.client_files import (
    LACKS_SECRET,
    claimed_at,
    client_at,
    common_tables,
    matches_at,
    published_at,
)
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.matching import CLAIMED, neighbours_of, order_in
from fedgraft.experiment.storage.provenance import versions
from fedgraft.wire.encrypted_rows import RowSeal
from fedgraft.wire.layouts import Arrays, Tree
from fedgraft.wire.masking import Masks
from fedgraft.wire.tokens import SECRET_BYTES

PUBLISHED: Final = "published"
"""What a site calls, of what it says of itself, that by which all agree on how data are read."""
MARK: Final = "mark"
"""What a site calls, of what it says of itself, that by which it is known to have the secret of all."""
AGREED: Final = {
    "data": ("transforms", "features"),
    "task": (
        "features",
        "edge_features",
        "edge_weights",
        "columns",
        "sparse",
        "classes",
        "class_names",
        "metapaths",
        "judged",
        "positive_class",
    ),
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
        own_secret: that this site alone has, of its masks; b"" = none.
        neighbours: what is known of the others.
    """

    own: Experiment
    data: Sequence[str]
    number: int
    name: str
    digest: str = ""
    clients: tuple[str, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    own_secret: bytes = field(default=b"", repr=False)
    neighbours: PeerClients | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.neighbours = neighbours_of(self.clients, b"")

    def check(self) -> None:
        """Raise `InputError` for data that are wrong, or do not fit the recipe as far as can be told."""
        self._claimed(self.own)
        self._seals(self.own)
        if (published := self._published(self.own)) is None:
            client_at(self.own, self.data, self.number, self.name, self.neighbours)
            return
        with without_notes():  # they are of what all agree on
            self.own.agreed_from({self.number: published}, at_sites=True)

    def read(
        self, recipe: bytes, told: bytes = b"", run: str = "", nonce: bytes = b""
    ) -> tuple[Any, Mapping[str, Tree]]:
        """Return the data for what a server runs, and what to say of oneself: fields of `transport.JOINING`.

        There are no data until clients have agreed on how they are read, and edges between them are joined: what this
        one publishes and claims is said then, and hashes of others' points that it has masked. `told` is what the
        server has made of claims, or such points; b"" for nothing yet. `run` is the run's name, and `nonce` that of the
        site's log. What is said of data is keyed: who lacks a secret of the sites can try no data until it fits. Raises
        `InputError` for data that do not fit.
        """
        theirs, own = Experiment.from_toml(recipe.decode(errors="replace"), "The server's recipe"), self.own
        own = reading_as(own, theirs)
        tables: dict[str, Tree] = {**common_tables(own, self.data, self.secret, run)}
        about: dict[str, Tree] = {"name": self.name, "tables": tables, **versions()}
        told_alike = self._seals(own) or self._hashes(own) or bool(tables and self.secret)
        about |= {MARK: self.seal(run).mark} if told_alike else {}
        order = order_in(told)
        self.neighbours = neighbours_of(self.clients, told if order is None else b"")
        masks = Masks(self._derived(f"masks of ids in run {run}", nonce), run) if _is_private(own) else None
        claims = self._claimed(own, masks) if not told else None
        said = {PUBLISHED: self._published(own), CLAIMED: self._answered(masks, order) if order else claims}
        if open_ones := {name: each for name, each in said.items() if each is not None}:
            return None, {**about, **open_ones}
        shard, self.digest = client_at(own, self.data, self.number, self.name, self.neighbours)
        known = self.own_secret  # without it nothing is said, in place of what others could try
        return shard, {**about, "data": keyed(known, "data", self.digest.encode()).hex()} if known else about

    def seal(self, run: str) -> RowSeal:
        """Return what rows are encrypted with in a run, by its name."""
        return RowSeal(self.secret, run)

    def mask_root(self, run: str, nonce: bytes) -> bytes:
        """Return the root of the secrets of this site's masks and noise in a run, by its name and its log's nonce."""
        return self._derived(f"masks of sums in run {run}", nonce)

    def memory_key(self, run: str) -> bytes:
        """Return the key by which what this site remembers of a run is named."""
        return self._derived(f"names of memories in run {run}")

    def _derived(self, purpose: str, nonce: bytes = b"") -> bytes:
        """32 bytes that nobody has who lacks the site's own secret. Raises `InputError` where there is none."""
        length = len(self.own_secret)
        require(length == SECRET_BYTES, "The length of a secret", f"{SECRET_BYTES} bytes (masks.secret)", length)
        return hmac.digest(self.own_secret, purpose.encode() + nonce, "sha256")

    def _seals(self, own: Experiment) -> bool:
        """Whether rows are encrypted. Raises `InputError` where the secret for it is missing."""
        if own.plan.encrypted is None:
            return False
        if not self.secret:
            said = f"exchange.encrypted_rows = true needs the secret that all sites have in common: {LACKS_SECRET}"
            raise RefusedError(said, SECRET)
        return True

    def _hashes(self, own: Experiment) -> bool:
        """Whether ids are matched by the secret: with another one than the others have, nothing would be."""
        return matches_at(own, self.data) and not _is_private(own)

    def _published(self, own: Experiment) -> bytes | None:
        return published_at(own, self.data, self.number, self.name, self.neighbours)

    def _claimed(self, own: Experiment, masks: Masks | None = None) -> bytes | None:
        return claimed_at(own, self.data, self.number, self.name, self.neighbours, self.secret, masks)

    def _answered(self, masks: Masks | None, order: Arrays) -> bytes:
        """Hashes of others' points, masked, packed."""
        if masks is None:
            raise InputError("The server has sent points to mask, which data.match = 'psi' alone has a site do.")
        try:
            return wire.pack({**masks.answer(order, self.number, len(self.clients))})
        except WireError as error:
            raise InputError(f"The server has sent what are no points of others' edges: {error}.") from error


def _is_private(experiment: Experiment) -> bool:
    return isinstance(experiment.data, MatchedData) and experiment.data.is_private


def reading_as(own: Experiment, theirs: Experiment) -> Experiment:
    """Return a site's experiment with what clients agreed on, as the server's says, where its own recipe does not."""
    if own.agreement_known or not theirs.agreement_known:
        return own
    data, task = _knowing(own.data, theirs.data, "data"), _knowing(own.plan.task, theirs.plan.task, "task")
    return own.with_data(data).with_task(task)


def _knowing(own: Any, theirs: Any, section: str) -> Any:
    names = {each.name for each in fields(own)} if type(own) is type(theirs) else {}
    known = {name: getattr(theirs, name) for name in AGREED[section] if name in names}
    return replace(own, **{name: value for name, value in known.items() if is_unsaid(getattr(own, name))})
