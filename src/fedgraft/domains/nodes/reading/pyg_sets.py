"""The published graphs whose nodes are classified: their names, files, and where these are."""

from dataclasses import dataclass

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
"""Files of a Planetoid set, as ind.pubmed.x."""


@dataclass(frozen=True)
class Published:
    """The source of a published set, whose title is its folder's name in the root, too.

    `files` are names of its raw files at the address; none where a data set of PyG or OGB, `loader`, downloads them.
    """

    title: str
    address: str
    files: tuple[str, ...] = ()
    loader: str = ""


def _planetoid(title: str) -> Published:
    return Published(title, PLANETOID, tuple(f"ind.{title.lower()}.{part}" for part in PARTS))


SETS = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "coauthor_cs": Published("CS", BENCHMARK, ("ms_academic_cs.npz",)),
    "coauthor_physics": Published("Physics", BENCHMARK, ("ms_academic_phy.npz",)),
    "amazon_photo": Published("Photo", BENCHMARK, ("amazon_electronics_photo.npz",)),
    "amazon_computers": Published("Computers", BENCHMARK, ("amazon_electronics_computers.npz",)),
    "reddit": Published("Reddit", "https://data.dgl.ai/dataset/reddit.zip", loader="Reddit"),
    "yelp_reviews": Published("Yelp", "https://github.com/GraphSAINT/GraphSAINT", loader="Yelp"),
    "flickr": Published("Flickr", "https://github.com/GraphSAINT/GraphSAINT", loader="Flickr"),
    "ogbn_products": Published("ogbn-products", "https://ogb.stanford.edu/docs/nodeprop", loader="ogbn-products"),
    "ogbn_arxiv": Published("ogbn-arxiv", "https://ogb.stanford.edu/docs/nodeprop", loader="ogbn-arxiv"),
}
"""The sets by the names that recipes use."""
