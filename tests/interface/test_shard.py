"""The command that writes each client's data to a file; and predictions at a site, by command and over HTTP."""

import tomllib
from pathlib import Path

import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.storage.client_files import _file_names, read_client
from fedgraft.experiment.storage.provenance import digest_of
from helpers.local_sites import federated_files
from helpers.served_runs import QUESTIONS, RUNS
from helpers.tiny import TINY

CHANGES = [f"{key}={value}" for key, value in TINY.items() if key.startswith("data.")]


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_shard_writes_what_run_would_load(fedgraft, tmp_path: Path) -> None:
    done = fedgraft("shard", "fedacs", "-o", "made", *CHANGES, "--seed", 3, "--json")
    assert done.code == 0, done.err
    assert {**done.json(), "files": len(done.json()["files"])} == {
        "folder": "made",
        "recipe": "recipe.toml",
        "clients": len(list(Path("made/clients").iterdir())),
        "files": len(list(Path("made/clients").iterdir())),
    }
    names = tomllib.loads(Path("made/clients.toml").read_text())["names"]
    experiment = load("made/recipe.toml")
    shards = experiment.data.load(3)
    assert experiment.seed == 3
    assert names == [shard.name for shard in shards]
    files = sorted((tmp_path / "made/clients").iterdir(), key=lambda path: read_client(path).number)
    assert [read_client(path).digest for path in files] == [digest_of(shard) for shard in shards]
    lines = done.err.splitlines()
    assert lines[-1] == f"{len(names)} clients and recipe.toml in made"
    for line, name, path in zip(lines[:-1], names, files, strict=True):
        assert line.startswith(f"{name}: ")
        assert line.endswith(f"in {path.relative_to(tmp_path)}")


def test_the_recipe_knows_what_its_task_must_know_of_the_data(fedgraft) -> None:
    changes = [f"{key}={value}" for key, value in RUNS["node"][1].items() if key.startswith("data.")]
    assert fedgraft("shard", "fedais", "-o", "made", *changes).code == 0
    task = tomllib.loads(Path("made/recipe.toml").read_text())["task"]
    assert (task["features"], task["classes"], len(task["class_names"])) == (8, 3, 3)


def test_only_a_new_or_empty_folder_is_written(fedgraft, tmp_path: Path) -> None:
    Path("empty").mkdir()
    assert fedgraft("shard", "fedacs", "-o", "empty", *CHANGES).code == 0
    before = contents(tmp_path)
    done = fedgraft("shard", "fedacs", "-o", "empty", *CHANGES)
    assert done.code == 2
    assert done.err == (
        "error: empty is not empty: it holds 'clients' and 2 more. Choose a folder that is new or empty.\n"
    )
    assert contents(tmp_path) == before
    Path("file").write_text("")
    assert "file cannot be written" in fedgraft("shard", "fedacs", "-o", "file", *CHANGES).err


def test_what_fails_leaves_nothing(fedgraft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fedgraft("shard", "fedacs", "-o", "made/deep", *CHANGES, "data.clients=99").code == 2
    assert not Path("made").exists()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedgraft.experiment.storage.client_files.write_client", full)
    done = fedgraft("shard", "fedacs", "-o", "made/deep", *CHANGES)
    assert done.err == "error: made/deep cannot be written: No space left on device.\n"
    assert not Path("made").exists()


def test_files_have_names_of_their_own_whatever_clients_are_called() -> None:
    names = ["../../etc/passwd", "books + toys", "Books - toys", "é", "", ".hidden", "a" * 300, "client", "client-4"]
    found = _file_names(names)
    assert len({name.casefold() for name in found}) == len(names)
    assert all("/" not in name and not name.startswith(".") and 0 < len(name) < 100 for name in found)
    assert found[:2] == ["etc-passwd", "books-toys"]


def test_predictions_at_a_site_by_command_and_over_http(fedgraft, tmp_path: Path) -> None:
    serve = pytest.importorskip("fedgraft.interface.serve", reason="the extra 'serve' is not installed")
    from helpers.asgi import Client

    _, sites = federated_files(*RUNS["graph"], tmp_path)
    name = QUESTIONS["graph"]["client"]
    folder = sites.run_folder(name)
    Path("nodes.csv").write_text("graph,node,kind\na,0,C\na,1,C\n")
    Path("edges.csv").write_text("graph,source,target\na,0,1\n")
    done = fedgraft("predict", folder, "-o", "answers.csv", "--nodes", "nodes.csv", "--edges", "edges.csv")
    assert done.code == 0, done.err
    assert f'"{name}"' in Path("answers.csv").read_text()
    client = Client(serve.app(folder))
    assert client.get("/health").json()["task"] == "graph"
    answers = client.post("/predict", json=QUESTIONS["graph"]).json()["answers"]
    assert answers[0]["client"] == name
    done = fedgraft("predict", tmp_path / "run", "-o", "answers.csv", "--nodes", "nodes.csv", "--edges", "edges.csv")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "predict there: fedgraft predict NODEDIR/runs/" in done.err
