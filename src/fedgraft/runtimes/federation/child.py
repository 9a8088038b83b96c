"""Flower's processes as children: they end with whoever started them."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for its own processes."""
UNKNOWN_KEY: Final = "unknown key"
"""What the SuperLink says, at both ends, of a node that it does not let in."""
ANEW: Final = 75
"""Exit code of a SuperNode that is to be begun anew; that of sysexits.h for what is to be tried again."""
UNANSWERED: Final = "FEDGRAFT_UNANSWERED_SECONDS"
"""What tells a SuperNode how long it holds a message that nobody is answering."""
ENVIRONMENT: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "OMP_NUM_THREADS": "1",
    "FORCE_COLOR": "",  # a notebook's kernel asks for colours, which `flwr` would put between the words of its JSON
    "TTY_COMPATIBLE": "0",
}
"""What Flower's processes are told: nothing is sent to others or installed; runs are looked for twice a second."""


class Child:
    """A child process in a group of its own, that ends with this process however that ends."""

    ENDING_SECONDS: Final = 5.0

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )

    def ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """Wait until it ends; return its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """End it with all that it has started."""
        if not self.ended():
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self.ENDING_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _end_with_parent() -> None:
    """Have the system end this process when its parent is gone."""
    death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM)


def programs() -> Path:
    """Return the folder with Flower's programs."""
    return Path(sys.executable).parent


def environment(home: Path) -> dict[str, str]:
    """Return the environment of Flower's processes, whose own folder is `home`."""
    path = os.pathsep.join([str(programs()), os.environ.get("PATH", "")])
    return {**os.environ, **ENVIRONMENT, **no_proxy(), "PATH": path, "FLWR_HOME": str(home)}


def no_proxy() -> dict[str, str]:
    """Return the environment by which what goes to this machine goes through no proxy."""
    known = [name for name in os.environ.get("NO_PROXY", "").split(",") if name and name not in HERE]
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join([*known, *HERE]))


def last_line(path: Path) -> str:
    """Return the last line of a log's file."""
    with suppress(OSError):
        return last_of(path.read_text(errors="replace"))
    return "no word"


def last_of(log: str) -> str:
    """Return the last line of a log."""
    return next((line for line in reversed(log.splitlines()) if line.strip()), "no word")
