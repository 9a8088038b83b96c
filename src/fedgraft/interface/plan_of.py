"""Hold what a server runs against a node's own recipe, and against what its site lets leave."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.protocol.codes import POLICY, refused_as
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.policies import own_policy, require_allowed
from fedgraft.experiment.recipes import server_choices
from fedgraft.experiment.recipes.agreeing import is_unsaid
from fedgraft.experiment.recipes.recipe import contents, outside_names, section_of
from fedgraft.experiment.running import portable
from fedgraft.experiment.storage.sites import AGREED, reading_as
from fedgraft.runtimes.federation.site_limits import SiteLimits


def plan_of(recipe: bytes, own: Job, limits: SiteLimits | None = None, allowed: Policy | None = None) -> Plan:
    """Return the plan of what a server runs.

    Raises `InputError` where it is not what this site has data for, differs from the node's `own` recipe in what the
    server may not choose, is beyond the site's `limits`, None = the usual ones, or where not all that it asks for is
    `allowed` to leave, None = what the node's own recipe asks for, and what comes of options that it allows.

    Classes that are not fedgraft's are found only where the node's own recipe names them.
    """
    text, limits = recipe.decode(errors="replace"), limits or SiteLimits()
    theirs, known = contents(text, "The server's recipe"), contents(own.to_toml(), "This node's recipe")
    limits.check(theirs)
    for name, agreed in AGREED.items():
        open_ones = [key for key in agreed if is_unsaid(known[name].get(key))]
        _check_same(name, _plain(section_of(theirs, name), open_ones), _plain(known[name], open_ones))
    for name in server_choices.FEDERATION_S:
        if name not in AGREED:
            _check_same(name, section_of(theirs, name), section_of(known, name))
    if strange := sorted({*outside_names(theirs)} - {*outside_names(known)}):
        raise InputError(f"it names the class {strange[0]!r}, which this node's recipe does not")
    experiment = Job.from_toml(text, "The server's recipe")
    server_choices.check(_said(experiment), _said(reading_as(own, experiment)), limits.allow)
    server_choices.check_told(experiment.selector, own.selector, limits.allow)
    portable.check(experiment.runtime)
    torch.set_num_threads(experiment.runtime.threads)
    policy = allowed or own_policy(experiment if limits.allow else own)
    with refused_as(POLICY):
        require_allowed(experiment, policy, "this node's policy")
    # The more rounds of both recipes, which noise must last for: the server may ask for fewer, and then for more.
    rounds = max(experiment.plan.rounds, own.plan.rounds)
    return replace(experiment.plan, policy=policy, rounds=rounds, at_sites=True)


def _said(experiment: Job) -> dict[str, Any]:
    """Return all that a recipe says, as TOML has it."""
    return contents(experiment.to_toml(), "The recipe")


def _check_same(section: str, theirs: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `InputError` where the server's section is not the node's own."""
    for option in sorted({**known, **theirs}):
        if theirs.get(option) != known.get(option):
            told = server_choices.told_difference(f"{section}.{option}", theirs.get(option), known.get(option))
            raise InputError(f"its [{section}] is not that of this node's recipe: {told}")


def _plain(section: Any, but: Collection[str]) -> dict[str, Any]:
    """Return a section as TOML has it, but for some keys, and where its data are, which differs by machine."""
    every = {key: value for key, value in (section or {}).items() if key not in but}
    known = {key: value for key, value in every.items() if not str(value).startswith("/")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in known.items()}
