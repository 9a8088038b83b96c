"""Laws of sharing methods and of all abilities that only some have."""

import copy
import dataclasses

import numpy as np

from fedgraft.contracts import GraphNetworkTask, LinearTask
from fedgraft.contracts.abilities.graphs import LocalGraphTask
from fedgraft.engine.server.rounds.merging import Network
from fedgraft.errors import InputError
from fedgraft.testing import sharing
from fedgraft.testing.laws import Laws, check, expect, expect_error, same, travelled
from fedgraft.testing.sharing import CLIENTS, Case, filled
from fedgraft.wire.layouts import Layout
from laws.parted import PARTED

LAWS: Laws[Case] = Laws()


def check_sharing(cls, /, **options):
    """Hold a sharing method with these options to all laws."""
    check(laws(cls, **options))


def laws(cls, /, **options):
    """The laws of a sharing method with these options, to be called one by one."""
    data = PARTED if demands(cls(**options)) else sharing.LINES
    return [*sharing.laws(cls, data=data, **options), *LAWS.held(cls, lambda: Case(cls, options, data))]


@LAWS.where(lambda cls: GraphNetworkTask in cls.needs)
def what_is_refined_can_be_stored_and_repeats_itself(case: Case) -> None:
    """Return a state that can be stored, by the given draws alone; leave what was given as it was."""
    plan, method = case.plan, case.method
    before = method.init(plan.first, CLIENTS)
    updates = filled(plan.upload_layout, np.random.default_rng(0).normal(size=CLIENTS).tolist())
    network, merged = Network(plan), method.merge(before, updates)
    for seed in (1, 2):
        given = copy.deepcopy((before, merged))
        after = method.refined(before, merged, updates, network, np.random.default_rng(seed))
        expect(same((before, merged), given), "refined changed what it was given", merged, given)
        stored = travelled(before), travelled(merged)
        again = method.refined(*stored, updates, network, np.random.default_rng(seed))
        expect(same(after, again), "equal draws must refine equally", after, again)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        found = Layout.of(method.model(after))
        expect(found == plan.download_layout, "what is sent must have its layout", found, plan.download_layout)
        before, merged = after, method.merge(after, updates)


@LAWS.every
def a_task_without_the_parts_is_refused(case):
    """Name the parts that it needs before a run, or need none."""
    lines, method = dataclasses.replace(case, data=sharing.LINES), case.cls(**case.options)
    if LinearTask in method.needs:
        with expect_error(InputError, "a model that is not linear must be refused", "solves for a linear model, which"):
            dataclasses.replace(case, data=PARTED).toy()
    elif demands(method):
        text = r"needs a task that offers .*, which 'fedgraft\.testing\.toy:Line' with these options does not; it"
        of_nodes = LocalGraphTask in method.needs
        seen = "parts of a graph whose nodes are classified" if of_nodes else "what a model makes of .*"
        text = text if method.parts else rf"{seen}, which task Line does not"
        with expect_error(InputError, "a task without the parts must be refused", text):
            lines.toy()
    else:
        lines.toy()


def demands(method):
    """True where not every task will do."""
    return bool(method.parts or {*method.needs} - {LinearTask})
