"""The page on deployment: its commands are commands with the options that they have there, and all of them are run."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.main import get_command

from fedgraft.interface.cli import app
from helpers import site_tables
from helpers.federations import WAIT_SECONDS, call_here, environment, free_port

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("fedgraft")
]
RECIPE = re.search(r"^```toml\n# papers\.toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SMALL = ("data.users=200", "data.items=150", "data.count=4000", "baselines=[]", "rounds=2", "evaluation.every=2")
RATINGS = """[data]
name = "table"
ratings = "ratings.csv"
low = 1.0
high = 5.0
[task]
name = "rating"
share = "nothing"
[model]
name = "gat"
[selector]
name = "all"
"""


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one(line):
    command, context, words = get_command(app), None, shlex.split(line)
    while hasattr(command, "commands"):
        context = command.context_class(command, info_name=words[0], parent=context)
        name, command, words = command.resolve_command(context, words[1:])
        words = [name, *words]
    command.make_context(words[0], words[1:], parent=context)


class Reader:
    """Who types the page's commands, in a folder of his own, with his own names in place of the page's."""

    def __init__(self, folder):
        self.folder, self.left, self.processes = folder, list(COMMANDS), []

    def words(self, line, *more, **names):
        """The command of a line, which is on the page and now is typed."""
        assert line in COMMANDS, f"not on the page: {line}"
        if line in self.left:
            self.left.remove(line)
        for name, own in names.items():
            line = re.sub(rf"\b{name}\b", str(own), line)
        return [*shlex.split(line)[1:], *map(str, more)]

    def types(self, line, *more, **names):
        return call_here(*self.words(line, *more, **names), cwd=self.folder)

    def starts(self, line, text, *more, **names):
        """Start a command that stays, and wait until it has said something; its output."""
        log = self.folder / f"{len(self.processes)}.log"
        command = [sys.executable, "-m", "fedgraft", *self.words(line, *more, **names)]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder, env=environment())
        self.processes.append(process)
        until = time.monotonic() + WAIT_SECONDS
        while text not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        return log.read_text()

    def leaves(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(WAIT_SECONDS)
        self.processes = []


@pytest.fixture
def reader(tmp_path):
    found = Reader(tmp_path)
    yield found
    found.leaves()


@pytest.mark.slow
@pytest.mark.federation
def test_every_command_of_the_page_does_what_the_page_says(reader):
    first = "fedgraft federation init fed --names north,south --recipe fedacs --host fed.example.org"
    reader.types(first, **{"fed.example.org": "localhost"})
    assert {path.name for path in (reader.folder / "fed").iterdir()} >= {
        "federation.toml",
        "recipe.toml",
        "server",
        "nodes",
    }
    shutil.rmtree(reader.folder / "fed")
    with_data_files(reader)
    reader.leaves()
    shutil.rmtree(reader.folder / "fed")
    with_ratings(reader)
    with_own_keys(reader)
    with_papers(reader)
    assert reader.left == [], "every command of the page was typed"


def with_data_files(reader):
    """Data files by `fedgraft shard`: start, look, run, predict at a site."""
    reader.types("fedgraft shard fedacs -o fed data.clients=3", *SMALL)
    call_here("federation", "init", "fed", "--port", free_port(), cwd=reader.folder)
    reader.starts("fedgraft federation start fed", "ready at localhost")
    names = [path.stem for path in (reader.folder / "fed" / "clients").iterdir()]
    for name in names:
        reader.starts("fedgraft node fed/nodes/north --data fed/clients/north.data", "joining", north=name)
    reader.types("fedgraft run fed/recipe.toml --on fed --out run")
    assert reader.types("fedgraft federation status fed").count("online") == 3

    node = f"fed/nodes/{names[0]}"
    (run,) = (reader.folder / node / "runs").iterdir()
    own = {"NODEDIR": node, "RUN": run.name}
    (reader.folder / "pairs.csv").write_text("user,item\nuser-01,item-01\n")
    reader.types("fedgraft predict NODEDIR/runs/RUN -o answers.csv --pairs pairs.csv", **own)
    assert "rating" in (reader.folder / "answers.csv").read_text()
    said = reader.starts("fedgraft serve NODEDIR/runs/RUN", "answers at http://", "--port", 0, **own)
    address = re.search(r"http://[\d.:]+", said)
    with urllib.request.urlopen(f"{address.group()}/health", timeout=60) as answer:
        assert answer.status == 200


def with_ratings(reader):
    """One table at a site; nothing is started that it could join."""
    (reader.folder / "ratings.toml").write_text(RATINGS)
    reader.types(
        "fedgraft federation init fed --recipe papers.toml --names north,south", "--port", free_port(), papers="ratings"
    )
    site_tables.ratings().query("client == 'north'").drop(columns="client").to_csv(
        reader.folder / "ratings.csv", index=False
    )
    reader.starts("fedgraft node NODEDIR --data ratings.csv", "data fit the recipe", NODEDIR="fed/nodes/north")
    reader.leaves()
    shutil.rmtree(reader.folder / "fed")


def with_own_keys(reader):
    """Keys and the secret are made at sites; the server has neither."""
    reader.types("fedgraft federation init fed --no-keys --recipe papers.toml", papers="ratings")
    reader.types("fedgraft federation keygen north --new-secret")
    shutil.copy(reader.folder / "north" / "matching.secret", reader.folder)
    reader.types("fedgraft federation keygen south --secret matching.secret")
    for name in ("north", "south"):
        shutil.copy(reader.folder / name / "node.pub", reader.folder)
        reader.types("fedgraft federation add fed north --key node.pub", **{"north": name})
    for command in ("add", "rotate", "remove"):
        reader.types(f"fedgraft federation {command} fed east")
    shutil.rmtree(reader.folder / "fed/nodes/east")
    assert not [*(reader.folder / "fed").rglob("node.key"), *(reader.folder / "fed").rglob("matching.secret")]
    shutil.copytree(reader.folder / "fed/nodes/north", reader.folder / "north", dirs_exist_ok=True)
    reader.starts("fedgraft node NODEDIR --data ratings.csv", "data fit the recipe", NODEDIR="north")
    reader.leaves()
    shutil.rmtree(reader.folder / "fed")


def with_papers(reader):
    """Several tables at each site, with the page's own recipe."""
    (reader.folder / "papers.toml").write_text(RECIPE.group(1))
    nodes, edges = site_tables.nodes()
    for name in site_tables.CLIENTS:
        own = nodes[nodes["client"] == name].drop(columns="client")
        own.to_csv(reader.folder / f"{name}-nodes.csv", index=False)
        edges[edges["source"].isin(own["node"])].to_csv(reader.folder / f"{name}-edges.csv", index=False)
    reader.types("fedgraft federation init fed --recipe papers.toml --names north,south", "--port", free_port())
    reader.starts("fedgraft federation start fed", "ready at localhost")
    several = "fedgraft node NODEDIR --data nodes=nodes.csv --data edges=edges.csv"
    for kind in ("nodes", "edges"):
        shutil.copy(reader.folder / f"south-{kind}.csv", reader.folder / f"{kind}.csv")
    reader.starts(several, "joining", NODEDIR="fed/nodes/south")
    named = "fedgraft node fed/nodes/north --data nodes=north-nodes.csv --data edges=north-edges.csv"
    reader.starts(named, "joining")
    shutil.rmtree(reader.folder / "run")
    reader.types("fedgraft run papers.toml --on fed --out run")
