"""Epinions: product ratings and trust links of a review site, partitioned by product category."""

from dataclasses import dataclass

from fedgraft.domains.ratings.mat_files import ReviewSite


@dataclass(frozen=True)
class Epinions(ReviewSite):
    """Epinions: product ratings (1..5) and trust links of a review site; a client is a shop with whole categories.

    Source: J. Tang, H. Gao, H. Liu, "mTrust", WSDM 2012; partition of Xu et al., "FedACS", IEEE TMC 2025, sec. VI-A.
    rating.mat holds user, product, category, rating. For research; the collector asks for a citation and states no
    licence, so fedgraft does not ship it.
    Differs: repeats of a pair (user, item) and of trust links are left out (rules: `fedgraft.domains.ratings.shards`).

    STATS             as in the files   published subset   after our rules
    users                    22,164             18,069            18,069
    items                   296,277            261,246           261,246
    categories                   27                 27                27
    ratings                 922,267            762,938           754,939
    trust links             355,754            355,530           355,503

    Args:
        root: folder that holds rating.mat and trustnetwork.mat, and category.txt for the categories' names.
        clients: number of clients, 1..categories; FedACS uses 5, 10 and 20.
        partition: "average", "skewed" or "extreme", how unequally categories are dealt.
    """
