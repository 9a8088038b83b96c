"""Federations on this machine, of fedgraft's own commands: a server and its sites, each a process."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgraft.runtimes.federation.folders import file_name

START_SECONDS = 120.0


@contextmanager
def federation(folder: Path, recipe: Sequence[str], *options: Any, spaces: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a federation's folder while its server and all of its sites are there.

    Args:
        folder: a new one is made in it.
        recipe: its name, and overrides.
        options: of `federation init`.
        spaces: network namespaces of the server and of each site; () for none.
    """
    fed, children = folder / "fed", []
    server, *sites = spaces or [""]
    call("shard", recipe[0], "-o", fed, *recipe[1:], space=server)
    call("federation", "init", fed, *options, space=server)
    names = names_in(fed)
    try:
        children.append(begun(folder / "server.log", "ready at", "federation", "start", fed, space=server))
        for name, space in zip(names, sites or [""] * len(names), strict=True):
            children.append(site_begun(folder, fed, name, space))
        yield fed
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


def names_in(fed: Path) -> list[str]:
    """Return the names of a federation's sites, as their files are called."""
    return [file_name(name) for name in tomllib.loads((fed / "clients.toml").read_text())["names"]]


def site_begun(folder: Path, fed: Path, name: str, space: str = "") -> "subprocess.Popen[bytes]":
    """Start a site, whose log is in `folder`, and wait until it joins."""
    words = "node", fed / "nodes" / name, "--data", fed / "clients" / f"{name}.data"
    return begun(folder / f"{name}.log", "joining", *words, space=space)


def call(*words: Any, space: str = "") -> str:
    """Run a command of fedgraft to its end, in a network namespace or in none, and return its output."""
    done = subprocess.run(_command(words, space), capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        raise RuntimeError(f"fedgraft {words[0]}: {done.stderr.strip()}")
    return done.stdout


def begun(log: Path, text: str, *words: Any, space: str = "") -> "subprocess.Popen[bytes]":
    """Start a command that stays, and wait until it has said something."""
    with open(log, "wb") as out:
        child = subprocess.Popen(_command(words, space), stdout=out, stderr=out, env=_environment())
    until = time.monotonic() + START_SECONDS
    while text not in log.read_text(errors="replace"):
        if child.poll() is not None or time.monotonic() > until:
            child.kill()
            raise RuntimeError(f"fedgraft {words[0]}: {log.read_text(errors='replace')}")
        time.sleep(0.1)
    return child


def _command(words: Sequence[Any], space: str) -> list[str]:
    within = ["ip", "netns", "exec", space] if space else []
    return [*within, sys.executable, "-m", "fedgraft", *map(str, words)]


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}
