"""What is known of items as rows of numbers, a table per modality: from texts, images or files.

Made from the catalogue, which every client knows, so that all have the same rows. Rows that are made here are brought
to length sqrt(width), so that their entries have mean square 1; rows of files stay as they are.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.domains.ranking.shards import Ids
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.wire.layouts import Array

Rows = NDArray[np.float32]

ENCODERS = {"sentence-transformers": "text", "timm": "image"}
"""Libraries of encoders, and the modality that they make."""
IMAGES = (".jpg", ".jpeg", ".png", ".webp")
"""Suffixes of image files."""
BATCH = 64
"""Texts or images encoded at a time."""
WORDS = r"(?u)\b\w[\w'-]*\b"
"""What counts as a word: letters and digits, with dashes and apostrophes inside: Sci-Fi, children's."""
GRID = 1024.0
"""Rows are rounded to multiples of 1 / GRID: other processors sum in another order, and runs compare their data."""


@dataclass(frozen=True, eq=False)
class Items:
    """The items that features are wanted of: original ids, str [items], and what is told of each, "" for nothing.

    `place` is int64 [items], each one's row in files of features, which must have as many rows as are `listed`. Errors
    call these rows by `where`, such as "u.item".
    """

    ids: Array
    texts: Sequence[str]
    place: Ids
    listed: int
    where: str


def sources_of(owner: str, features: str | Mapping[str, str], images: object, width: int) -> dict[str, str]:
    """Return {modality: where its rows come from} of the option `features`; paths are made absolute.

    The option is "none", one source, or a table of them by modality. A source is "text", "sentence-transformers:NAME",
    "timm:NAME" or the path of a .npy file, which names its modality where there is no table. Features from texts have
    `width` columns. Errors call the data set `owner`.
    """
    require(width >= 1, f"{owner}.width", ">= 1", width)
    if features == "none":
        return {}
    table = {_modality(features): features} if isinstance(features, str) else dict(features)
    sources = {}
    for modality, source in table.items():
        library, _, name = source.partition(":")
        if not (source == "text" or source.endswith(".npy") or (library in ENCODERS and name)):
            none = ("none",) if isinstance(features, str) else ()
            known = ("text", *none, *(f"{each}:NAME" for each in ENCODERS), "a path that ends in .npy")
            require_one_of(f"{owner}.features", source, [each for each in known if each != source])
        if library == "timm":
            require(images is not None, f"{owner}.images", f"the folder of images that {source!r} is to encode", images)
        sources[modality] = str(Path(source).resolve()) if source.endswith(".npy") else source
    return sources


def make_features(owner: str, sources: Mapping[str, str], items: Items, images: object, width: int) -> dict[str, Rows]:
    """Return {modality: float32 [items, width of that modality]} of sources, as `sources_of` returns them.

    The folder of images has one per item, named by its id. `width` is that of features from texts; fewer where there
    are not so many words. Errors call the data set `owner`.
    """
    made = {}
    for modality, source in sources.items():
        library, _, name = source.partition(":")
        if source.endswith(".npy"):
            made[modality] = read_rows(Path(source), f"{owner}.features", items)
        elif library == "sentence-transformers":
            made[modality] = _scaled(_encoded_texts(owner, name, items.texts))
        elif library == "timm":
            files = _image_files(f"{owner}.images", Path(str(images)), items)
            made[modality] = _scaled(_encoded_images(owner, name, files))
        else:
            made[modality] = text_features(items.texts, width)
    return made


def text_features(texts: Sequence[str], width: int) -> Rows:
    """Return TF-IDF of words, reduced by a truncated SVD, float32 [texts, at most width]; equal texts, equal bits.

    Term frequencies are 1 + ln; the signs of the SVD are fixed by its largest entries. A text without a word has a row
    of zeros, and so has every text where no word is in two of them.
    """
    from sklearn.decomposition import TruncatedSVD  # takes a second, which only those who want it should wait for
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    try:
        words = TfidfVectorizer(token_pattern=WORDS, sublinear_tf=True, min_df=2).fit_transform(texts)
    except ValueError:  # scikit-learn's word for a vocabulary of nothing
        return np.zeros((len(texts), 1), np.float32)
    if words.shape[1] == 1:  # nothing to reduce
        return _scaled(words.toarray())
    columns = min(width, *words.shape)
    with (
        threadpool_limits(1),
        np.errstate(divide="ignore", invalid="ignore"),
    ):  # so that sums are in one order; texts may be alike
        rows = TruncatedSVD(columns, algorithm="randomized", n_iter=7, random_state=0).fit_transform(words)
    return _scaled(rows)


