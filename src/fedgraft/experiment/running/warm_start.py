"""Begin a run with the model of another: its shared parameters, as they were best on validation, and clients' own."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from fedgraft import wire
from fedgraft.contracts.data import names_of
from fedgraft.engine.privacy.options import CENTRAL, DISTRIBUTED
from fedgraft.errors import InputError, WireError
from fedgraft.experiment.carried_over import Hashes, Own, fitting, new_rows, seen_at_end
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.options import Finding, UnsuitedError
from fedgraft.experiment.recipes.recipe import section_of
from fedgraft.experiment.recipes.sections import STAGES
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.provenance import Origin
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.wire.layouts import Arrays, Tree

LOG = logging.getLogger("fedgraft.data")
FITTED: Final = ("features", "classes", "class_names", "items", "modalities", "sparse")
"""Options of a task that tell what a model reads and answers; they must be those of the run that it starts from."""

_SPENT: Final = ("unit", "epsilon", "replaced", "delta", "adversaries")
"""What of a claim a run that begins with its model adds to its own."""


@dataclass(frozen=True, eq=False)
class Start:
    """The model that a run begins with: the shared parameters of another run, its options, what it began with.

    And `own`, {name of a client: what of its memory it hands on}; and `rows`, which rows of own tables it was trained
    on, as `carried_over` says; None where the run does not say it. And its `claim` of privacy; None for none.
    """

    folder: Path
    arrays: Arrays
    sections: Mapping[str, Any]
    began: Origin
    own: Mapping[str, Mapping[str, Tree]]
    rows: Hashes | None = None
    claim: Mapping[str, Any] | None = None

    def reading(self, experiment: Job) -> Job:
        """Return the experiment with data read as those of that run were, where it does not say, and so split.

        No row is scored that it was trained on.
        """
        then, agreed = self.sections["data"], self.sections["data"].get("transforms")
        same = experiment.recipe.sections["data"]["name"] == then["name"]
        if agreed is not None and same and not experiment.agreement_known:
            experiment = experiment.reading(agreed)
        if experiment.split_seed is None:
            return experiment
        if self.rows is None:
            LOG.warning(
                f"{self.folder} does not say which rows it was trained on, as runs of other data sets do not: "
                "scores may be of rows that its model has seen."
            )
            return experiment
        if experiment.recipe.sections["data"].get("split_seed") is None:
            data: Any = experiment.data
            seed = then.get("split_seed", self.sections["seed"])
            experiment = experiment.with_data(replace(data, split_seed=seed))
        return replace(experiment, begins=replace(experiment.begins, seen=seen_at_end(self.rows)))

    def _count_new(self, experiment: Job, shards: Sequence[Any]) -> None:
        """Log how many rows of clients' data are new since that run, where both are of a user's own tables."""
        if experiment.split_seed is not None and self.rows is not None:
            new, every = new_rows(shards, self.rows)
            LOG.warning(
                f"{new:,} of {every:,} rows are new since {self.folder}; none that it was trained on is scored."
            )

    def begin(self, experiment: Job, began: Origin, shards: Sequence[Any]) -> Job:
        """Return an experiment, fitted to its data, `shards`, that begins with this model.

        Raises `InputError` where the model is not of the same task, encoder, shapes and names.
        """
        self._count_new(experiment, shards)
        self._check_options(experiment)
        if found := self.findings(experiment.recipe.sections):
            raise UnsuitedError.of(found)
        plan = experiment.plan
        if plan.model_layout.specs and not self.arrays:
            sharing = self.sections["sharing"]["name"]
            raise self._misfit(f"under sharing {sharing!r} its clients share no parameters, which this run needs")
        try:
            wire.check(self.arrays, plan.model_layout)
        except WireError as error:
            raise self._misfit(str(error)) from error
        if not plan.variants:
            self._check_names(began)
        spent = {name: self.claim[name] for name in _SPENT if name in self.claim} if self.claim else {}
        own = self._own(experiment, began, names_of(shards)) if plan.personal else {}
        return experiment.started(self.arrays, replace(experiment.begins, own=own, spent=spent))

    def _own(self, experiment: Job, began: Origin, names: Sequence[str]) -> Own:
        """Return what clients of these names begin with of their own, and say for how many it is known."""
        alike = self._alike(experiment, began)
        own = fitting(experiment.plan, names, {name: self.own[name] for name in alike})
        anew = "" if len(own) == len(names) else f"; the other {len(names) - len(own)} begin with drawn ones"
        shared = "the shared parameters and, by name, those" if self.arrays else "by name, the parameters"
        LOG.warning(
            f"From {self.folder} come {shared} that {len(own)} of {len(names)} clients keep to themselves{anew}."
        )
        return own

    def _alike(self, experiment: Job, began: Origin) -> list[str]:
        """Return the clients whose own parameters mean the same here: under the same method, of the same names."""
        now, then = experiment.recipe.sections, self.sections
        if then["sharing"]["name"] != now["sharing"]["name"]:
            return []
        if not experiment.plan.variants:
            return list(self.own)
        before, here = self.began.get("named", {}), began.get("named", {})
        alike = all(then.get(each) == now.get(each) for each in ("task", *STAGES) if each != "model")
        return [name for name in self.own if alike and before.get(name) == here.get(name)]

    def _check_options(self, experiment: Job) -> None:
        """Raise `InputError` where task or encoder are others, or the task is fitted to other data."""
        now, then = experiment.recipe.sections, self.sections
        names = {field.name for field in fields(type(experiment.plan.task)) if field.name in FITTED}  # type: ignore[arg-type]
        pairs = {
            "task.name": (then["task"]["name"], now["task"]["name"]),
            **{
                f"model.{key}": (then.get("model", {}).get(key), now.get("model", {}).get(key))
                for key in {**then.get("model", {}), **now.get("model", {})}
            },
            **{f"task.{key}": (then["task"].get(key), now["task"].get(key)) for key in sorted(names)},
        }
        for key, (had, has) in pairs.items():
            if had != has:
                raise self._misfit(f"{key} is {has!r} here and was {had!r} there")

    def findings(self, recipe: Mapping[str, Any]) -> list[Finding]:
        """Return what a recipe claims to hide that the model to begin with may tell, or told a trusted server."""
        privacy = section_of(dict(recipe), "privacy", named=False)
        unit, name, claim = privacy.get("unit", ""), privacy.get("name", DISTRIBUTED), self.claim or {}
        if not unit:
            return []
        here = f"--from {self.folder}: privacy.unit = {unit!r} hides a {unit}"
        if claim.get("unit") != unit:
            had = f"hides a {claim['unit']}" if claim else "holds no noise"
            why = f"{here}, and that run {had}, so its model may tell of single {unit}s"
            return [Finding(why, f"begin with a run that hides a {unit}, too, or leave --from out")]
        if "trusted" in claim and name != CENTRAL:
            why = f"{here} from the server, and {claim['trusted']} of that run was trusted"
            return [Finding(why, f"privacy.name = {CENTRAL!r} here, too, or leave --from out")]
        return []

    def _check_names(self, began: Origin) -> None:
        """Raise `InputError` where shared parameters are numbered by other names than in the run that trained them."""
        then, now = set(self.began.get("named", {}).values()), set(began.get("named", {}).values())
        if then != now:
            raise self._misfit("its parameters are numbered by names (users, items) that these data do not have alike")

    def _misfit(self, why: str) -> InputError:
        return InputError(f"The model of --from {self.folder} does not fit this run: {why.rstrip('.')}.")


def start_from(folder: Path) -> Start:
    """Return the model of a run to begin another with.

    Raises `InputError` where there is none: groups of clients have models of their own, or nothing of any is known.
    """
    run_folder = RunFolder.open(folder)
    run = FinishedRun(run_folder)
    sharing = run.experiment.recipe.sections["sharing"]["name"]
    groups = {name.partition("/")[0] for name in run.models if "/" in name}
    if groups:
        raise InputError(
            f"--from {folder}: that run ended with {len(groups)} models, one per group of its clients under sharing "
            f"{sharing!r}; a run begins with one."
        )
    if not run.models and not run.own:
        raise InputError(f"--from {folder}: under sharing {sharing!r} no parameters are known to begin with.")
    return Start(
        folder,
        run.models,
        run.experiment.recipe.sections,
        run_folder.origin(),
        run.own,
        run_folder.seen(),
        _claim_in(run_folder),
    )


def _claim_in(run_folder: RunFolder) -> Mapping[str, Any] | None:
    """Return what a run claims of privacy, the runs that it began with included; None for nothing."""
    try:
        return run_folder.summary().get("privacy")
    except InputError:  # it has not ended: nobody knows what it will claim
        return None
