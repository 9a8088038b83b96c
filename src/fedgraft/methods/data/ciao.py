"""Ciao: product ratings and trust links of a review site, partitioned by product category."""

from dataclasses import dataclass

from fedgraft.domains.ratings.mat_files import ReviewSite


@dataclass(frozen=True)
class Ciao(ReviewSite):
    """Ciao: product ratings (1..5) and trust links of a review site; a client is a shop with whole categories.

    Source: J. Tang, H. Gao, H. Liu, "mTrust", WSDM 2012; partition of Xu et al., "FedACS", IEEE TMC 2025, sec. VI-A.
    rating.mat holds user, product, category, rating, helpfulness (not used). For research; the collector asks for a
    citation and states no licence, so fedgraft does not ship it.
    Differs: 34 ratings of 0 and repeats of a pair (user, item) are left out (rules: `fedgraft.domains.ratings.shards`).

    STATS             as in the files   published subset   after our rules
    users                     7,375              7,317             7,317
    items                   105,114            104,975           104,975
    categories                   28                 28                28
    ratings                 284,086            283,320           281,867
    trust links             111,781            111,781           111,781

    Args:
        root: folder that holds rating.mat and trustnetwork.mat, and category.txt for the categories' names.
        clients: number of clients, 1..categories; FedACS uses 5, 10 and 20.
        partition: "average", "skewed" or "extreme", how unequally categories are dealt.
    """
