"""Nodes in this process behind a link that loses what it is told to lose."""

import time

from fedgraft import wire
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.envelope import Order, opened
from fedgraft.runtimes.federation.journal import Journal
from fedgraft.runtimes.federation.members import Arrived, Link
from fedgraft.runtimes.federation.node import Node
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime

RUN = "0123456789abcdef" * 2


class LocalLink(Link):
    """Answers at once; `lose(node, content)` says what happens to a message: "" nothing, or how it is lost.

    What is lost in silence has no answer; of what else is lost the link itself says so.
    """

    def __init__(self, nodes):
        self.by_id = {100 + client: node for client, node in nodes.items()}
        self.answers, self.sent, self.away = {}, [], set()
        self.lose = lambda node, content: ""
        self.change = lambda node, answer: answer

    def nodes(self):
        return [node for node in self.by_id if node not in self.away]

    def send(self, node, content):
        message = f"message {len(self.sent)}"
        self.sent.append((node, content))
        how = "order" if node in self.away else self.lose(node, content)
        if how == "silence":
            pass
        elif how == "order":
            self.answers[message] = Arrived(message, node, None)
        else:
            answer = self.change(node, self.by_id[node].answer(content))
            self.answers[message] = Arrived(message, node, None if how == "answer" else answer)
        return message

    def receive(self, messages, seconds=0.0):
        found = [self.answers.pop(message) for message in list(messages) if message in self.answers]
        if not found:
            time.sleep(min(seconds, 0.05))
        return found

    def close(self):
        pass


class LocalRoster:
    """Who may take part: {node: client} as `known`, clients without a node as `gone`."""

    def __init__(self, known, gone=()):
        self.known, self.gone = dict(known), frozenset(gone)

    def nodes(self):
        return self.known

    def keyless(self):
        return self.gone


def nodes_of(plan, shards, root, journalled=True):
    """Return {client: its node}, each with a folder of its own."""
    nodes = {}
    for client, shard in enumerate(shards):
        folder = root / str(client)
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(AuditLog(folder / FILE)) if journalled else None
        about = {"name": f"site {client}"}
        nodes[client] = Node(client, shard, folder, lambda recipe: plan, about, journal=journal)
    return nodes


def local_runtime(plan, shards, root, journalled=True, **options):
    """Return a runtime over nodes in this process that have all joined."""
    link = LocalLink(nodes_of(plan, shards, root, journalled))
    runtime = NodesRuntime(link, RUN, len(shards), b"", **options)
    runtime.wait_for_all()
    return runtime


def orders(link):
    """Return the kinds of protocol messages that were sent, by node."""
    found = [(node, opened(Order, content)) for node, content in link.sent]
    return [(node, wire.kind_of(order.request)) for node, order in found if order.kind == "serve"]
