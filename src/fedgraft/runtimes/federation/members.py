"""Know which node is which client, and what each said of itself when it joined."""

import time
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, Protocol

from fedgraft import wire
from fedgraft.errors import WireError, printable
from fedgraft.runtimes.federation.envelope import REFUSED, SERVED, Answer, Order, packed
from fedgraft.runtimes.federation.link import Link

PROBE_SECONDS: Final = 30.0
"""Seconds after which a node that has not answered is asked who it is: if it answers that, its order is sent again."""
LOST_SECONDS: Final = 300.0
"""Seconds after which that question counts as lost, as where a node ends that was just asked; a node may be at work."""

HEAD_BYTES: Final = 32
"""Of the head of a log."""
SAYS_MORE: Final = "The log of its site says why"
"""What is said of a node's refusal: the words stay at the site."""


class Roster(Protocol):
    """Who may take part in a run; asked again and again, since sites are added, removed and given new keys."""

    def nodes(self) -> Mapping[int, int]:
        """{node: client} of those that the server knows."""
        ...

    def keyless(self) -> Set[int]:
        """Clients without a node, for whom nobody waits."""
        ...


class Members:
    """The nodes of a run; arguments as of `NodesRuntime`."""

    def __init__(
        self,
        link: Link,
        run: str,
        count: int,
        recipe: bytes,
        roster: Roster | None,
        note: Callable[[str], None],
    ) -> None:
        self._link, self._run, self._count, self._recipe = link, run, count, recipe
        self._roster, self._note = roster, note
        self._known: Mapping[int, int] | None = None
        self.gone: Set[int] = frozenset()
        """Clients without a node that may take part."""
        self._joining: dict[str, int] = {}  # {id of a message: node}
        self._asked: dict[int, float] = {}  # {node: when it was last asked to join}
        self._nodes: dict[int, int] = {}  # {client: node}
        self._strangers: set[int] = set()
        self._unknown: set[int] = set()  # who is connected and not of the roster: it may be at the next look
        self._look_up()
        self.about: dict[int, Mapping[str, Any]] = {}
        self.refusals: dict[int, str] = {}
        """{client: why its node may not take part}."""
        self.codes: dict[int, str] = {}
        """{client: code with which its node refuses}; what the code stands for is in the log of its site."""
        self.told: Mapping[int, bytes] = {}
        """{client: what its node is told when it joins}; {} where there is nothing to tell."""
        self.heads: dict[int, bytes] = {}
        """{client: the last head that its node has told of its audit log}."""
        self._telling: set[str] = set()  # ids of messages that tell one of both

    @property
    def here(self) -> Mapping[int, int]:
        """{client: node} of those that have joined and are connected."""
        return self._nodes

    @property
    def joining(self) -> Mapping[str, int]:
        """{message: node} of those that were asked to join and have not answered."""
        return self._joining

    def may_answer(self, node: int) -> bool:
        """Return whether a node was asked who it is, not long ago, and has not answered."""
        return node in self._joining.values() and self._asked[node] > time.monotonic() - LOST_SECONDS

    def refresh(self) -> None:
        """Look who is connected; ask those to join who have not."""
        connected = set(self._link.nodes())
        self._look_up()
        self._nodes = {
            client: node for client, node in self._nodes.items() if node in connected and self._may(node, client)
        }
        self._joining = {message: node for message, node in self._joining.items() if node in connected}
        self._strangers &= connected
        late = time.monotonic() - PROBE_SECONDS
        asked = {node for node in self._joining.values() if self._asked[node] > late}
        waiting = {*asked, *self._nodes.values(), *self._strangers}
        unknown = set() if self._known is None else connected - self._known.keys()
        for _ in unknown - self._unknown:
            self._note("A node that is not of this run is connected; it is left out.")
        self._unknown = unknown
        for node in sorted(connected - waiting - unknown):
            self.ask(node)

    def _look_up(self) -> None:
        if self._roster is not None:
            self._known, self.gone = self._roster.nodes(), self._roster.keyless()

    def _may(self, node: int, client: int) -> bool:
        """Return whether a node may be a client."""
        return self._known is None or self._known.get(node) == client

    def ask(self, node: int, client: int | None = None) -> None:
        """Tell a node what is run and ask who it is; it is told what its client is to know where that is known."""
        known = (self._known or {}).get(node, -1) if client is None else client
        told, head = self.told.get(known, b""), self.heads.get(known, b"")
        order = Order("join", self._run, bytes(16), request=self._recipe, told=told, head=head)
        message = self._link.send(node, packed(order))
        if message is not None:
            self._joining[message], self._asked[node] = node, time.monotonic()
            self._telling |= {message} if told or head else set()

    def rejoin(self, node: int) -> None:
        """Ask a node to join again that has joined before, and has lost it."""
        client = next((client for client, other in self._nodes.items() if other == node), None)
        self._nodes = {client: other for client, other in self._nodes.items() if other != node}
        self.ask(node, client)

    def begin_again(self, recipe: bytes) -> None:
        """Forget what nodes said, and ask all to join another recipe."""
        self._recipe, self.about = recipe, {}
        for node in list(self._nodes.values()):
            self.rejoin(node)

    def joined(self, message: str, node: int, answer: Answer | None) -> int | None:
        """Take the answer of a node that was asked to join; return its client, None for one that may not take part.

        Where two nodes are the same client, the one that joined last is.
        """
        self._joining.pop(message, None)
        if answer is None:
            return None
        client = answer.client
        unasked = self._known is None and message not in self._telling and answer.status == SERVED
        if unasked and (client in self.told or (client in self.heads and client not in self.about)):
            self.ask(node, client)  # who it is was not known before
            return None
        about, why = self._checked(node, answer)
        if why:
            self._strangers.add(node)
            self._note(f"A node is left out: {why}.")
            return None
        self._nodes[client] = node
        self.about[client] = about
        self.note_head(answer)
        return client

    def note_head(self, answer: Answer) -> None:
        """Keep what an answer says of its node's audit log."""
        if len(answer.head) == HEAD_BYTES:
            self.heads[answer.client] = answer.head

    def _checked(self, node: int, answer: Answer) -> tuple[Mapping[str, Any], str]:
        """Return what a node says of itself, and why it may not take part; "" where it may."""
        client = answer.client
        if not self._may(node, client) or not 0 <= client < self._count:
            return {}, f"it says that it is client {client}, which it is not"
        if answer.status == REFUSED:
            self.codes[client] = printable(answer.reply.decode(errors="replace"))
            self.refusals[client] = f"{self.codes[client]}. {SAYS_MORE}"
            return {}, f"client {client} refuses: {self.codes[client]}"
        try:
            about: Any = wire.unpack(answer.reply)
        except WireError as error:
            return {}, f"client {client} does not say who it is: {error}"
        if answer.status != SERVED or not isinstance(about, Mapping):
            return {}, f"client {client} does not say who it is"
        if changed := _changed(self.about.get(client), about):
            return {}, f"of client {client} {changed} has changed since the run began"
        for other, theirs in self.about.items():
            if about.get("mark") != theirs.get("mark"):  # each is of a node's secret, if rows are encrypted
                self.refusals[client] = f"its secret (matching.secret in its folder) is not that of client {other}"
                return {}, f"client {client}: {self.refusals[client]}"
            if table := _unlike(_tables_of(about), _tables_of(theirs)):
                self.refusals[client] = f"its table {table!r} is not that of client {other}"
                return {}, f"client {client}: {self.refusals[client]}"
        return about, ""


def _tables_of(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fingerprints of tables that all sites have alike, of what a node says of itself."""
    tables = about.get("tables")
    return tables if isinstance(tables, Mapping) else {}


def _unlike(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    """Return a name under which both have different values; "" for none."""
    return next((name for name in one if name in two and one[name] != two[name]), "")


def _changed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Return what a client's node says otherwise than before; "" for nothing."""
    return next((key for key in before or {} if (before or {})[key] != now.get(key)), "")
