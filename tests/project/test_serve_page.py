"""The page on predictions over HTTP: its commands work as they stand there, and answer what it shows."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from fedgraft.interface.json_tables import MAX_REQUEST, MAX_ROWS

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|json|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def curl(command: list[str], address: str) -> str:
    """What curl would show."""
    (url,) = (word for word in command if word.startswith("http://"))
    given = {option: value for option, value in pairwise(command) if option in ("-H", "-d")}
    headers = dict([given["-H"].split(": ")]) if "-H" in given else {}
    data = given["-d"].encode() if "-d" in given else None
    asked = urllib.request.Request(url.replace("http://127.0.0.1:8080", address), data, headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return answer.read().decode()


def shape(text: str) -> object:
    """What an answer shows, but for numbers and digests: these depend on versions."""
    return json.loads(re.sub(r'"[0-9a-f]{32}"', '"DIGEST"', text), parse_float=lambda _: "NUMBER")


@pytest.mark.slow
def test_every_block_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server, address, said = None, "", ""
    try:
        for language, code in BLOCK.findall(PAGE):
            if language == "json":
                assert shape(code) == shape(said)
                continue
            if language == "python":
                exec(compile(code, "serve.md", "exec"), {})
                continue
            for command in map(shlex.split, code.splitlines()):
                if command[0] == "curl":
                    said = curl(command, address)
                    continue
                assert command[0] == "fedgraft"
                process = [sys.executable, "-m", "fedgraft", *("0" if word == "8080" else word for word in command[1:])]
                if command[1] != "serve":
                    subprocess.run(process, check=True, capture_output=True, env=ENVIRONMENT)
                    continue
                server = subprocess.Popen(process, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
                (address,) = re.findall(r"http://\S+", server.stderr.readline())
    finally:
        if server is not None:
            server.kill()
            server.communicate()
    assert json.loads(said)["answers"][0]["client"] == "own"


def test_limits_are_as_the_page_says():
    assert f"`--max-request` ({MAX_REQUEST})" in PAGE
    assert f"`--max-rows` ({MAX_ROWS:,})" in PAGE
