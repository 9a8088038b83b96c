"""What a run leaves a client at its site: the answers are those of one machine, from the client's own data alone."""

import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run, write_site_run
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.disk import read_model
from fedgraft.reports.pages.html_report import write_report
from fedgraft.wire.layouts import digest
from helpers.compared_runs import compare
from helpers.local_sites import federated_files
from helpers.node_runs import SMALL
from helpers.served_runs import MOLECULES, QUESTIONS, RUNS
from helpers.tiny import TINY

GROUPS = {"sharing.name": "gcfl", "sharing.mean_norm": 1e9, "sharing.max_norm": 0.0, "sharing.after": 1}
CASES = {
    **RUNS,
    "graph in groups": ("cefgl", {**MOLECULES, "data.clients": 4, "rounds": 4, **GROUPS}),
    "last model": ("cefgl", {**MOLECULES, "evaluation.keep": "last"}),
    "fedper": ("fedacs", {**TINY, "rounds": 2, "sharing.name": "fedper", "baselines": []}),
    "statistics": ("fedacs", {**TINY, "rounds": 2, "task.share": "users", "baselines": []}),
    "node with halo": ("fedais", {**SMALL, "rounds": 2}),
}
LONG = ("node", "graph", "last model", "fedper", "statistics")
"""Of which another case tells most."""
TASKS = {"graph in groups": "graph", "last model": "graph", "fedper": "rating", "statistics": "rating"}


def asked_of(case):
    """Return questions as tables, and the client that is asked; None leaves it to the task."""
    asked = QUESTIONS[TASKS.get(case, case.split()[0])]
    return {name: pd.DataFrame(table) for name, table in asked["tables"].items()}


@pytest.fixture(
    scope="module", params=[pytest.param(case, marks=pytest.mark.slow) if case in LONG else case for case in CASES]
)
def case(request, tmp_path_factory):
    """A run at sites, and the same on one machine."""
    root = tmp_path_factory.mktemp("sites")
    recipe, changes = CASES[request.param]
    summary, sites = federated_files(recipe, changes, root)
    here = runner.execute(jobs.load(recipe, changes), root / "here")
    return request.param, root, summary, sites, here


def test_a_run_at_sites_ends_as_on_one_machine(case) -> None:
    _, _, summary, _, here = case
    for name in ("validation", "test", "test_per_client", "bytes", "curve", "rounds"):
        found, wanted = summary[name], here[name]
        if name == "curve":  # but for measured seconds
            found, wanted = ([[*p[:2], *p[3:]] for p in points] for points in (found, wanted))
        assert found == wanted, name
    assert summary["digest"] == here["digest"]


def test_every_site_answers_as_one_machine_does_for_its_client(case) -> None:
    name, root, _, sites, _ = case
    tables = asked_of(name)
    for client in sites.names:
        if "node" in tables.keys() | {name.split()[0]} and name.startswith("node"):
            shard = open_run(sites.run_folder(client)).shards[0]
            tables["nodes"] = pd.DataFrame({"node": list(shard.ids[:5])})
            tables.pop("edges", None)
        if name == "ranking":
            tables["users"] = pd.DataFrame({"user": open_run(sites.run_folder(client)).shards[0].user_ids[:4]})
        if name == "edge":  # a site has no ids of others' nodes
            ids = open_run(sites.run_folder(client)).shards[0].ids[:3]
            tables["edges"] = tables["edges"].assign(source=[ids[0], "new"], target=[*ids[1:]])
        wanted = predict(root / "here", tables, client)
        pd.testing.assert_frame_equal(predict(sites.run_folder(client), tables), wanted)
        pd.testing.assert_frame_equal(predict(sites.run_folder(client), tables, client), wanted)


def test_a_site_has_one_model_and_no_word_of_other_clients(case) -> None:
    name, root, _, sites, _ = case
    models = set()
    for client in sites.names:
        folder = sites.run_folder(client)
        model = read_model(folder / "model.safetensors")
        models.add(digest(model))
        assert not any("/" in each for each in model)
        held = (folder / "summary.json").read_text() + (folder / "origin.json").read_text()
        assert list(runner.RunFolder.open(folder).summary()["test_per_client"]) == [client]
        assert not any(f'"{other}"' in held for other in sites.names if other != client)
        assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    groups = {*sites_groups(root)}
    assert len(models) == len(groups)
    assert (len(groups) > 1) == (name == "graph in groups")


