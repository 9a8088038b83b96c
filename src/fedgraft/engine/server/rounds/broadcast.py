"""Encode the global models once a version and group, and know who has which."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedgraft.contracts import randomness
from fedgraft.engine import coded_arrays
from fedgraft.engine.plan import Plan
from fedgraft.wire.layouts import Arrays, digest


class Broadcast:
    """The models on their way to the clients.

    Args:
        plan: what both ends agreed on.
        tree: its state, changed in place, so that a checkpoint of the run holds it: {} at the start. "version": how
            often the global model was merged. "downlink": {group: the downlink codec's state}, with "evaluate-" before
            a group for models sent to be scored. "published": {group: {"version", "arrays"}}, encoded models that may
            be sent again. "held": {client: version of the model that it keeps}; absent for the first.
            "kept": {client: digest of the coded arrays that it keeps, which are not sent again}.
    """

    def __init__(self, plan: Plan, tree: dict[str, Any]) -> None:
        self._plan, self._tree = plan, tree
        if not tree:
            tree.update({"version": 0, "downlink": {}, "published": {}, "held": {}, "kept": {}})
        self._sending: dict[int, str] = {}

    @property
    def version(self) -> int:
        """int, how often the global model was merged."""
        version: int = self._tree["version"]
        return version

    def merged(self) -> None:
        """Note that the global model was merged."""
        self._tree["version"] += 1

    def lacking(self, clients: Iterable[int]) -> list[int]:
        """Return those of some clients that must be sent the current model."""
        if self._plan.silent is None:
            return list(clients)
        return [client for client in clients if self._tree["held"].get(str(client), 0) != self.version]

    def current(self, group: int) -> bool:
        """Return whether a group's current model is encoded."""
        return bool(self._tree["published"].get(str(group), {}).get("version") == self.version)

    def publish(self, group: int, model: Arrays) -> Arrays:
        """Encode a group's current model; return what its clients decode, {} where no method needs to know."""
        plan, key = self._plan, str(group)
        downlink = self._tree["downlink"]
        if key not in downlink:
            downlink[key] = plan.downlink.init(plan.download_layout)
        g = randomness.generator(plan.seed, "downlink", self.version, group)
        arrays, downlink[key] = plan.downlink.encode(model, downlink[key], g)
        coded_arrays.check(plan.downlink, arrays, plan.download_layout)
        self._tree["published"][key] = {"version": self.version, "arrays": arrays}
        return plan.downlink.decode(arrays, plan.download_layout) if plan.sharing.tracks else {}

    def published(self, group: int) -> Arrays:
        """Return a group's encoded model."""
        arrays: Arrays = self._tree["published"][str(group)]["arrays"]
        return arrays

    def sent_to(self, groups: Mapping[int, int]) -> dict[int, Arrays]:
        """Return {client: its group's encoded model, without what it keeps}; one object for those sent the same."""
        made, sent = {}, {}
        for group in sorted(set(groups.values())):
            arrays = self.published(group)
            settled = coded_arrays.settled_in(self._plan, arrays)
            made[group] = arrays, coded_arrays.without(arrays, settled), digest(settled) if settled else ""
        for client, group in groups.items():
            whole, shorter, known = made[group]
            keeps = self._tree["kept"].pop(str(client), "") == known != ""  # noted again once it has answered
            self._sending[client] = known
            sent[client] = shorter if keeps else whole
        return sent

    def scored(self, group: int, round: int, model: Arrays) -> Arrays:
        """Return a model to score, encoded; it leaves no trace in training."""
        plan, key = self._plan, f"evaluate-{group}"
        downlink = self._tree["downlink"]
        if key not in downlink:
            downlink[key] = plan.downlink.init(plan.scored_layout)
        g = randomness.generator(plan.seed, "downlink-evaluate", round, group)
        arrays, downlink[key] = plan.downlink.encode(model, downlink[key], g)
        coded_arrays.check(plan.downlink, arrays, plan.scored_layout)
        return arrays

    def received(self, clients: Iterable[int]) -> None:
        """Note who keeps the current model, and what of it is not sent again: clients that answered."""
        clients = list(clients)
        known = {str(client): self._sending.pop(client, "") for client in clients}
        self._tree["kept"].update({client: of for client, of in known.items() if of})
        if self._plan.silent is not None:
            self._tree["held"].update({str(client): self.version for client in clients})

    def forgotten(self, clients: Iterable[int]) -> None:
        """Note who has lost what it kept, and goes on as new."""
        for client in clients:
            self._tree["held"].pop(str(client), None)
            self._tree["kept"].pop(str(client), None)

    def sent(self) -> None:
        """Drop encoded models that are not sent again: those of a method whose rounds all collect."""
        if self._plan.silent is None:
            self._tree["published"].clear()
