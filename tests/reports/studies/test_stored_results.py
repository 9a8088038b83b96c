"""Results of a study in one file: the same, whatever is packed; a kill loses none; damage is one clear error."""

import json
import lzma
import math
from pathlib import Path

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.storage import disk
from fedgraft.reports.studies.study import PACKED, StoredResults, packed, unpacked, write_result

RESULTS = {
    "cells/a-seed1.json": {"test": 0.1 + 0.2, "curve": [[0, None, 1e-17], [1, 5, -0.0]], "client": {"é": 2**70}},
    "cells/b-seed1.json": {"test": 3.0, "validation": 3},
    "baselines/a-seed1.json": {"global_mean": {"rmse": 1 / 3}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study's folder with a file for each of the results."""
    for kind in ("cells", "baselines"):
        (tmp_path / kind).mkdir()
    for name, content in RESULTS.items():
        write_result(tmp_path, name, content)
    return tmp_path


def read(folder: Path) -> dict[str, object]:
    stored = StoredResults(folder)
    return {name: stored.read(name) for name in RESULTS}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


def test_packed_results_are_those_of_the_files_to_the_last_bit(folder):
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in files(folder)}
    assert StoredResults(folder).pack() == 3
    assert files(folder) == []
    assert {name: json.dumps(content) + "\n" for name, content in unpacked(folder / PACKED).items()} == texts
    assert read(folder) == RESULTS
    assert StoredResults(folder).read("cells/none.json") is None


def test_the_same_results_are_the_same_bytes_in_whichever_order_they_came(folder):
    assert packed(RESULTS) == packed(dict(reversed(RESULTS.items())))
    stored = StoredResults(folder)
    stored.pack()
    before = (folder / PACKED).read_bytes()
    assert stored.pack() == 0
    write_result(folder, "cells/b-seed1.json", RESULTS["cells/b-seed1.json"])
    assert stored.pack() == 1
    assert (folder / PACKED).read_bytes() == before


def test_a_file_of_its_own_is_newer_than_the_packed_one_and_joins_it(folder):
    stored = StoredResults(folder)
    stored.pack()
    assert stored.read("cells/b-seed1.json") == RESULTS["cells/b-seed1.json"]
    write_result(folder, "cells/b-seed1.json", {"test": 4.0})
    write_result(folder, "cells/c-seed1.json", {"test": 5.0})
    assert stored.read("cells/b-seed1.json") == {"test": 4.0}
    assert stored.pack() == 2
    assert unpacked(folder / PACKED) == {
        **RESULTS,
        "cells/b-seed1.json": {"test": 4.0},
        "cells/c-seed1.json": {"test": 5.0},
    }


def test_what_another_process_has_packed_in_the_meantime_is_kept(folder):
    mine, other = StoredResults(folder), StoredResults(folder)
    mine.pack()
    mine.read("cells/c-seed1.json")  # has read the packed file
    write_result(folder, "cells/c-seed1.json", {"test": 5.0})
    other.pack()
    write_result(folder, "cells/d-seed1.json", {"test": 6.0})
    mine.pack()
    assert sorted(unpacked(folder / PACKED)) == sorted([*RESULTS, "cells/c-seed1.json", "cells/d-seed1.json"])


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("kept", [0, 1, 2], ids=["no file gone", "one gone", "two gone"])
def test_a_kill_while_files_are_taken_away_loses_nothing(folder, monkeypatch, earlier, kept):
    if earlier:
        StoredResults(folder).pack()
        write_result(folder, "cells/b-seed1.json", RESULTS["cells/b-seed1.json"])
        write_result(folder, "cells/a-seed1.json", RESULTS["cells/a-seed1.json"])
    gone, unlink = [], Path.unlink

    def killed(path, missing_ok=False):
        if path.suffix == ".json" and len(gone) == min(kept, 1 if earlier else 2):
            raise KeyboardInterrupt
        gone.append(path) if path.suffix == ".json" else None
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            StoredResults(folder).pack()
    assert read(folder) == RESULTS
    StoredResults(folder).pack()
    assert read(folder) == RESULTS
    assert files(folder) == []


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("renamed", [False, True], ids=["before the rename", "after the rename"])
def test_a_kill_while_the_packed_file_is_written_loses_nothing(folder, monkeypatch, earlier, renamed):
    if earlier:
        StoredResults(folder).pack()
        write_result(folder, "cells/b-seed1.json", RESULTS["cells/b-seed1.json"])
    replace = disk.replace

    def killed(folder, contents, mode=0o666):
        if renamed:
            replace(folder, contents, mode)
        else:
            disk.write(folder / (PACKED + disk.NEW), contents[PACKED][:20])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(disk, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            StoredResults(folder).pack()
    assert read(folder) == RESULTS
    StoredResults(folder).pack()
    assert read(folder) == RESULTS
    assert sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != ".lock") == [PACKED]


def test_not_a_number_stays_so(folder):
    write_result(folder, "cells/b-seed1.json", {"test": math.nan})
    StoredResults(folder).pack()
    assert math.isnan(StoredResults(folder).read("cells/b-seed1.json")["test"])


WHOLE = packed(RESULTS)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        WHOLE[:-1],
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:],
        b'{"file": "cells/a-seed1.json", "content": {}}\n',
        lzma.compress(b"no JSON\n"),
        lzma.compress(b"\xff\n"),
        lzma.compress(b"[1]\n"),
        lzma.compress(b'{"file": "cells/a-seed1.json"}\n'),
        lzma.compress(b'{"file": "cells/a-seed1.json", "content": 1}\n'),
    ],
    ids=["empty", "last byte gone", "half", "a bit", "not packed", "no JSON", "no text", "list", "no content", "1"],
)
def test_a_damaged_packed_file_is_one_error_that_names_it(folder, damaged):
    (folder / PACKED).write_bytes(damaged)
    said = rf"{PACKED} is damaged \(.*\): restore it, or remove it, and its cells are run again\.$"
    with pytest.raises(InputError, match=said):
        StoredResults(folder).read("cells/none.json")
    with pytest.raises(InputError, match=said):
        StoredResults(folder).pack()
    assert len(files(folder)) == 3  # and nothing was taken away
    assert (folder / PACKED).read_bytes() == damaged


def test_a_damaged_file_of_its_own_is_named_too_and_nothing_is_packed(folder):
    (folder / "cells" / "b-seed1.json").write_text("{")
    with pytest.raises(InputError, match=r"b-seed1\.json is damaged"):
        StoredResults(folder).pack()
    assert len(files(folder)) == 3
    assert not (folder / PACKED).exists()
