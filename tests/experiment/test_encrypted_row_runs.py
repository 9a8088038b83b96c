"""Rows that the server hands on unread: the digest, bytes and scores of one machine, and no float for the server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgraft.contracts.values import HaloRows
from fedgraft.domains.edges.exchange import EdgeExchange
from fedgraft.domains.nodes.training.exchange import NodeExchange
from fedgraft.domains.publications import Publications
from fedgraft.errors import AllClientsFailedError, InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.sites import Site
from fedgraft.wire.encrypted_rows import TAG_BYTES, RowSeal
from fedgraft.wire.layouts import Array, Arrays
from helpers import local_sites
from helpers.local_sites import LocalSites, Restarted, federated_files, traffic
from helpers.site_boundaries import (
    AUTO,
    CHANGES,
    COLUMNS,
    ENCRYPTED,
    OPEN,
    PSI,
    SAME,
    at_server,
    at_sites,
    here,
    own,
    resumed_answers,
    tables,
)
from helpers.site_tables import CLIENTS, carrying
from helpers.toy_ratings import write_ratings

CARRIED = {"data.edge_features": "amount", "data.weight": "times", "data.directed": True, "model.name": "multigraph"}
AT_CLIENTS = {"evaluation.at": "clients"}


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("fedais", {**COLUMNS, **AT_CLIENTS}),
        pytest.param("fedais", {**AUTO, **PSI, "rows.name": "float16"}, marks=pytest.mark.slow),
        pytest.param("fedgraph", {**AUTO, "rows.name": "identity"}, marks=pytest.mark.slow),
        ("graft_multigraph", {**COLUMNS, **PSI, **CARRIED, "selector.name": "random"}),
    ],
)
def test_encrypted_rows_end_as_on_one_machine(tmp_path: Path, recipe: str, options: dict[str, Any]) -> None:
    every = tables()
    every["edges"] = carrying(every["edges"])
    one = here(every, tmp_path, recipe, {**options, **ENCRYPTED})
    two, _ = at_sites(every, tmp_path / "sites", recipe, {**options, **ENCRYPTED})
    for name in SAME:
        assert two[name] == one[name], name


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = write_ratings(tmp_path_factory.mktemp("ratings"))
    return {"data.root": str(root), "data.clients": 3, "rounds": 3, "runtime.workers": 0, "baselines": []}


def test_histories_and_states_of_edges_end_as_on_one_machine(tmp_path: Path, ratings: dict[str, Any]) -> None:
    one = execute(jobs.load("graft_edge", {**ratings, **ENCRYPTED}))
    two, _ = federated_files("graft_edge", {**ratings, **ENCRYPTED}, tmp_path)
    for name in SAME:
        assert two[name] == one[name], name


@pytest.mark.parametrize("codec", ["identity", "float16"])
def test_codecs_without_buckets_have_the_digest_of_open_rows(tmp_path: Path, codec: str) -> None:
    """Sixteen bytes more a row, and four for a degree that travels behind its own tag, are all that changes."""
    every, found = tables(), []
    for name, changes in (("open", OPEN), ("sealed", ENCRYPTED)):
        (tmp_path / name).mkdir()
        found.append(here(every, tmp_path / name, "fedais", {**AUTO, "rows.name": codec, **changes}))
    before, after = found
    assert [before[name] for name in SAME if name != "bytes"] == [after[name] for name in SAME if name != "bytes"]
    grown = {name: after["bytes"][name] - size for name, size in before["bytes"].items()}
    assert {name for name, size in grown.items() if size} == {"statistics", "halo", "total", "up", "down"}
    assert grown["statistics"] % (2 * TAG_BYTES) == grown["halo"] % TAG_BYTES == 0


def rows_told(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Array]]:
    """Every row of features, histories and hidden states that a client tells others, from now on; float32 [width]."""
    told: dict[str, list[Array]] = {"features": [], "history": [], "states": []}

    def states(rows_by_layer: Sequence[HaloRows]) -> Sequence[HaloRows]:
        told["states"] += [row for each in rows_by_layer for row in each.rows.copy()]
        return rows_by_layer

    def published(statistics: Arrays) -> Arrays:
        for name in ("features", "history"):
            told[name] += list(statistics.get(name, ()))
        return statistics

    for part in (NodeExchange, EdgeExchange, Publications):
        notes = {"statistics": published} if part is Publications else {"changed": states, "relay": states}
        for name, note in notes.items():
            method = getattr(part, name)
            monkeypatch.setattr(part, name, lambda *args, _do=method, _note=note: _note(_do(*args)))
    return told


def coded_rows(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """Every row as it is before it is encrypted, such as its quantised codes, from now on; uint8 [bytes]."""
    coded, encrypted = list[Array](), RowSeal.encrypted

    def note(seal: RowSeal, what: str, places: Array, rows: Array) -> Array:
        coded.extend(rows)
        return encrypted(seal, what, places, rows)

    monkeypatch.setattr(RowSeal, "encrypted", note)
    return coded


def needles(rows: Sequence[Array]) -> list[bytes]:
    """Some 300 different rows that are not there by accident: of eight bytes or more, at least five different ones."""
    every = sorted({each for row in rows if len(each := row.tobytes()) >= 8 and len(set(each)) >= 5})
    return every[:: 1 + len(every) // 300]


def seen(rows: Sequence[Array], haystack: Sequence[bytes]) -> int:
    """How many of these rows lie in what the server has had."""
    return sum(any(row in each for each in haystack) for row in needles(rows))


def of_server(sent: Sequence[bytes], root: Path) -> list[bytes]:
    kept = [path.read_bytes() for path in (root / "run").rglob("*") if path.is_file()]
    return [b"|".join(sent), b"|".join(kept)]


@pytest.mark.parametrize(
    ("codec", "width", "options"),
    [
        ("identity", np.float32, AUTO),
        pytest.param("float16", np.float16, {**COLUMNS, **AT_CLIENTS}, marks=pytest.mark.slow),
        pytest.param("quantized", np.float32, AUTO, marks=pytest.mark.slow),
    ],
)
def test_no_row_of_features_or_states_is_seen_by_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, width: type, options: dict[str, Any]
) -> None:
    every, told, coded, sent = tables(), rows_told(monkeypatch), coded_rows(monkeypatch), traffic(monkeypatch)
    at_sites(every, tmp_path, "fedais", {**options, "rows.name": codec, **ENCRYPTED})
    had = of_server(sent, tmp_path)
    assert len(needles(told["features"])) > 50
    assert len(needles(told["states"])) > 50
    assert len(needles(coded)) > 100
    for rows in (*told.values(), coded):
        assert seen(rows, had) == 0
        assert seen([row.astype(np.float16) for row in rows], had) == 0
    if codec == "quantized":
        return
    for rows in told.values():
        rows.clear()
    sent.clear()
    at_sites(every, tmp_path / "open", "fedais", {**options, "rows.name": codec, **OPEN})
    assert seen([row.astype(width) for row in told["features"]], of_server(sent, tmp_path / "open")) > 50
    assert seen([row.astype(width) for row in told["states"]], of_server(sent, tmp_path / "open")) > 50


def test_no_history_is_seen_by_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratings: dict[str, Any]
) -> None:
    told, coded, sent = rows_told(monkeypatch), coded_rows(monkeypatch), traffic(monkeypatch)
    exact = {**ratings, "rows.name": "identity"}
    federated_files("graft_edge", {**exact, **ENCRYPTED}, tmp_path)
    assert len(needles(told["history"])) > 50
    for rows in (*told.values(), coded):
        assert seen(rows, of_server(sent, tmp_path)) == 0
    sent.clear()
    federated_files("graft_edge", exact, tmp_path / "open")
    assert seen(told["history"], of_server(sent, tmp_path / "open")) > 50


def test_resume_restarts_and_answers_at_a_site_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sites, "Node", Restarted)
    answers, wanted = resumed_answers(tmp_path, ENCRYPTED)
    assert answers["probability"].tolist() == wanted["probability"].tolist()


def sites_of(tmp_path: Path, options: dict[str, Any]) -> tuple[Any, LocalSites]:
    every = tables()
    given = [own(every, name, tmp_path / "tables" / name) for name in CLIENTS]
    nowhere = {f"data.{key}": "nowhere.csv" for key in every}
    changes = {**CHANGES, **nowhere, **options, "runtime.name": "sites", "baselines": []}
    experiment = jobs.load("fedais", changes)
    return experiment, LocalSites(experiment, given, list(CLIENTS), tmp_path / "nodes")


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_wrong_secret_at_one_site_is_one_line(tmp_path: Path, encrypted: bool) -> None:
    experiment, sites = sites_of(tmp_path, {**AUTO, **ENCRYPTED, "exchange.encrypted_rows": encrypted})
    sites.sites[1].secret = bytes(32)
    with pytest.raises(
        InputError, match=r"client 1 refuses this run: its secret \(matching\.secret .*that of client 0"
    ):
        execute(experiment, tmp_path / "run", sites=sites)


def test_a_site_without_the_secret_is_one_line(tmp_path: Path) -> None:
    data = own(tables(), "north", tmp_path)
    inside = jobs.load("fedais", at_server(ENCRYPTED))
    with pytest.raises(InputError, match=r"exchange\.encrypted_rows = true needs the secret that all.*--new-secret"):
        Site(inside, data, 0, "north", clients=CLIENTS).check()
    Site(inside, data, 0, "north", clients=CLIENTS, secret=bytes(32)).check()


def test_a_site_whose_program_hides_a_wrong_secret_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RowSeal, "mark", b"the same")
    experiment, sites = sites_of(tmp_path, {**AUTO, **ENCRYPTED})
    (south,) = (node for node in sites.link.by_id.values() if node.number == 1)
    south.seal = lambda run: RowSeal(bytes(32), run)
    with caplog.at_level("INFO", "fedgraft.client"), pytest.raises(AllClientsFailedError):
        execute(experiment, tmp_path / "run", sites=sites)
    assert (
        "a row of degree cannot be opened: it was encrypted under another secret, or changed on its way" in caplog.text
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows.name": "sparse"}, r"rows\.name must be one of float16, identity, quantized, .*got 'sparse'"),
        ({"rows.feedback": True}, r"rows\.name must be one of float16, identity, quantized"),
        (
            {"exchange.states": False, "exchange.features": False},
            r"exchange\.encrypted_rows must be false where no rows are",
        ),
        (
            {"exchange.states": False, "inputs.aggregates": True},
            r"exchange\.encrypted_rows must be false where no rows are shared; got True",
        ),
    ],
)
def test_options_that_seal_nothing_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        jobs.load("fedais", {"data.name": "blocks", **ENCRYPTED, **changes})


def test_rows_are_encrypted_where_ids_are_matched_unless_a_recipe_says_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables_of = {"data.name": "nodes", "data.nodes": "n.csv", "data.edges": "e.csv"}
    assert not jobs.load("fedais", tables_of).plan.task.exchange.encrypted_rows
    matched = jobs.load("fedais", {**tables_of, **AUTO})
    assert matched.plan.task.exchange.encrypted_rows
    assert matched.recipe.sections["exchange"]["encrypted_rows"] is True
    assert not jobs.load("fedais", {**tables_of, **AUTO, **OPEN}).plan.task.exchange.encrypted_rows
    assert not caplog.records
    assert not jobs.load("fedais", {**tables_of, **AUTO, "rows": {"name": "sparse"}}).plan.task.exchange.encrypted_rows
    assert "The server can read what sites tell each other of nodes, though it learns no ids: rows.name" in caplog.text
