"""A study of a user's own, from the page that documents it."""

import re
from pathlib import Path

import pytest

from fedgraft.errors import InputError
from fedgraft.reports.studies import study_files
from fedgraft.reports.studies.study import StoredResults, load, write_result

PAGE = (Path(__file__).parents[2] / "docs" / "study.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.mark.slow
def test_the_page_s_example_runs_and_goes_on_where_it_stopped(fedgraft) -> None:
    Path("my.toml").write_text(EXAMPLE)
    done = fedgraft("study", "my.toml", "--seeds", 1, "--jobs", 1, "--match", "shops-3-*", "--json")
    assert (done.code, done.json()["study"]) == (0, "my")
    cells = ["shops-3-random-seed1", "shops-3-oort-seed1"]
    assert list(done.json()["cells"]) == cells
    assert sorted(path.stem for path in Path("studies/my/cells").iterdir()) == sorted(cells)
    again = fedgraft("study", "my.toml", "--seeds", 1, "--jobs", 1, "--match", "shops-3-*", "--page", "my.md")
    assert "2 of 2 cells are done; 0 to run" in again.err
    page = Path("my.md").read_bytes()
    assert b"| oort |" in page
    asked = ("study", "my.toml", "--seeds", 1, "--jobs", 1, "--page", "my.md")
    packed = fedgraft(*asked, "--match", "shops-3-*", "--pack")
    assert "3 results are now in studies/my/results.jsonl.xz." in packed.err
    assert [path.name for path in Path("studies/my").rglob("*.*") if path.name != ".lock"] == ["results.jsonl.xz"]
    again = fedgraft(*asked, "--match", "shops-3-*")
    assert "2 of 2 cells are done; 0 to run" in again.err
    assert Path("my.md").read_bytes() == page
    folder, name = Path("studies/my"), f"cells/{cells[0]}.json"
    write_result(folder, name, StoredResults(folder).read(name))  # as a run of the cell does: it joins
    assert "1 results are now in studies/my/results.jsonl.xz." in fedgraft(*asked, "--match", "shops-3-*").err
    assert not list(Path("studies/my/cells").iterdir())
    Path("studies/my/results.jsonl.xz").write_bytes(b"half")
    broken = fedgraft(*asked)
    assert broken.code == 2
    assert broken.err.count("\n") == 1
    assert "studies/my/results.jsonl.xz is damaged" in broken.err


def test_every_key_is_on_the_page() -> None:
    assert not [key for key in (*study_files.KEYS, *study_files.LAYOUTS) if key not in PAGE]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reference =", "referenc =", r"my\.toml: No key named 'referenc'\. Did you mean 'reference'\?"),
        (
            'reference = "random"',
            'reference = "rando"',
            r"my\.toml: No method for reference named 'rando'\. Did you me",
        ),
        ('reference = "random"', 'layout = "pair"', r"my\.toml: reference must be given\."),
        ('title = "Two', 'layout = "pair"\ntitle = "Two', r"my\.toml: layout must be one of .*Did you mean 'paired'\?"),
        (
            'data = ["shops"]',
            'data = ["shops"]\nfirst_seed = 0',
            "first_seed of a panel must be a whole number of at least 1; got 0",
        ),
        ('data = ["shops"]', 'data = "shops"', r"my\.toml: data of a panel must be a list; got 'shops'\."),
        ("clients = [3, 4]", 'runs = [["gat", "ort"]]', r"my\.toml: No method named 'ort'\. Did you mean 'oort'\?"),
        ("[[panels]]", "[panels]", r"my\.toml: panels must be tables \[\[panels\]\]"),
        ('title = "Two', "title = Two", r"my\.toml is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_study_is_one_line(tmp_path, old: str, new: str, said: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(EXAMPLE.replace(old, new))
    with pytest.raises(InputError, match=said):
        load(str(path))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("tuned = { seeds = [1, 2.5] }", r"tuned\.seeds must be whole numbers of at least 1; got 2\.5\."),
        ("tuned = { seeds = [0] }", r"tuned\.seeds must be whole numbers of at least 1; got 0\."),
        ("tuned = { seeds = [true] }", r"tuned\.seeds must be whole numbers of at least 1; got True\."),
        ("tuned = { seeds = 1 }", r"tuned\.seeds must be a list; got 1\."),
        ('tuned = { sets = ["shop"] }', r"No set in tuned\.sets named 'shop'\. Did you mean 'shops'\? Known: shops\."),
        ("tuned = { seed = [1] }", r"No key of tuned named 'seed'\. Did you mean 'seeds'\?"),
        ("tuned = [1]", r"key of tuned: expected a table; got \[1\]\."),
        ("target = { }", r"target must be a table with either below or share; got \{\}\."),
        ("target = { below = 1, share = 0.5 }", r"target must be a table with either below or share; got \{"),
        ("target = { below = -1 }", r"target\.below must be >= 0 and finite, in points; got -1\."),
        ("target = { below = inf }", r"target\.below must be >= 0 and finite, in points; got inf\."),
        ('target = { share = "1" }', r"target\.share must be in \(0, 1\]; got '1'\."),
        ("target = { share = 1.5 }", r"target\.share must be in \(0, 1\]; got 1\.5\."),
        (
            'target = { reference = "al", below = 1 }',
            r"No method for target\.reference named 'al'\..* Known: oort, random\.",
        ),
        ('controls = "oort"', r"controls must be a list of methods; got 'oort'\."),
        ('controls = ["ort"]', r"No method in controls named 'ort'\. Did you mean 'oort'\?"),
    ],
)
def test_what_is_wrong_with_a_study_s_design_is_one_line(tmp_path, keys: str, said: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(f'layout = "paired"\n{keys}\n{EXAMPLE}')
    with pytest.raises(InputError, match=rf"my\.toml: {said}") as raised:
        load(str(path))
    assert "\n" not in str(raised.value)


def test_a_study_s_design_is_read_and_is_of_tables_that_tell_it(tmp_path) -> None:
    path, keys = tmp_path / "my.toml", 'tuned = { seeds = [1], sets = ["shops"] }\ntarget = { share = 0.9 }\n'
    path.write_text(f'layout = "paired"\n{keys}{EXAMPLE}')
    assert load(str(path)).tuned == {"seeds": [1], "sets": ["shops"]}
    assert load(str(path)).target == {"share": 0.9}
    path.write_text(f'layout = "selectors"\n{keys}{EXAMPLE}')
    with pytest.raises(InputError, match=r"layout must be one of paired, .* where tuned is given; got 'selectors'\."):
        load(str(path))
    path.write_text(f'layout = "targets"\n{EXAMPLE}')
    with pytest.raises(InputError, match=r"target must be given where layout is 'targets'; got 'no target'\."):
        load(str(path))


def test_a_study_that_reads_data_needs_their_folder(fedgraft) -> None:
    done = fedgraft("study", "fedacs")
    assert done.code == 2
    assert "--data DIR must be given, the folder that holds the folders of ciao, epinions." in done.err
    assert "No study file gone.toml." in fedgraft("study", "gone.toml").err
