"""What every command takes: the level of the log, completion in the shell."""

import logging
import os
import subprocess
import sys

import pytest

from fedgraft.interface import cli

COMMAND = "import sys; sys.argv[0] = 'fedgraft'; from fedgraft.__main__ import main; main()"


@pytest.fixture
def restored():
    """Put the logger back as it was."""
    logger = logging.getLogger("fedgraft")
    level, handlers = logger.level, logger.handlers
    yield
    logger.setLevel(level)
    logger.handlers = handlers


def test_levels_and_tracebacks_are_shown_and_names_do_nothing(restored, capsys) -> None:
    cli.show_from("debug")
    try:
        raise ValueError("shop \x1b[2J")
    except ValueError:
        logging.getLogger("fedgraft.client").debug("Client %s", 3, exc_info=True)
    shown = capsys.readouterr().err
    assert shown.startswith("DEBUG fedgraft.client: Client 3\nTraceback (most recent call last):\n")
    assert shown.endswith("ValueError: shop \\x1b[2J\n")
    cli.show_from("error")
    logging.getLogger("fedgraft.data").warning("43 edges left out.")
    assert capsys.readouterr().err == ""


def test_a_level_that_is_none_is_refused(restored, fedgraft) -> None:
    done = fedgraft("--log-level", "warn", "list")
    assert done.code == 2
    assert (
        "--log-level must be one of 'debug', 'info', 'warning', 'error'; got 'warn'. Did you mean 'warning'?"
        in done.err
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ru"], ["run"]),
        (["run", "fedac"], ["fedacs", "fedacs_paper"]),
        (["show", "mi"], ["mine.toml"]),
        (["rnu", "x"], []),
        (["--log"], ["--log-level"]),
    ],
)
def test_words_are_completed_without_torch(words: list[str], found: list[str], tmp_path) -> None:
    (tmp_path / "mine.toml").touch()
    line = {"COMP_WORDS": " ".join(["fedgraft", *words]), "COMP_CWORD": str(len(words))}
    script = f"{COMMAND.removesuffix('main()')}\ntry:\n    main()\nfinally:\n    assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **line, "_FEDGRAFT_COMPLETE": "complete_bash"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (found, "")
