"""The command line's end of a federated run: has the server begin or resume it, and follows it."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any, Final

from fedgraft import errors
from fedgraft.engine.plan import HOME
from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError, Interrupted, MachineError
from fedgraft.experiment.experiment import Experiment, chosen, load
from fedgraft.experiment.recipes.findings import Finding
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.server_choices import FEDERATION_S
from fedgraft.experiment.storage import folder_check
from fedgraft.experiment.storage.folder_check import FEDERATION
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.progress import Progress
from fedgraft.runtimes.flower_federation import control, superlink
from fedgraft.runtimes.flower_federation.folders import FederationFolder
from fedgraft.runtimes.flower_federation.key_origins import MADE_BY, REMEDY, is_signed, made_here

FLOWER: Final = "flower"
SCORED_AT: Final = "evaluation.at"
RUN, RESUME, BEFORE = "run", "resume", "before"
"""What a ServerApp is to do: begin a run, take it up, or take it up from the checkpoint before the last one."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at Flower's run, or its SuperLink, while its ServerApp has not said anything."""
_REMEDY: Final = REMEDY[:1].lower() + REMEDY[1:]
LOOKS: Final = 5
"""How often the SuperLink is looked for, a second apart, until it is held for ended."""


def run_on(
    path: Path, recipe: str, overrides: Mapping[str, Any], folder: Path, quiet: bool = False, switch: str = ""
) -> dict[str, Any]:
    """Have a federation run a recipe, show its progress, and return the summary. Raises what the run ends with.

    The data and the task are the federation's; the run's `folder` is on this machine, which is the server's. `switch`
    as in `experiment.load`.
    """
    federation = FederationFolder.read(path)
    experiment = on_federation(recipe, overrides, federation, switch)
    folder_check.check_free(folder)
    with tempfile.TemporaryDirectory(prefix="fedgraft-") as made:
        file = Path(made) / "recipe.toml"
        file.write_text(experiment.to_toml())
        with Progress.of(experiment, quiet) as progress:
            return _follow(federation, folder, RUN, progress, file)


def resume_on(run_folder: RunFolder, before: bool, quiet: bool = False) -> dict[str, Any]:
    """Have its federation take a run up; arguments as `runner.resume`."""
    federation = FederationFolder.read(Path(run_folder.environment()[FEDERATION]))
    experiment = stored_experiment(run_folder)
    with Progress.of(experiment, quiet) as progress:
        return _follow(federation, run_folder.folder, BEFORE if before else RESUME, progress)


def is_federated(run_folder: RunFolder) -> bool:
    """Return whether a run's clients are at the nodes of a federation."""
    return FEDERATION in run_folder.environment()


def on_federation(
    recipe: str, overrides: Mapping[str, Any], federation: FederationFolder, switch: str = ""
) -> Experiment:
    """Return a recipe as a federation runs it: on its data, with its task, at its nodes.

    Clients score models there, which the ledger counts, unless an override or the recipe says otherwise. The
    federation's own recipe says every option, and so does not, but where no score leaves a client. `switch`, as in
    `experiment.load`, changes nothing of the federation's.
    """
    for key in overrides:
        if key.partition(".")[0] in FEDERATION_S:
            raise InputError(f"{key} cannot be given with --on: data and task are those of {federation.recipe}.")
    own = load(str(federation.recipe))
    read, theirs = Recipe.read(recipe), own.recipe.sections
    others = {key: value for key, value in read.sections.items() if key not in FEDERATION_S}
    read = replace(read, sections={**others, **{key: theirs[key] for key in FEDERATION_S if key in theirs}})
    changes = {"seed": own.seed, **overrides, "yardsticks": []}
    resolved = Path(recipe).resolve() == federation.recipe
    at = read.section("evaluation").get("at")
    if (resolved and at != HOME) or at is None:
        changes.setdefault(SCORED_AT, "clients")
    if read.section("runtime").get("name") != FLOWER and overrides.get("runtime.name") != FLOWER:
        changes["runtime.name"] = FLOWER
    read = (Recipe(read.name, read.sections) if resolved else read).asking(FEDERATION_S)
    return chosen(read, changes, switch, partial(keys_of_server, federation))


def keys_made_here(recipe: Mapping[str, Any]) -> list[Finding]:
    """Return why keys that a command makes here do not suit a recipe."""
    return [Finding(MADE_BY.format("this command"), _REMEDY)] if is_signed(recipe) else []


