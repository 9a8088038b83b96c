"""What a site lets leave: hold a recipe against its policy before it takes part."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.engine.protocol.gate import Gate
from fedgraft.experiment.described import without_data
from fedgraft.experiment.policies import joining_tells, kinds_of, read_policy, rules_of
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.interface.commands.options import SETTINGS, AsJson, Changes, Recipe, print_json, print_table

app = typer.Typer(
    name="policy", help="What a site lets leave: hold a recipe against its policy before it takes part.", **SETTINGS
)


@app.callback()
def policy() -> None:
    """What a site lets leave: hold a recipe against its policy before it takes part."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file with a table [policy].")],
    recipe: Recipe,
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Say of each rule of a policy what of a recipe it forbids; exit code 1 where it forbids anything.

    Example: fedgraft policy check policy.toml graft_node evaluation.at=clients
    """
    experiment = without_data(recipe, dict(map(parse_override, changes or [])))
    rules, gate = rules_of(experiment, read_policy(file)), Gate(experiment.plan)
    broken = [rule.name for rule in rules if rule.beyond]
    told = {"joining": sorted(joining_tells(experiment))}
    told |= {kind: sorted(gate.told_by([kind])) for kind in kinds_of(experiment)}
    told = {kind: words for kind, words in told.items() if words}
    if as_json:
        rows = [{"rule": rule.name, "allowed": rule.allowed, "beyond": rule.beyond} for rule in rules]
        print_json({"recipe": recipe, "allowed": not broken, "rules": rows, "told": told})
    else:
        print_table(
            ("message", "what it tells of a client"), [(each, ", ".join(words)) for each, words in told.items()]
        )
        print_table(("rule", "allowed", "the recipe also has"), [(*rule[:2], rule.beyond or "-") for rule in rules])
        print(f"{file} forbids {recipe}: {', '.join(broken)}." if broken else f"{file} allows {recipe}.")
    if broken:
        raise typer.Exit(1)
