"""One node process for each folder, whatever happened to the one before."""

import os
import signal
import subprocess
import sys

import pytest

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.folders import alone_in

HOLD = """
import sys, time
from pathlib import Path
from fedgraft.runtimes.federation.folders import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_one_line_and_a_killed_one_lets_go(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"held\n"
        said = r"is in use: another node process runs from it\. End that one first"
        with pytest.raises(InputError, match=said), alone_in(tmp_path):
            raise AssertionError("two hold it")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    with alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        pass