def keys_of_server(federation: FederationFolder, recipe: Mapping[str, Any]) -> list[Finding]:
    """Return which keys of a federation do not suit a recipe, for the server has made them."""
    if not is_signed(recipe) or federation.insecure or not (names := made_here(federation)):
        return []
    why = f"{SIGNED_KEYS} = true, and the server made the keys of {', '.join(names)}, so that it could sign for them"
    return [Finding(why, _REMEDY)]


def _follow(
    federation: FederationFolder, folder: Path, order: str, progress: Progress, recipe: Path | None = None
) -> dict[str, Any]:
    """Have the server begin or take up a run, and follow it to its end."""
    if len(federation.keyless()) == len(federation.clients):
        raise InputError(f"{federation.path} has no site with a key; 'fedgraft federation add' adds one.")
    with _listening() as (path, listener):
        paths = {"federation": federation.path, "folder": folder, "socket": path, "recipe": recipe}
        config = {name: str(each.resolve()) for name, each in paths.items() if each is not None}
        run = control.submit(federation, {**config, "order": order})
        followed = _Followed(federation, folder, run, listener, progress)
        try:
            return followed.to_its_end()
        except (KeyboardInterrupt, SystemExit):
            followed.stop()
            raise


class _Followed:
    """A run of Flower's that is followed until its ServerApp ends."""

    def __init__(
        self, federation: FederationFolder, folder: Path, run: str, listener: Listener, progress: Progress
    ) -> None:
        self._federation, self._folder, self._run, self._progress = federation, folder, run, progress
        self._pid = 0
        self._pipes: list[Connection] = []
        self._clients = len(federation.clients)
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def to_its_end(self) -> dict[str, Any]:
        """Return the summary. Raises the error that the run ended with."""
        pipe = self._connected()
        while True:
            try:
                if not pipe.poll(LOOK_SECONDS):
                    self._check_server()
                    continue
                kind, *content = pipe.recv()
            except (EOFError, OSError) as error:
                raise self._lost() from error
            if kind == "pid":
                self._pid = content[0]
            elif kind == "note":
                self._progress.note(content[0])
            elif kind == "round":
                standing, row = content
                state = RunState([{}] * self._clients, None, seconds=standing["seconds"])
                state.best = {"validation": standing["best"]}
                self._progress.after_round(state, row)
            elif kind == "done":
                summary: dict[str, Any] = content[0]
                return summary
            else:
                raise _error(*content)

    def stop(self) -> None:
        """Ask the ServerApp to end its round and store it, and wait until it has."""
        if not self._pid:
            control.stop(self._federation, self._run)
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        with suppress(EOFError, OSError):
            while self._pipes[0].recv()[0] not in ("done", "failed"):
                pass

    def _accept(self, listener: Listener) -> None:
        with suppress(OSError, EOFError):
            self._pipes.append(listener.accept())

    def _connected(self) -> Connection:
        looked = time.monotonic()
        while not self._pipes:
            time.sleep(0.1)
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                if control.status_of(self._federation, self._run).startswith("finished") and not self._pipes:
                    raise MachineError(f"The ServerApp could not start: {control.log_of(self._federation, self._run)}")
        return self._pipes[0]

    def _check_server(self) -> None:
        """End the ServerApp and raise `MachineError` where no SuperLink listens any more: Flower's part would wait on.

        One that was started again ends the ServerApp itself, whose run has failed.
        """
        for _ in range(LOOKS):
            if superlink.listens(self._federation):
                return
            time.sleep(1.0)
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # what it has stored is whole at any time
        raise self._lost()

    def _lost(self) -> MachineError:
        """Return the error for a ServerApp that is gone; end its run, for nodes may wait for messages of it."""
        if superlink.listens(self._federation):
            with suppress(MachineError):
                control.stop(self._federation, self._run)
        kept = (self._folder / "experiment.toml").exists()
        hint = f" Continue with 'fedgraft resume {self._folder}'." if kept else ""
        return MachineError(f"The ServerApp has ended without a word: it was killed, or its SuperLink was.{hint}")


def _error(kind: str, text: str, number: int) -> FedgraftError:
    if kind == "Interrupted":
        return Interrupted(text, number)
    cls = getattr(errors, kind, None)
    return cls(text) if cls in (errors.InputError, errors.BudgetError, errors.MachineError) else FedgraftError(text)


@contextmanager
def _listening() -> Iterator[tuple[Path, Listener]]:
    """A socket that only this user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="fedgraft-"))
    try:
        with Listener(str(folder / "socket"), "AF_UNIX") as listener:
            yield folder / "socket", listener
    finally:
        shutil.rmtree(folder, ignore_errors=True)
