"""Predictions from a run's folder: the run's data, a client's own data, and whatever can be wrong with either."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute
from helpers.tiny import TINY


def ask(folder, pairs, *own):
    return predict(folder, {"pairs": pairs}, None, *own)


PAIRS = pd.DataFrame({"user": ["user-01", "newcomer", "user-02"], "item": ["item-01", "item-02", "novelty"]})


@pytest.fixture
def own() -> pd.DataFrame:
    """A small client's own ratings; fewer than would leave anything to hold out."""
    return pd.DataFrame({"user": ["ann", "ann", "ben"], "item": ["tea", "cake", "tea"], "rating": [5, 4, 2]})


def test_answers_keep_the_questions_and_say_who_answered_and_from_what(finished_run: Path) -> None:
    asked = PAIRS.assign(note=["a", "b", "c"], rating=9)
    found = ask(finished_run, asked)
    assert list(found) == ["user", "item", "note", "client", "rating", "basis"]
    assert found["note"].tolist() == ["a", "b", "c"]
    assert found["rating"].between(1, 5).all()
    assert found["basis"][1].startswith("user new to")
    assert "item" in found["basis"][2]
    assert "new" in found["basis"][2]
    names = {shard.name for shard in jobs.load("fedacs", TINY).data.load(1)}
    assert set(found["client"]) <= names


def test_an_answer_does_not_depend_on_what_else_is_asked(finished_run: Path) -> None:
    together = ask(finished_run, PAIRS)
    apart = pd.concat([ask(finished_run, PAIRS.iloc[[row]]) for row in range(3)], ignore_index=True)
    np.testing.assert_allclose(apart["rating"], together["rating"], atol=1e-6)
    assert apart["client"].tolist() == together["client"].tolist()