def on_grid(rows: NDArray[np.float64]) -> Rows:
    """Return rows rounded to multiples of 1 / GRID, float32."""
    return (np.rint(GRID * rows) / GRID).astype(np.float32)


def read_rows(path: Path, parameter: str, items: Items) -> Rows:
    """Read the rows of a .npy file, one for each item that is listed; return those of the items, float32."""
    if not path.is_file():
        raise InputError(f"{parameter}: no file {path}.")
    try:
        rows: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{parameter}: {path} is not a readable .npy file of numbers ({error}).") from error
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "iuf" or not rows.shape[1]:
        got = f"{rows.dtype} {list(rows.shape)}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise InputError(f"{parameter}: {path} must be numbers of shape [items, width]; got {got}.")
    if len(rows) != items.listed:
        raise InputError(f"{parameter}: {path} has {len(rows):,} rows, but {items.where} has {items.listed:,} items.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is told
        own: Rows = rows[items.place].astype(np.float32)
    if len(broken := np.flatnonzero(~np.isfinite(own).all(axis=1))):
        raise InputError(
            f"{parameter}: {path}, row {items.place[broken[0]] + 1} (item {str(items.ids[broken[0]])!r}) must be "
            f"finite numbers ({len(broken)} such rows)."
        )
    return own


def _modality(source: str) -> str:
    return Path(source).stem if source.endswith(".npy") else ENCODERS.get(source.partition(":")[0], "text")


def _scaled(rows: NDArray[Any]) -> Rows:
    """Return rows brought to length sqrt(width), on the grid; rows of zeros stay."""
    rows = rows.astype(np.float64)
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-9)
    return on_grid(np.sqrt(rows.shape[1]) * unit)


def _encoded_texts(owner: str, name: str, texts: Sequence[str]) -> NDArray[Any]:
    library = _library(owner, "sentence_transformers", f"sentence-transformers:{name}")
    encoder = _loaded(owner, f"sentence-transformers:{name}", lambda: library.SentenceTransformer(name, device="cpu"))
    encoded = encoder.encode(list(texts), batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(encoded)


def _encoded_images(owner: str, name: str, files: Sequence[Path]) -> NDArray[Any]:
    import torch

    timm, pil = (_library(owner, module, f"timm:{name}") for module in ("timm", "PIL.Image"))
    encoder = _loaded(owner, f"timm:{name}", lambda: timm.create_model(name, pretrained=True, num_classes=0)).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(encoder), is_training=False)
    rows = []
    for start in range(0, len(files), BATCH):
        batch = []
        for file in files[start : start + BATCH]:
            try:
                with pil.open(file) as image:
                    batch.append(transform(image.convert("RGB")))
            except OSError as error:
                raise InputError(f"{owner}.images: {file} is not a readable image ({error}).") from error
        with torch.no_grad():
            rows.append(encoder(torch.stack(batch)).numpy())
    return np.concatenate(rows)


def _image_files(parameter: str, folder: Path, items: Items) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{parameter}: no folder {folder}; it must hold an image per item, named by the item's id.")
    by_id = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in IMAGES}
    lacking = [name for name in items.ids.tolist() if name not in by_id]
    if lacking:
        raise InputError(
            f"{parameter}: item {lacking[0]!r} has no image in {folder} ({len(lacking)} such items); a file "
            f"{lacking[0]}{IMAGES[0]} is needed."
        )
    return [by_id[name] for name in items.ids.tolist()]


def _library(owner: str, module: str, source: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # a library that does not fit another one says so with an error of any type
        raise InputError(
            f"{owner}.features = {source!r} needs a library that cannot be imported ({error}): "
            "install it with pip install 'fedgraft[features]'."
        ) from error


def _loaded(owner: str, source: str, load: Any) -> Any:
    """Return an encoder; its libraries have many ways to say that there is none of that name, or no connection."""
    try:
        return load()
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{owner}.features = {source!r}: no such encoder can be loaded ({reason}).") from error
