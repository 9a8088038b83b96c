"""Data that have moved or grown since a run: what its model answers, and what it refuses."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import InputError
from helpers.two_shops import OPTIONS, PAIRS, ratings


def trained(folder: Path, recipe: str = "fedacs", **changes: object) -> fedgraft.Run:
    """A run on these ratings, from a file beside it."""
    (folder / "then").mkdir()
    path = folder / "then" / "ratings.csv"
    ratings().to_csv(path, index=False)
    data = {"ratings": str(path), "partition": "given"}
    return fedgraft.run(recipe, data=data, out=folder / "run", overrides={**OPTIONS, **changes}, progress=False)


@pytest.fixture
def run(tmp_path: Path) -> fedgraft.Run:
    return trained(tmp_path)


def grown(folder: Path, *more: dict[str, object]) -> None:
    """Add rows at the end of the file."""
    path = folder / "then" / "ratings.csv"
    pd.concat([pd.read_csv(path), pd.DataFrame(list(more))]).to_csv(path, index=False)


ROW = {"user": 3, "item": 7, "rating": 5, "client": "north", "category": 0}


def test_data_that_have_grown_need_the_flag_which_the_error_names(run: fedgraft.Run, tmp_path: Path, caplog) -> None:
    before = run.predict(PAIRS)
    grown(tmp_path, ROW)
    with pytest.raises(InputError, match=r"'north' of 2 has other rows.*--from RUN.*allow_changed_data"):
        run.predict(PAIRS)
    with caplog.at_level(logging.WARNING):
        after = run.predict(PAIRS, allow_changed_data=True)
    assert "Of 2 clients 1 has other rows ('north')" in caplog.text
    assert after["rating"][0] != before["rating"][0], "north knows one rating more"
    assert after["rating"][1] == before["rating"][1], "south's data are as they were"


def test_the_flag_changes_nothing_where_data_have_not_changed(run: fedgraft.Run, caplog) -> None:
    pd.testing.assert_frame_equal(run.predict(PAIRS, allow_changed_data=True), run.predict(PAIRS))
    assert "changed" not in caplog.text


def test_a_new_client_answers_with_the_shared_model(run: fedgraft.Run, tmp_path: Path, caplog) -> None:
    grown(tmp_path, *({**ROW, "user": user, "client": "east"} for user in range(20, 40)))
    found = run.predict(PAIRS.assign(client="east"), allow_changed_data=True)
    assert found["client"].tolist() == ["east", "east"]
    assert "1 is new ('east')" in caplog.text


def test_a_new_client_has_no_model_where_each_has_parameters_of_its_own(tmp_path: Path) -> None:
    run = trained(tmp_path, **{"sharing.name": "fedper"})
    grown(tmp_path, *({**ROW, "user": user, "client": "east"} for user in range(20, 40)))
    assert len(run.predict(PAIRS, allow_changed_data=True)) == 2
    with pytest.raises(InputError, match=r"own, such as .*; client 'east' is of one that was not there"):
        run.predict(PAIRS.assign(client="east"), allow_changed_data=True)


def test_data_that_have_moved_are_found_by_their_new_folder(run: fedgraft.Run, tmp_path: Path) -> None:
    before = run.predict(PAIRS)
    (tmp_path / "then").rename(tmp_path / "now")
    with pytest.raises(InputError, match=r"no file .*ratings\.csv.* data_root DIR"):
        run.predict(PAIRS)
    pd.testing.assert_frame_equal(run.predict(PAIRS, data_root=tmp_path / "now"), before)
    with pytest.raises(InputError, match=r"data_root .*nowhere is no folder"):
        run.predict(PAIRS, data_root=tmp_path / "nowhere")


def test_generated_data_have_no_folder(finished_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Data set 'shops' reads no files"):
        fedgraft.open(finished_run).predict(PAIRS, data_root=tmp_path)


# --- nodes and graphs -------------------------------------------------------------------------------------------------


def nodes(count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A ring of nodes at two clients, joined across them."""
    number = np.arange(count)
    table = pd.DataFrame({"node": number, "label": number % 2, "client": np.where(number % 4 < 2, "a", "b")})
    table = table.assign(x=np.where(number % 2, 1.0, -1.0) + 0.1 * (number % 3), y=number % 5 / 5)
    return table, pd.DataFrame({"source": number, "target": (number + 1) % count})


