"""The TU graph-classification sets: their groups, settings and names."""

GROUPS = {
    "chem": ("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1"),
    "bio": ("ENZYMES", "DD", "PROTEINS"),
    "sn": ("COLLAB", "IMDB-BINARY", "IMDB-MULTI"),
    "cv": ("Letter-low", "Letter-high", "Letter-med"),
}
SETTINGS = {
    name: tuple(each for group in groups for each in GROUPS[group])
    for name, groups in {
        **{group: (group,) for group in GROUPS},
        "sn_cv": ("sn", "cv"),
        "chem_bio": ("chem", "bio"),
        "chem_bio_sn": ("chem", "bio", "sn"),
        "bio_sn_cv": ("bio", "sn", "cv"),
        "all": ("chem", "bio", "sn", "cv"),
    }.items()
}
"""The sets of each group and of the six settings of CEFGL, in its order: one client per set."""
SETS = {name.lower().replace("-", "_"): name for name in SETTINGS["all"]}
"""The sets by the names that recipes use."""
NUMBERED = {name.lower(): name for name in ("alchemy_full", "QM9", "ZINC_full")}
"""Sets whose graphs have numbers (NAME_graph_attributes.txt) and no classes, by the names that recipes use."""
