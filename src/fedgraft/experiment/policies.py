"""A site's policy from its file, and a recipe held against it."""

import tomllib
from dataclasses import replace
from pathlib import Path

from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import AgreedData
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.protocol.gate import Gate, Rule
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.purposes import MATCHING
from fedgraft.errors import InputError, nearest
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes import discovery

SECTION = "policy"


def read_policy(path: Path) -> Policy:
    """Return the policy in a TOML file, whose only table is [policy]. Raises `InputError` for anything else."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there: a policy is a TOML file with a table [{SECTION}].") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    for key in content:
        if key != SECTION:
            raise InputError(f"{path} must have the table [{SECTION}] alone; got {key!r}.{nearest(key, [SECTION])}")
    if not isinstance(content.get(SECTION), dict):
        raise InputError(f"{path} has no table [{SECTION}].")
    try:
        policy: Policy = discovery.construct(Policy, SECTION, content[SECTION], named=False)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return policy


def kinds_of(experiment: Job) -> list[str]:
    """Return the kinds of replies that an experiment asks clients for, or would at sites where it keeps scores home."""
    plan = experiment.at_sites().plan if experiment.plan.at_home else experiment.plan
    return [*Protocol.of(plan).kinds]


def joining_tells(experiment: Job) -> dict[str, str]:
    """Return {what a client tells as it joins, before there is a model: purpose}."""
    data = experiment.data
    columns = {"columns": "statistics"} if isinstance(data, AgreedData) else {}
    return columns | ({"ids": MATCHING} if isinstance(data, MatchedData) and data.matches else {})


def own_policy(experiment: Job, policy: Policy | None = None) -> Policy:
    """Return a policy in which what is not said is that which an experiment needs, and no more.

    Models may be scored at clients, where that tells no more, unless the experiment keeps scores at home. Where clients
    add noise, its epsilon is the most, at the claim's delta, unless the policy says another one: who claims it must not
    tell more.
    """
    privacy, said = experiment.plan.privacy, policy or Policy()
    if experiment.plan.collection.noisy and not said.epsilon:
        said = replace(said, epsilon=privacy.epsilon, delta=privacy.delta)
    gate, joining = Gate(experiment.plan), joining_tells(experiment)
    kinds = [*kinds_of(experiment), *([] if experiment.plan.at_home else ["evaluate"])]
    purposes, told = {*gate.purposes_of(kinds), *joining.values()}, {*gate.told_by(kinds), *joining}
    return replace(
        said,
        purposes=tuple(sorted(purposes)) if said.purposes is None else said.purposes,
        capabilities=tuple(sorted(told)) if said.capabilities is None else said.capabilities,
    )


def rules_of(experiment: Job, policy: Policy) -> list[Rule]:
    """Return each rule of a policy beside an experiment."""
    network = str(experiment.recipe.sections.get("model", {}).get("name", ""))
    kinds, joining = kinds_of(experiment), joining_tells(experiment)
    return Gate(replace(experiment.plan, policy=policy)).rules(kinds, joining, experiment.stopping.rounds, network)


def require_allowed(experiment: Job, policy: Policy, whose: str) -> None:
    """Raise `InputError` where a policy forbids something of an experiment, whatever the data are."""
    if broken := [rule for rule in rules_of(experiment, policy) if rule.beyond]:
        words = "; ".join(f"policy.{rule.name} allows {rule.allowed}, not {rule.beyond}" for rule in broken)
        raise InputError(f"{whose} forbids this recipe: {words}.")