def test_nodes_that_have_come_are_seen_by_their_neighbours(tmp_path: Path, caplog) -> None:
    for name, table in zip(("nodes", "edges"), nodes(40), strict=True):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    data = {"name": "nodes", "nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}
    changes = {"rounds": 2, "runtime.workers": 0, "baselines": [], "model.hidden": 4, "selector.clients": 2}
    run = fedgraft.run("fedais", data=data, out=tmp_path / "run", overrides=changes, progress=False)
    for name, table in zip(("nodes", "edges"), nodes(44), strict=True):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    with caplog.at_level(logging.WARNING):
        found = run.predict(pd.DataFrame({"node": [1, 43]}), allow_changed_data=True)
    assert "hidden states of nodes elsewhere are not computed anew" in caplog.text
    assert found["client"].tolist() == ["a", "b"]
    assert found["probability"].between(0.5, 1).all()


def graphs(folder: Path, kind: str) -> dict[str, str]:
    """Twelve triangles, the last one's first node of a kind."""
    graph = np.repeat([f"g{k:02}" for k in range(12)], 3)
    tables = {
        "graphs": pd.DataFrame({"graph": graph[::3], "label": np.arange(12) % 2}),
        "nodes": pd.DataFrame({"graph": graph, "node": np.tile([0, 1, 2], 12), "kind": np.repeat(["C", "N"], 18)}),
        "edges": pd.DataFrame({"graph": graph, "source": np.tile([0, 1, 2], 12), "target": np.tile([1, 2, 0], 12)}),
    }
    tables["nodes"].loc[33, "kind"] = kind
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {"name": "graphs", **{name: str(folder / f"{name}.csv") for name in tables}}


def test_kinds_that_the_model_numbers_must_be_the_same(tmp_path: Path) -> None:
    changes = {"rounds": 2, "runtime.workers": 0, "baselines": [], "model.hidden": 4}
    run = fedgraft.run("cefgl", data=graphs(tmp_path, "N"), out=tmp_path / "run", overrides=changes, progress=False)
    asked = {
        "nodes": pd.DataFrame({"graph": "q", "node": [0, 1], "kind": ["C", "N"]}),
        "edges": pd.DataFrame({"graph": "q", "source": [0], "target": [1]}),
    }
    before = run.predict(**asked)
    graphs(tmp_path, "C")
    pd.testing.assert_frame_equal(run.predict(**asked, allow_changed_data=True), before)
    graphs(tmp_path, "B")
    with pytest.raises(InputError, match=r"names that its model numbers .* the model does not fit"):
        run.predict(**asked, allow_changed_data=True)


def test_what_was_noted_of_the_data_when_the_run_began_is_not_said_again(run: fedgraft.Run, caplog) -> None:
    caplog.clear()
    run.predict(PAIRS)
    assert caplog.text == ""
    run.predict(PAIRS, allow_changed_data=True)
    assert "Scale 1..5 is what the ratings span" in caplog.text, "it may be another now"


def test_own_ratings_are_on_the_scale_of_the_run_s_which_was_read_off_them(run: fedgraft.Run, tmp_path: Path) -> None:
    own = pd.DataFrame({"user": ["ann", "ben", "ann"], "item": ["tea", "tea", "pie"], "rating": 5})
    assert run.predict(pd.DataFrame({"user": ["ann"], "item": ["tea"]}), own)["rating"][0] > 4.5
    (tmp_path / "then").rename(tmp_path / "now")
    with pytest.raises(InputError, match=r"no file .*; a run that is told data\.low and data\.high needs them no more"):
        run.predict(PAIRS, own)
