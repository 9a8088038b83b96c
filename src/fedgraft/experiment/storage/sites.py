"""What a site of a federation has: its data, and what it publishes for all to agree on how data are read."""

import hmac
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from fedgraft import wire
from fedgraft.contracts.abilities.matching import KNOWN_ELSEWHERE, MatchedData
from fedgraft.contracts.abilities.tasks import derived_shard
from fedgraft.contracts.data import AgreedData, ClientTables, PeerClients, Purpose
from fedgraft.engine.protocol.codes import SECRET
from fedgraft.engine.protocol.transport import keyed, known_alike
from fedgraft.errors import InputError, RefusedError, WireError, require, require_one_of
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.agreeing import filled_in
from fedgraft.experiment.storage.client_files import SUFFIX, packages_of, read_client
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.matching import CLAIMED, neighbours_of, order_in
from fedgraft.experiment.storage.provenance import digest_of, versions
from fedgraft.tables.table_files import ALLOWED, is_address, is_table
from fedgraft.wire.encrypted_rows import RowSeal
from fedgraft.wire.layouts import Arrays, Tree
from fedgraft.wire.masking import Masks
from fedgraft.wire.tokens import SECRET_BYTES

LOG = logging.getLogger("fedgraft.data")
LACKS_SECRET: Final = """this node's folder lacks it. Copy matching.secret from another site's folder, not by way of \
the server; the first site makes it with 'fedgraft federation keygen DIR --new-secret'."""
"""What is said of a site without the secret of all."""
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


@dataclass(frozen=True, eq=False)
class SiteData:
    """A client's data where they are: a file of `fedgraft shard`, or tables.

    Args:
        own: the recipe of its federation.
        data: a file of `fedgraft shard`; or its tables, NAME=FILE each, where the first may go without a name.
        number: which client it is, 0, 1 ...
        name: of the client.
        neighbours: what its site knows of the others; None = nothing.
    """

    own: Job
    data: Sequence[str]
    number: int
    name: str
    neighbours: PeerClients | None = None

    @property
    def _is_file(self) -> bool:
        return Path(self.data[0]).suffix == SUFFIX

    @property
    def _purpose(self) -> Purpose:
        return Purpose(self.name, self.number, self.own.seed, trains=True, neighbours=self.neighbours)

    @property
    def _reader(self) -> ClientTables[Any]:
        """What reads a site's own tables. Raises `InputError` where nothing does."""
        data = self.own.data
        if not isinstance(data, ClientTables) or not data.site_tables:
            raise InputError(
                f"Data set {type(data).__name__!r} is not read from a site's own tables; give a file of 'fedgraft "
                f"shard', which ends in {SUFFIX}."
            )
        return data

    @property
    def matches(self) -> bool:
        """Whether ids are matched with others'; of a file of `fedgraft shard` they were before."""
        return isinstance(self.own.data, MatchedData) and self.own.data.matches and not self._is_file

    def read(self) -> tuple[Any, str]:
        """Return the data, and their fingerprint.

        Raises `InputError` for data that are another client's, are wrong, or do not fit the recipe.
        """
        if len(self.data) == 1 and self._is_file:
            shard, digest = self._of_file(Path(self.data[0]))
        else:
            shard = self.of_tables(self._tables())
            digest = digest_of(shard)
        task = self.own.plan.task
        try:
            task.check_shard(shard)
        except InputError as error:
            raise InputError(f"{', '.join(map(str, self.data))} does not fit the recipe: {error}") from error
        for remark in task.remarks(shard):
            LOG.warning(remark)
        return shard, digest

    def of_tables(self, tables: Mapping[str, str | Path]) -> Any:
        """Return the data of {name of one of the data set's `site_tables`: file}, read as the recipe's are."""
        reader = self._check_first(tables)
        task, own = self.own.plan.task, self.own
        return derived_shard(
            task, self.number, reader.client_shard(task, tables, self._purpose), own.seed, own.split_seed
        )

    def published(self) -> bytes | None:
        """Return what the client publishes, packed, for all to agree on how data are read.

        None where that is known, or nothing is to be agreed on, as of a file of `fedgraft shard`.
        """
        site = self.own.data
        if not isinstance(site, AgreedData) or self.own.agreement_known or self._is_file:
            return None
        with without_notes():  # they are told where data are read for training
            return wire.pack(site.published_by(self.own.plan.task, self._site_tables(), self._purpose))

    def claimed(self, secret: bytes, masks: Masks | None = None) -> bytes | None:
        """Return what the client tells of its edges to others, packed, by the `secret` of all sites.

        Behind `masks` where it has some. None where there are none to tell of, as of a file of `fedgraft shard`.
        """
        site = self.own.data
        if not isinstance(site, MatchedData) or not self.matches:
            return None
        if not secret:
            raise RefusedError(f"Sites that match ids need the secret that all have in common: {LACKS_SECRET}", SECRET)
        with without_notes():  # they are told where data are read for training
            claims = site.claims_at(self.own.plan.task, self._site_tables(), self._purpose, secret)
        return wire.pack({**(masks.claims(claims) if masks else claims)})

    def elsewhere(self) -> pd.DataFrame:
        """Return the nodes of others to which its edges were joined, as `MatchedData.elsewhere_at`."""
        site = self.own.data
        if not isinstance(site, MatchedData) or not self.matches:
            return pd.DataFrame(columns=list(KNOWN_ELSEWHERE))
        with without_notes():  # they were told where data were read
            return site.elsewhere_at(self.own.plan.task, self._site_tables(), self._purpose)

    def common_tables(self, secret: bytes, run: str) -> dict[str, bytes]:
        """Return {table that all have alike: fingerprint of its file, under the secret of all}."""
        if len(self.data) == 1 and self._is_file:
            return {}
        names, tables = self._reader.common_tables, self._tables()
        read = {name: Path(tables[name]).read_bytes() for name in names if name in tables}
        return {name: known_alike(secret, f"table in run {run}", content) for name, content in read.items()}

    def _of_file(self, path: Path) -> tuple[Any, str]:
        file = read_client(path, packages_of(self.own.data))
        if file.task != self.own.task_name:
            raise InputError(f"{path} holds data for task {file.task!r}; the recipe is for {self.own.task_name!r}.")
        if (file.number, file.name) != (self.number, self.name):
            raise InputError(
                f"{path} is of client {file.number}, {file.name!r}; this node is that of client {self.number}, "
                f"{self.name!r}."
            )
        return file.shard, file.digest

    def _site_tables(self) -> dict[str, str | Path]:
        """Return {option: file}, the first table among them."""
        tables = self._tables()
        self._check_first(tables)
        return tables

    def _check_first(self, tables: Mapping[str, str | Path]) -> ClientTables[Any]:
        if (first := self._reader.site_tables[0]) not in tables:
            raise InputError(f"--data {first}=FILE is missing: the table {first!r} of client {self.name!r}.")
        return self._reader

    def _tables(self) -> dict[str, str | Path]:
        """Return {option: file} of texts "NAME=FILE"; a file without a name is the first table."""
        if any(Path(text).suffix == SUFFIX for text in self.data):
            raise InputError(f"--data: a file of 'fedgraft shard' ({SUFFIX}) is all of a client's data; give it alone.")
        known, tables = self._reader.site_tables, dict[str, str | Path]()
        for text in self.data:
            before, equals, after = text.partition("=")
            name, file = (before, after) if equals and before.isidentifier() else (known[0], text)
            require_one_of("--data NAME=FILE: NAME", name, known)
            if name in tables:
                raise InputError(
                    f"--data: table {name!r} is given twice, {str(tables[name])!r} and {file!r}; give one."
                )
            if not is_table(file):
                allowed = f"{SUFFIX} (of 'fedgraft shard'), {ALLOWED}"
                raise InputError(f"--data {text}: a file must end in {allowed}.")
            tables[name] = file if is_address(file) else Path(file)
        return tables