def test_a_column_names_the_client(finished_run: Path) -> None:
    names = [shard.name for shard in jobs.load("fedacs", TINY).data.load(1)]
    assert ask(finished_run, PAIRS.assign(client=[2, 0, 1]))["client"].tolist() == [names[2], names[0], names[1]]
    with pytest.raises(InputError, match=r"No client named 'nowhere'"):
        ask(finished_run, PAIRS.assign(client="nowhere"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_and_tables_give_equal_answers(finished_run: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pairs{suffix}"
    PAIRS.to_csv(path, index=False) if suffix == ".csv" else PAIRS.to_parquet(path, index=False)
    pd.testing.assert_frame_equal(ask(finished_run, path), ask(finished_run, PAIRS))


def test_own_data_of_any_size_are_all_known(finished_run: Path, own: pd.DataFrame, tmp_path: Path) -> None:
    asked = pd.DataFrame({"user": ["ann", "ben", "zoe"], "item": ["tea", "cake", "pie"]})
    trust = pd.DataFrame({"user": ["ben", "ben"], "trusts": ["ann", "stranger"]})
    own.to_csv(tmp_path / "own.csv", index=False)
    trust.to_csv(tmp_path / "trust.csv", index=False)
    found = ask(finished_run, asked, tmp_path / "own.csv", tmp_path / "trust.csv")
    assert found["basis"].tolist() == ["known user and item", "known user and item", "user and item new to the client"]
    assert found["client"].tolist() == ["own"] * 3
    assert found["rating"].between(1, 5).all()
    assert found["rating"][0] > found["rating"][1], "ann likes things, ben does not"
    pd.testing.assert_frame_equal(ask(finished_run, asked, own, trust), found)


def test_own_data_are_read_on_the_scale_of_the_run(finished_run: Path, own: pd.DataFrame) -> None:
    # All top marks: on a scale that the ratings themselves span, nothing could be said.
    found = ask(finished_run, pd.DataFrame({"user": ["ann"], "item": ["tea"]}), own.assign(rating=5))
    assert found["rating"][0] > 4.5
    with pytest.raises(InputError, match=r"'rating' must be within 1..5"):
        ask(finished_run, PAIRS, own.assign(rating=[5, 4, 6]))


def test_own_data_have_the_columns_of_the_runs_own_table(tmp_path: Path) -> None:
    rows = np.arange(200)
    table = pd.DataFrame({"who": rows % 17, "what": rows // 9, "stars": rows % 11, "kind": rows % 4})
    table.to_csv(tmp_path / "all.csv", index=False)
    changes = {
        "data.name": "table",
        "data.ratings": str(tmp_path / "all.csv"),
        "data.user": "who",
        "data.item": "what",
        "data.rating": "stars",
        "data.category": "kind",
        "data.low": 0,
        "data.high": 10,
        "data.clients": 2,
        **{key: value for key, value in TINY.items() if not key.startswith("data.")},
    }
    execute(jobs.load("fedacs", changes), tmp_path / "run")
    asked = pd.DataFrame({"user": [3, 99], "item": [4, 4]})
    assert ask(tmp_path / "run", asked)["basis"].tolist() == ["known user and item", "user new to the client"]
    own = pd.DataFrame({"who": [1, 2], "what": [4, 5], "stars": [9, 8]})
    found = ask(tmp_path / "run", asked, own)
    assert found["basis"].tolist() == ["user new to the client", "user new to the client"]
    assert found["rating"].between(5, 10).all(), "on the run's scale of 0..10"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (pd.DataFrame({"user": ["a"]}), "pairs need a column 'item'; got user"),
        (pd.DataFrame({"user": ["a", None], "item": ["b", "c"]}), "pairs, row 2: 'user' is empty"),
        (pd.DataFrame({"user": [], "item": []}), "--pairs has no rows"),
        ("missing.csv", "--pairs: no file missing.csv"),
        ("pairs.xlsx", "--pairs must end in .csv or .parquet"),
    ],
)
def test_questions_that_cannot_be_answered(finished_run: Path, tmp_path: Path, monkeypatch, pairs, message) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.xlsx").write_text("user,item\na,b\n")
    with pytest.raises(InputError, match=message):
        ask(finished_run, pairs)


def test_own_data_that_cannot_be_used(finished_run: Path, own: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    own.drop(columns="item").to_csv(path, index=False)
    with pytest.raises(InputError, match=r"own.csv: no column 'item' \(data.item\)"):
        ask(finished_run, PAIRS, path)
    with pytest.raises(InputError, match=r"--data: no file .*nothing.csv"):
        ask(finished_run, PAIRS, tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"no column 'trusts'"):
        ask(finished_run, PAIRS, own, pd.DataFrame({"user": ["ann"]}))
    with pytest.raises(InputError, match=r"own_trust needs own"):
        ask(finished_run, PAIRS, None, own)


def test_a_folder_that_is_no_finished_run(finished_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run's folder"):
        ask(tmp_path, PAIRS)
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    (copy / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(InputError, match=r"model.safetensors is damaged"):
        ask(copy, PAIRS)
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model.safetensors is missing; finish the run"):
        ask(copy, PAIRS)


def test_a_run_on_cuda_answers_on_the_cpu(finished_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    text = (copy / "experiment.toml").read_text()
    (copy / "experiment.toml").write_text(text.replace('device = "cpu"', 'device = "cuda"'))
    pd.testing.assert_frame_equal(ask(copy, PAIRS), ask(finished_run, PAIRS))


# --- tables by name ---------------------------------------------------------------------------------------------------


def test_own_tables_are_given_in_order_by_keyword_or_by_name(finished_run: Path, own: pd.DataFrame) -> None:
    trust = pd.DataFrame({"user": ["ben"], "trusts": ["ann"]})
    first = ask(finished_run, PAIRS, own, trust)
    asked = {"pairs": PAIRS}
    pd.testing.assert_frame_equal(predict(finished_run, asked, own=own, own_trust=trust), first)
    pd.testing.assert_frame_equal(predict(finished_run, {**asked, "data": own, "trust": trust}), first)
    pd.testing.assert_frame_equal(predict(finished_run, {**asked, "data": None}), ask(finished_run, PAIRS))


@pytest.mark.parametrize(
    ("tables", "own", "keywords", "message"),
    [
        ({"pears": PAIRS}, [], {}, r"--pears is not for task 'rating', which takes --pairs, .* Did you mean 'pairs'\?"),
        ({"data": PAIRS}, [], {}, r"Nothing is asked: give --pairs\."),
        ({"pairs": PAIRS, "trust": PAIRS}, [], {}, "--trust belongs to --data, one client's own data; give both"),
        ({"pairs": PAIRS}, [], {"own_trust": PAIRS}, "own_trust needs own, the table that it belongs to"),
        ({"pairs": PAIRS}, [], {"own_edges": PAIRS}, "own_edges is not for task 'rating', which takes own, own_trust"),
        ({"pairs": PAIRS}, [PAIRS] * 3, {}, "3 tables of one client's own are given; task 'rating' takes 2"),
    ],
)
def test_tables_that_the_run_does_not_know(finished_run: Path, tables, own, keywords, message) -> None:
    with pytest.raises(InputError, match=message):
        predict(finished_run, tables, None, *own, **keywords)


def test_a_data_set_without_abilities_is_asked_in_the_words_of_its_task(
    finished_run: Path, own: pd.DataFrame, tmp_path: Path
) -> None:
    changes = {**TINY, "data.name": "helpers.plain_data:PlainShops", "rounds": 4}
    execute(jobs.load("fedacs", changes), tmp_path / "run")
    PAIRS.to_csv(tmp_path / "pairs.csv", index=False)
    pd.testing.assert_frame_equal(ask(tmp_path / "run", tmp_path / "pairs.csv"), ask(finished_run, PAIRS))
    with pytest.raises(InputError, match=r"^own is not for task 'rating', which takes no table of one client's own\.$"):
        ask(tmp_path / "run", PAIRS, own)
    with pytest.raises(InputError, match=r"^--data is not for task 'rating', which takes --pairs\.$"):
        predict(tmp_path / "run", {"pairs": PAIRS, "data": own})
