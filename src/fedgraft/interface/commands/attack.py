"""Attack a finished run on its own data: what a server, or who has the model, could have learnt."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from fedgraft.interface.commands.options import (
    AllowChangedData,
    AsJson,
    DataRoot,
    Folder,
    load,
    print_json,
    print_table,
)


def attack(
    folder: Folder,
    kind: Annotated[
        str,
        typer.Option(metavar="LIST", help="Of labels, inversion, membership, canaries; commas between several."),
    ] = "labels,inversion,membership,canaries",
    canaries: Annotated[
        int, typer.Option(metavar="COUNT", help="How many canaries, at most half of all examples.")
    ] = 600,
    data_root: DataRoot = None,
    allow_changed_data: AllowChangedData = False,
    as_json: AsJson = False,
) -> None:
    """Attack a finished run on its own data: what a server, or who has the model, could have learnt.

    labels: each client's largest class, by its first update. inversion: features of examples, by the same. membership:
    who was in training, by the model's losses. canaries: the run is trained again with canaries, half of them left out
    by coins, and an epsilon follows that it does not keep. Where sums hold noise, who guesses knows all data but the
    coins, and reads the sums of all rounds.

    Example: fedgraft attack RUN --kind membership,canaries
    """
    kinds = [each.strip() for each in kind.split(",") if each.strip()]
    folders, runs = (load(f"fedgraft.experiment.storage.{name}") for name in ("run_folder", "finished_run"))
    run = runs.FinishedRun(folders.RunFolder.open(folder), data_root, allow_changed_data)
    found = load("fedgraft.experiment.attacking.attacks").attacked(run, kinds, canaries)
    if as_json:
        print_json(found)
        return
    rows = [(name, ", ".join(f"{key} {_shown(value)}" for key, value in told.items())) for name, told in found.items()]
    print_table(("attack", "what came of it"), rows)
    for line in _meant(found["canaries"]) if "canaries" in found else ():
        print(line)


def _meant(found: Mapping[str, Any]) -> Iterator[str]:
    """Say in words what came of canaries, as `verdict` returns it, and whether the claim was within reach."""
    count, most, claim = found["canaries"], found["most"], found["claim"]
    refuted = f"an epsilon below {found['epsilon']:.2f} is refuted" if found["epsilon"] else "nothing is refuted"
    yield (
        f"From {found['read']}, {found['correct']} of {found['guesses']} guesses about {count} canaries were right: "
        f"{refuted}, with 95 % confidence over {found['tried']} numbers of guesses."
    )
    yield f"With all guesses right, {count} canaries refute what is below {most:.2f}: no attack on so many does more."
    if claim is None:
        return
    if found["epsilon"] > claim:
        yield f"THE CLAIM IS REFUTED: epsilon {claim:g} is claimed. The run tells more than it says."
    elif most > claim:
        yield f"The claim of {claim:g} was within reach, and stands. That is no proof: a better attack may refute it."
    else:
        enough = found["enough"]
        instead = f"--canaries {enough} can, if the data have so many" if enough else "no number can at this delta"
        yield f"warning: {count} canaries cannot refute the claim of {claim:g}, however good the attack; {instead}."


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
