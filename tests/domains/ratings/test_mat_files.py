from pathlib import Path

import numpy as np
import pytest
import scipy.io

from fedgraft.domains.ratings.mat_files import ADDRESS, published_subset, read_mat, to_ratings
from fedgraft.errors import InputError

# user, product, category, rating, helpfulness; user 4 trusts only itself
RATINGS = [(1, 10, 1, 5, 0), (2, 10, 2, 0, 0), (2, 30, 1, 3, 0), (4, 40, 1, 4, 0), (1, 10, 1, 2, 0)]
TRUST = [(1, 2), (4, 4), (2, 3), (1, 2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scipy.io.savemat(tmp_path / "rating.mat", {"rating": np.array(RATINGS, np.int32)})
    scipy.io.savemat(tmp_path / "trustnetwork.mat", {"trustnetwork": np.array(TRUST, np.uint16)})
    return tmp_path


def test_worked_example(folder: Path) -> None:
    (folder / "category.txt").write_text("1 DVDs\n2 Food & Drink\n")
    subset = published_subset(read_mat(folder, "Ciao"))
    assert subset.user.tolist() == [1, 2, 2, 1], "user 4 is left out with its self link; repeats stay"
    assert subset.trust.tolist() == [[1, 2], [2, 3], [1, 2]]
    ratings = to_ratings(subset)
    assert ratings.user_ids is not None
    assert ratings.user_ids.tolist() == [1, 2, 3], "user 3 has no rating and is one all the same"
    assert ratings.item_ids is not None
    assert ratings.item_ids.tolist() == [10, 30]
    assert ratings.rating.tolist() == [3.0, 2.0], "the 0 goes, and the first of two ratings of item 10 by user 1"
    assert ratings.trust.tolist() == [[0, 1], [1, 2]]
    assert ratings.category_names == ("DVDs", "Food & Drink")
    assert [note.split()[0] for note in ratings.notes] == ["1", "1", "1"]


def test_categories_without_names_are_numbered(folder: Path) -> None:
    assert to_ratings(published_subset(read_mat(folder, "Ciao"))).category_names == ("category 1", "category 2")


def test_missing_file_says_where_to_get_it(folder: Path) -> None:
    (folder / "trustnetwork.mat").unlink()
    with pytest.raises(InputError) as caught:
        read_mat(folder, "Epinions")
    message = str(caught.value)
    assert all(part in message for part in ("trustnetwork.mat", "Epinions.root", "data.root", ADDRESS))


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0 MAT-file", b"\x00" * 300])
def test_broken_file(folder: Path, content: bytes) -> None:
    (folder / "rating.mat").write_bytes(content)
    with pytest.raises(InputError, match=r"Ciao: .*rating\.mat is not a readable MATLAB file"):
        read_mat(folder, "Ciao")


def test_truncated_file(folder: Path) -> None:
    whole = (folder / "rating.mat").read_bytes()
    (folder / "rating.mat").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"rating\.mat is not a readable MATLAB file"):
        read_mat(folder, "Ciao")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"ratings": np.ones((2, 4))}, r"rating\.mat must hold a matrix 'rating'; it holds ratings"),
        ({"rating": np.ones((2, 3))}, r"must be numbers of shape \[rows, 4 or more\]; got float64 \[2, 3\]"),
        ({"rating": np.array(["text"])}, r"must be numbers of shape"),
    ],
)
def test_wrong_content(folder: Path, content: dict[str, object], message: str) -> None:
    scipy.io.savemat(folder / "rating.mat", content)
    with pytest.raises(InputError, match=message):
        read_mat(folder, "Ciao")


def test_category_names_need_numbers(folder: Path) -> None:
    (folder / "category.txt").write_text("1 DVDs\nBooks\n")
    with pytest.raises(InputError, match=r"category\.txt, line 2 must start with a category's number; got 'Books'"):
        read_mat(folder, "Ciao")
