"""Rounds in segments, opened and looked into."""

from dataclasses import replace

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from helpers.node_runs import OFTEN, small
from helpers.toy_methods import Scripted


def often(**changes):
    """FedAIS whose clients wait four times in a round."""
    return small("fedais", **{**OFTEN, **changes})


def everywhere(experiment, *cohorts):
    """The same experiment with these cohorts, one a round; by default everybody in every round."""
    clients = tuple(range(4))
    cohorts = cohorts or (clients,) * experiment.stopping.rounds
    return replace(experiment, selector=Scripted(cohorts))


def replies_of(plan, kind):
    return Protocol.of(plan).reply_layouts[kind], Protocol.of(plan).report(kind)


def opened(plan, message, up=True):
    """A message as its receiver reads it."""
    layouts = Protocol.of(plan).reply_layouts if up else Protocol.of(plan).request_layouts
    names = {kind: Protocol.of(plan).report(kind) for kind in wire.KINDS} if up else Protocol.of(plan).request_names
    return wire.decode(message, layouts, names)
