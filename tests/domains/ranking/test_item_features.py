"""Features of items: from texts, files, and encoders that tests stand in for."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from fedgraft.domains.ranking.item_features import Items, make_features, sources_of, text_features
from fedgraft.errors import InputError

TEXTS = ("space horror alien", "space comedy", "romance comedy", "romance drama", "", "horror alien drama")
ITEMS = Items(np.array(list("abcdef")), TEXTS, np.arange(6), 6, "items.csv")


def made(features: str | Mapping[str, str], items: Items = ITEMS, images: object = None, width: int = 4) -> dict:
    return make_features("Data", sources_of("Data", features, images, width), items, images, width)


def test_texts_that_share_words_are_near_and_rows_have_one_length() -> None:
    rows = text_features(TEXTS, 4)
    assert (rows.shape, rows.dtype) == ((6, 4), np.float32)
    assert rows[4].tolist() == [0] * 4, "nothing is known of it"
    told = np.delete(rows, 4, axis=0)
    assert (told**2).mean(axis=1) == pytest.approx(1, abs=0.01)
    assert rows[0] @ rows[5] > rows[0] @ rows[3]
    assert np.array_equal(rows, text_features(TEXTS, 4))


def test_genres_with_dashes_and_apostrophes_are_words() -> None:
    sci_fi, children = "Sci-Fi.", "Children's."
    rows = text_features([sci_fi, sci_fi, children, children], 8)
    assert rows.shape == (4, 2), "two words, no more"
    assert rows[0] @ rows[2] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("texts", [["", ""], ["one", "two"]])
def test_texts_without_a_common_word_tell_nothing(texts: list[str]) -> None:
    assert text_features(texts, 4).tolist() == [[0], [0]]


def test_files_are_aligned_with_the_list_and_stay_as_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "poster.npy", np.arange(12, dtype=np.float64).reshape(4, 3))
    some = Items(np.array(["a", "b"]), ["", ""], np.array([3, 1]), 4, "u.item")
    found = made({"image": str(tmp_path / "poster.npy")}, some)
    assert found["image"].tolist() == [[9, 10, 11], [3, 4, 5]]
    assert found["image"].dtype == np.float32
    assert list(made(str(tmp_path / "poster.npy"), some)) == ["poster"], "named after its file"
    assert made("none", some) == {}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((5, 3)), r"Data.features: .*x\.npy has 5 rows, but items\.csv has 6 items"),
        (np.zeros(6), r"x\.npy must be numbers of shape \[items, width\]; got float64 \[6\]"),
        (np.zeros((6, 0)), r"got float64 \[6, 0\]"),
        (np.full((6, 1), "x"), r"must be numbers of shape \[items, width\]; got <U1 \[6, 1\]"),
        (np.array([[0.0]] * 3 + [[np.nan]] * 3), r"row 4 \(item 'd'\) must be finite numbers \(3 such rows\)"),
        (np.full((6, 1), 1e300), r"row 1 \(item 'a'\) must be finite numbers \(6 such rows\)"),
        (np.array([[object()]] * 6), r"x\.npy is not a readable \.npy file of numbers"),
    ],
)
def test_wrong_files(tmp_path: Path, rows: np.ndarray, message: str) -> None:
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(InputError, match=message):
        made(str(tmp_path / "x.npy"))


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Data.features: no file .*x\.npy"):
        made(str(tmp_path / "x.npy"))
    (tmp_path / "x.npy").write_text("rows")
    with pytest.raises(InputError, match=r"x\.npy is not a readable \.npy file"):
        made(str(tmp_path / "x.npy"))


class Sentences:
    """Stands in for an encoder of texts."""

    def __init__(self, name: str, device: str) -> None:
        if name == "nobody":
            raise OSError("nobody is not a model")

    def encode(self, texts: list[str], batch_size: int, convert_to_numpy: bool, show_progress_bar: bool) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def test_an_encoder_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = Sentences  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    rows = made("sentence-transformers:mini")["text"]
    assert (rows**2).mean(axis=1) == pytest.approx(1, abs=0.01)
    assert rows[0, 0] / rows[0, 1] == pytest.approx(len(TEXTS[0]), rel=0.02)
    with pytest.raises(InputError, match="'sentence-transformers:nobody': no such encoder can be loaded"):
        made("sentence-transformers:nobody")


class Pixels(torch.nn.Module):
    """Stands in for an encoder of images."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of images, each the name of a colour, and libraries that read them."""
    for name in "abcdef":
        (tmp_path / f"{name}.JPG").write_bytes(bytes([ord(name), 1, 2]))

    def opened(path: Path):
        if not (data := path.read_bytes()):
            raise OSError("no image")
        return _Opened(data)

    timm = ModuleType("timm")
    timm.create_model = lambda name, pretrained, num_classes: Pixels()  # type: ignore[attr-defined]
    timm.data = SimpleNamespace(  # type: ignore[attr-defined]
        resolve_model_data_config=lambda model: {},
        create_transform=lambda is_training: lambda data: torch.tensor(list(data), dtype=torch.float32)[:, None, None],
    )
    pil = ModuleType("PIL.Image")
    pil.open = opened  # type: ignore[attr-defined]
    for name, module in (("timm", timm), ("PIL", ModuleType("PIL")), ("PIL.Image", pil)):
        monkeypatch.setitem(sys.modules, name, module)
    return tmp_path


class _Opened:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def convert(self, mode: str) -> bytes:
        assert mode == "RGB"
        return self.data


def test_an_encoder_of_images(images: Path) -> None:
    rows = made("timm:vit", images=images)["image"]
    assert rows.shape == (6, 3)
    assert rows[:, 0] / rows[:, 1] == pytest.approx([ord(name) for name in "abcdef"], rel=0.1)
    (images / "c.JPG").write_bytes(b"")
    with pytest.raises(InputError, match=r"Data.images: .*c\.JPG is not a readable image"):
        made("timm:vit", images=images)
    (images / "c.JPG").unlink()
    with pytest.raises(InputError, match=r"Data.images: item 'c' has no image in .* \(1 such items\); a file c\.jpg"):
        made("timm:vit", images=images)
    with pytest.raises(InputError, match=r"Data\.images: no folder"):
        made("timm:vit", images=images / "none")


@pytest.mark.parametrize("source", ["sentence-transformers:mini", "timm:vit"])
def test_a_library_that_is_not_installed(source: str, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sentence_transformers", "timm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"needs a library that cannot be imported .* 'fedgraft\[features\]'"):
        made(source, images=images)
