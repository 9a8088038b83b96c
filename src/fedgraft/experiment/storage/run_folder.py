"""A run's folder: what is in it, how it is written so that a kill at any moment loses nothing, how it is read back.

    experiment.toml     fully resolved; enough to run again          summary.json        the result
    rounds.jsonl        one row a round                              model.safetensors   best by validation
    ledger.jsonl        every byte, one entry a line                 environment.json    versions, machine
    checkpoint/         state.bin and one file per client memory     origin.json         its data and options
    seen.npy            which rows of own tables training has seen      server_secret   what a server draws from

A checkpoint is the last valid one at every moment: memories are new files, named after their content, and `state.bin`,
which names them, replaces the old one atomically. Rows are appended before the checkpoint that counts them; on resume,
what is beyond it is cut off. `state.bin` says by which versions it was written, and holds hashes of `origin.json` and
of all rows that it counts: nothing goes on from what another run, or an accident, has put in their place.
One process at a time writes: it holds a lock on `.lock`, which ends with it, however it ends.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from fedgraft import wire
from fedgraft.engine.server.ledger import Entry
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError, WireError
from fedgraft.experiment.carried_over import Hashes, rows_in
from fedgraft.experiment.recipes.recipe_files import from_here, whole_text
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage import folder_check as folders
from fedgraft.experiment.storage.disk import Tally
from fedgraft.experiment.storage.folder_check import CHECKPOINT, ENVIRONMENT, EXPERIMENT, ORIGIN, ROWS, STATE, SUMMARY
from fedgraft.experiment.storage.provenance import Origin, check_shape, versions, with_versions
from fedgraft.experiment.storage.stored_state import checked_content, checked_memories, checked_state, format_of
from fedgraft.wire.layouts import Arrays, Tree

FORMAT: Final = 7
"""Of `state.bin`."""


class RunFolder:
    """One run's folder. Who writes there enters it first, and is then the only process that does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._memories: dict[str, str] = {}  # {client: file}
        self._tallies: dict[str, Tally] = {}  # {file of rows: what was appended so far}
        self._origin = ""  # the fingerprint of origin.json
        self._head: dict[str, Any] | None = None  # what state.bin held, but for the state, when it was last read
        self._made: list[Path] | None = None  # folders that were made for a run that has no checkpoint yet
        self._others: list[Path] = []
        self._lock = FileLock(folder / folders.LOCK, timeout=0)

    # --- a new run ---------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, folder: Path) -> "RunFolder":
        """A new folder, entered already. Raises `InputError` if it is not free or cannot be written."""
        folders.check_free(folder)
        run_folder = cls(folder)
        with disk.written(f"--out {folder}"):
            made = folders.make(folder)
            try:
                run_folder._acquire()
                folders.check_free(folder)  # another process may have been faster
                run_folder._made = made
                (folder / CHECKPOINT).mkdir(exist_ok=True)
            except BaseException:
                if run_folder._made is None:
                    folders.take_back(made)
                run_folder.discard()
                run_folder._lock.release()
                raise
        return run_folder

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Take a new folder back if what is done here fails: all is then as it was before.

        A run that has its name can be resumed: only a failure takes it back, not somebody who stops it.
        """
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception) or not (self.folder / EXPERIMENT).exists():
                self.discard()
            raise

    def path_for(self, name: str) -> Path:
        """Return where a caller may put a file of a new run, such as a table; it is taken back with the folder."""
        path = self.folder / name
        self._others.append(path)
        return path

    def describe(
        self,
        experiment_toml: str,
        environment: Mapping[str, Any],
        origin: Origin,
        start: Arrays | None = None,
        network: bytes = b"",
        seen: bytes = b"",
    ) -> None:
        """Say what is run, with which parameters, network and rows seen, if any: from now on the folder is a run's."""
        with disk.written(f"--out {self.folder}"):
            began, text = disk.json_table(origin), from_here(experiment_toml, self.folder).encode()
            model = disk.model_bytes(start) if start else b""
            files = (folders.START, model), (folders.NETWORK, network), (folders.SEEN, seen)
            about = {ENVIRONMENT: disk.json_table(environment), ORIGIN: began}
            disk.replace(self.folder, {**about, **{name: each for name, each in files if each}, EXPERIMENT: text})
            self._origin = disk.fingerprint(began).hex()

    def revise(self, experiment_toml: str) -> None:
        """Have a run go on as another experiment says; what it came to is no result any more."""
        with self._writing():
            disk.replace(self.folder, {EXPERIMENT: from_here(experiment_toml, self.folder).encode()})
            for name in (SUMMARY, folders.MODEL):
                disk.remove(self.folder / name)

    def discard(self) -> None:
        """Take a new folder back, of a run that could not begin; one with a checkpoint stays."""
        if self._made is None or self.has_checkpoint:
            return
        folders.clear(self.folder, self._others)
        folders.take_back(self._made)
        self._lock.release()

    # --- one at a time -----------------------------------------------------------------------------------------------

    def __enter__(self) -> "RunFolder":
        """Keep other processes from writing here.

        Raises `InputError` where one is at it, or where a file of the run is a link to something elsewhere.
        """
        with disk.written(self.folder):
            if not self._lock.is_locked:
                folders.check_own(self.folder)
                self._acquire()
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock, so that others may write."""
        self._lock.release()

    def _acquire(self) -> None:
        try:
            self._lock.acquire()
        except Timeout as error:
            raise InputError(f"{self.folder} is being written by another process; let that end, or end it.") from error

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, row: object | None, entries: Iterable[Entry]) -> None:
        """Add a round's row (None for what belongs to no round) and ledger entries."""
        with self._writing():
            if row is not None:
                self._append(ROWS[0], disk.json_line(vars(row)))
            self._append(ROWS[1], "".join(entry.json() + "\n" for entry in entries).encode())

    def _append(self, name: str, content: bytes) -> None:
        tally = self._tally(name)
        disk.append(self.folder / name, content)
        tally.add(content)

    def _tally(self, name: str) -> Tally:
        """Return the tally of all rows of a file so far; it is read only if another process began it."""
        if name not in self._tallies:
            self._tallies[name] = Tally.of(self.folder / name)
        return self._tallies[name]

    def checkpoint(self, state: RunState, memories: Iterable[tuple[int, bytes]]) -> None:
        """Make `state`, with every memory, what a resume starts from."""
        inner = self.folder / CHECKPOINT
        with self._writing():
            current = set(self._memories.values())
            for client, memory in memories:
                name = folders.memory_name(client, memory)
                self._memories[str(client)] = name
                if name not in current:
                    disk.write(inner / name, memory)
            disk.sync(inner)
            rows: dict[str, Tree] = {}
            for name in ROWS:
                disk.sync(self.folder / name)
                rows[name] = {"bytes": self._tally(name).size, "hash": self._tally(name).hash}
            content: dict[str, Tree] = {
                "format": FORMAT,
                "versions": {**versions()},
                "origin": self._origin,
                "rows": rows,
                "memories": {**self._memories},
                "state": state.to_tree(),
            }
            if self.has_checkpoint:
                disk.keep_as(inner / STATE, inner / folders.BEFORE)
            disk.replace(inner, {STATE: disk.encrypted(wire.pack(content))})
            self._made = None
            kept = current | set(self._memories.values())
            for path in folders.memories(self.folder):
                if path.name not in kept:
                    disk.remove(path)

    def go_back(self) -> None:
        """Make the checkpoint before the last one the last. Raises `InputError` if there is none, or it is damaged."""
        path = self.folder / CHECKPOINT / folders.BEFORE
        if not path.is_file():
            raise InputError(f"{self.folder} has no checkpoint before its last one.")
        self._read_state(folders.BEFORE)
        with self._writing():
            disk.replace(path.parent, {STATE: disk.read_bytes(path)})
            disk.remove(path)

    def finish(self, summary: Mapping[str, Any], model: Arrays) -> None:
        """Write summary and model, the result of the run."""
        with self._writing():
            disk.replace(self.folder, {folders.MODEL: disk.model_bytes(model)})
            disk.replace(self.folder, {SUMMARY: disk.json_table(summary)})

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FedgraftError(
                f"{self.folder} cannot be written: {error.strerror or error}. {self._how_to_go_on()}"
            ) from error

    def _how_to_go_on(self) -> str:
        resume = f"mend that and continue with 'fedgraft resume {self.folder}'."
        if self.has_checkpoint:
            return f"The last checkpoint is intact: {resume}"
        if self._made is None:
            return f"There is no checkpoint yet: {resume}"
        return "There was no checkpoint yet, and the folder is as it was before: mend that and run it again."

    @property
    def has_checkpoint(self) -> bool:
        """True where there is a checkpoint to go on from."""
        return (self.folder / CHECKPOINT / STATE).exists()

    # --- reading -----------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path) -> "RunFolder":
        """An existing folder. Raises `InputError` if it is not a run's."""
        if not (folder / EXPERIMENT).is_file():
            raise InputError(f"{folder} is not a run's folder: it has no {EXPERIMENT}.")
        return cls(folder)

    def experiment_toml(self) -> str:
        """Return the resolved experiment as TOML, with whole paths of data as they are now."""
        return whole_text(disk.read_text(self.folder / EXPERIMENT), self.folder)

    def origin(self) -> Origin:
        """Return what the run began with.

        Raises `InputError` if it is missing, or not the one that the checkpoint belongs to.
        """
        path = self.folder / ORIGIN
        self._known_head()
        if not path.is_file():
            raise InputError(f"{path} is missing, and with it what the run began with; put it back.")
        began = disk.read_table(path)
        check_shape(began, str(path))
        return began

    def seen(self) -> Hashes | None:
        """Return which rows of own tables training has seen; None where the run does not say it."""
        return rows_in(disk.read_bytes(path), path) if (path := self.folder / folders.SEEN).is_file() else None

    def environment(self) -> dict[str, Any]:
        """Return versions and machine, as the run recorded them."""
        path = self.folder / ENVIRONMENT
        if not path.is_file():
            raise InputError(f"{path} is missing.")
        return disk.read_table(path)

    def summary(self) -> dict[str, Any]:
        """The result. Raises `InputError` if the run has not finished."""
        path = self.folder / SUMMARY
        if not path.is_file():
            raise InputError(f"{self.folder} has no {SUMMARY} yet; finish it with 'fedgraft resume {self.folder}'.")
        return disk.read_table(path)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all rounds so far."""
        return list(disk.read_lines(self.folder / ROWS[0]))

    def entries(self) -> Iterator[dict[str, Any]]:
        """The ledger's entries so far."""
        return disk.read_lines(self.folder / ROWS[1])

    def check_format(self) -> None:
        """Raise `InputError` for a run whose checkpoint is of another format, or damaged."""
        self._known_head()

    def load(self) -> tuple[RunState, dict[int, bytes]] | None:
        """The last checkpoint's state and memories; None if there is none yet. Nothing is changed."""
        path, tree = self.folder / CHECKPOINT / STATE, self._read_state()
        if tree is None:
            if (self.folder / ROWS[0]).exists():
                raise InputError(f"{path} is missing, though rounds were stored; this run cannot be continued.")
            self._origin = disk.fingerprint(disk.read_bytes(self.folder / ORIGIN)).hex()
            return None
        try:
            state = checked_state(tree["state"])
            names = checked_memories(tree["memories"], len(state.profiles))
        except WireError as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        memories = {client: self._read_memory(name) for client, name in names.items()}
        self._memories = {str(client): name for client, name in names.items()}
        return state, memories

    def rewind(self) -> None:
        """Cut off the rows that the loaded checkpoint does not count: a kill came between them and the next one.

        Raises `InputError` where those that it counts are not as they were written.
        """
        for name, counted in self._counted().items():
            path = self.folder / name
            tally = Tally.of(path, counted["bytes"])
            tally.check(path, counted)
            if path.exists() and path.stat().st_size > tally.size:
                with self._writing():
                    disk.cut(path, tally.size)
            self._tallies[name] = tally

    def check_rows(self) -> None:
        """Raise `InputError` unless a finished run's rows are those that were written, where a checkpoint can tell."""
        if self._known_head() is not None:
            for name, counted in self._counted().items():
                Tally.of(self.folder / name).check(self.folder / name, counted)

    def note_versions(self) -> None:
        """Tell, and note in `environment.json`, if a run goes on with other versions than it was stored with."""
        environment, head = self.environment(), self._known_head()
        noted = with_versions(environment, None if head is None else head["versions"], self.folder)
        if noted != environment:
            with self._writing():
                disk.replace(self.folder, {ENVIRONMENT: disk.json_table(noted)})

    def _read_state(self, name: str = STATE) -> dict[str, Any] | None:
        """Return the content of `state.bin`, or of another name; None if there is none.

        Raises `InputError` if it is damaged, of another format, or belongs to another run than `origin.json`.
        """
        path = self.folder / CHECKPOINT / name
        if not path.is_file():
            return None
        try:
            packed = wire.unpack(disk.unsealed(disk.read_bytes(path)))
            if (version := format_of(packed)) != FORMAT:
                raise InputError(
                    f"{path} has format {version}, and this version of fedgraft reads format {FORMAT}: train the run "
                    "again, or use the version that stored it."
                )
            tree = checked_content(packed)
        except WireError as error:
            raise InputError(f"{path} is damaged: {str(error).rstrip('.')}.") from error
        self._check_origin(tree["origin"])
        self._head = {name: part for name, part in tree.items() if name != "state"}
        return tree

    def _known_head(self) -> dict[str, Any] | None:
        """All of `state.bin` but the state, read once."""
        if self._head is None:
            self._read_state()
        return self._head

    def _check_origin(self, fingerprint: str) -> None:
        path = self.folder / ORIGIN
        if not path.is_file():
            raise InputError(f"{path} is missing, and with it what the run began with; put it back.")
        if disk.fingerprint(disk.read_bytes(path)).hex() != fingerprint:
            raise InputError(
                f"{path} is damaged, or the checkpoint is of another run: it is not what the run of "
                f"{self.folder / CHECKPOINT / STATE} began with."
            )
        self._origin = fingerprint

    def _counted(self) -> dict[str, dict[str, Any]]:
        """{file of rows: how many bytes the checkpoint counts, and their hash}."""
        nothing = {"bytes": 0, "hash": Tally().hash}
        return dict.fromkeys(ROWS, nothing) if self._head is None else {name: self._head["rows"][name] for name in ROWS}

    def _read_memory(self, name: str) -> bytes:
        path = self.folder / CHECKPOINT / name
        memory = disk.read_bytes(path)
        if disk.fingerprint(memory).hex() not in name:
            raise InputError(f"{path} is damaged: its content is not what was written.")
        return memory