def sites_groups(root: Path) -> list[str]:
    """Return the group of each of the server's models."""
    names = read_model(root / "run" / "model.safetensors")
    return [name.partition("/")[0] for name in names if "/" in name] or [""]


def test_the_servers_folder_says_where_the_data_are(case) -> None:
    name, root, _, sites, _ = case
    with pytest.raises(
        InputError, match=r"at the nodes of the federation; predict there: fedgraft predict NODEDIR/runs"
    ):
        predict(root / "run", asked_of(name), sites.names[0])
    assert compare([root / "run", root / "here"])[0]["run"] == "run"


@pytest.mark.slow
def test_a_page_is_written_at_the_server_but_for_representations(case, tmp_path: Path) -> None:
    check_page(case[1] / "run", tmp_path)


def check_page(run: Path, tmp_path: Path) -> None:
    write_report([run], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(InputError, match="at the nodes of the federation"):
        write_report([run], tmp_path / "report.html", representations=True)


# --- one of them more closely -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rating(tmp_path_factory):
    root = tmp_path_factory.mktemp("rating")
    return root, federated_files(*RUNS["rating"], root)[1]


@pytest.fixture
def site(rating, tmp_path):
    """A copy of what the run has left the first client, and its name."""
    name = rating[1].names[0]
    shutil.copytree(rating[1].run_folder(name), tmp_path / "site")
    return tmp_path / "site", name


PAIRS = {"pairs": pd.DataFrame({"user": ["user-01"], "item": ["item-01"]})}


def test_a_shared_model_answers_anywhere_for_own_tables(rating) -> None:
    own = pd.DataFrame({"user": ["ann", "ann", "ben"], "item": ["tea", "cake", "tea"], "rating": [5, 4, 2]})
    root, sites = rating
    at_server = predict(root / "run", PAIRS, None, own)
    pd.testing.assert_frame_equal(predict(sites.run_folder(sites.names[1]), PAIRS, None, own), at_server)


def test_a_page_is_written_at_the_server(rating, tmp_path: Path) -> None:
    check_page(rating[0] / "run", tmp_path)


def test_a_data_file_may_move(site, rating, tmp_path: Path) -> None:
    folder, _ = site
    expected = predict(folder, PAIRS)
    path = Path(tomllib.loads((folder / "site.toml").read_text())["data"][0])
    moved = shutil.copy(path, tmp_path / "moved.data")
    text = (folder / "site.toml").read_text()
    (folder / "site.toml").write_text(text.replace(str(path), str(tmp_path / "nowhere.data")))
    with pytest.raises(InputError, match=r"site.toml: .*nowhere.data cannot be read"):
        predict(folder, PAIRS)
    pd.testing.assert_frame_equal(predict(folder, {**PAIRS, "data": moved}), expected)
    other = tomllib.loads((rating[1].run_folder(rating[1].names[1]) / "site.toml").read_text())["data"][0]
    with pytest.raises(InputError, match=r"is of client 1"):
        predict(folder, {**PAIRS, "data": other})


def test_other_clients_do_not_answer_at_a_site(site, rating) -> None:
    with pytest.raises(InputError, match="No client named"):
        predict(site[0], PAIRS, rating[1].names[1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("memory.bin", b"x" * 40, "memory.bin is damaged"),
        ("site.toml", b"client = 'first'", "site.toml is damaged"),
        ("site.toml", b"=", "site.toml is damaged"),
        ("model.safetensors", b"x" * 40, "model.safetensors is damaged"),
        ("origin.json", b"{", "origin.json is damaged"),
    ],
)
def test_damage_is_one_line(site, name, content, message) -> None:
    (site[0] / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        predict(site[0], PAIRS)
    assert "\n" not in str(error.value)


def test_data_that_have_changed_are_refused(site) -> None:
    path = site[0] / "origin.json"
    found = open_run(site[0]).run_folder.origin()["clients"][site[1]]
    path.write_text(path.read_text().replace(found, "0" * 32))
    with pytest.raises(InputError, match="have changed since the run began"):
        predict(site[0], PAIRS)


@pytest.mark.parametrize("content", [b"", b"x" * 30])
def test_a_result_that_is_none_leaves_nothing(tmp_path: Path, content) -> None:
    with pytest.raises(InputError, match="no result of a run"):
        write_site_run(tmp_path / "site", (b"", content, b"", b""), 0, "a", [], "")
    assert not (tmp_path / "site").exists()