@dataclass
class Site:
    """A client's data at its site.

    Args:
        own: the recipe of its federation.
        data: where its data are, as `SiteData` takes it.
        number: which client it is, 0, 1 ...
        name: of the client.
        digest: fingerprint of its data, once they are read.
        clients: names of all clients, in the order of their numbers.
        secret: that all sites have in common and the server has not; b"" = none.
        own_secret: that this site alone has, of its masks; b"" = none.
        neighbours: what is known of the others.
    """

    own: Job
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
        data = self._data(self.own)
        data.claimed(self.secret)
        self._seals(self.own)
        if (published := data.published()) is None:
            data.read()
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
        theirs, own = Job.from_toml(recipe.decode(errors="replace"), "The server's recipe"), self.own
        own = reading_as(own, theirs)
        tables: dict[str, Tree] = {**self._data(own).common_tables(self.secret, run)}
        about: dict[str, Tree] = {"name": self.name, "tables": tables, **versions()}
        told_alike = self._seals(own) or self._hashes(own) or bool(tables and self.secret)
        about |= {MARK: self.seal(run).mark} if told_alike else {}
        order = order_in(told)
        self.neighbours = neighbours_of(self.clients, told if order is None else b"")
        masks = Masks(self._derived(f"masks of ids in run {run}", nonce), run) if _is_private(own) else None
        data = self._data(own)
        claims = data.claimed(self.secret, masks) if not told else None
        said = {PUBLISHED: data.published(), CLAIMED: self._answered(masks, order) if order else claims}
        if open_ones := {name: each for name, each in said.items() if each is not None}:
            return None, {**about, **open_ones}
        shard, self.digest = data.read()
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

    def _seals(self, own: Job) -> bool:
        """Whether rows are encrypted. Raises `InputError` where the secret for it is missing."""
        if own.plan.encrypted is None:
            return False
        if not self.secret:
            said = f"exchange.encrypted_rows = true needs the secret that all sites have in common: {LACKS_SECRET}"
            raise RefusedError(said, SECRET)
        return True

    def _hashes(self, own: Job) -> bool:
        """Whether ids are matched by the secret: with another one than the others have, nothing would be."""
        return self._data(own).matches and not _is_private(own)

    def _data(self, own: Job) -> SiteData:
        return SiteData(own, self.data, self.number, self.name, self.neighbours)

    def _answered(self, masks: Masks | None, order: Arrays) -> bytes:
        """Hashes of others' points, masked, packed."""
        if masks is None:
            raise InputError("The server has sent points to mask, which data.match = 'psi' alone has a site do.")
        try:
            return wire.pack({**masks.answer(order, self.number, len(self.clients))})
        except WireError as error:
            raise InputError(f"The server has sent what are no points of others' edges: {error}.") from error


def _is_private(experiment: Job) -> bool:
    return isinstance(experiment.data, MatchedData) and experiment.data.is_private


def reading_as(own: Job, theirs: Job) -> Job:
    """Return a site's experiment with what clients agreed on, as the server's says, where its own recipe does not."""
    if own.agreement_known or not theirs.agreement_known:
        return own
    data = filled_in(own.data, theirs.data, AGREED["data"])
    task = filled_in(own.plan.task, theirs.plan.task, AGREED["task"])
    return own.with_data(data).with_task(task)
