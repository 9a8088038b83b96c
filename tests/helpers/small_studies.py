"""A study of costs with two methods."""

from fedgraft.reports.studies.study import Study

STUDY = Study(
    name="toy",
    title="Toy",
    recipe="fedavg",
    reference="plain",
    also="careful",
    layout="targets",
    target={"below": 2.0},
    common={},
    methods={"ours": {"label": "Ours"}, "plain": {"label": "Plain"}, "careful": {"label": "Careful"}},
    panels=(
        {
            "title": "One",
            "data": ["toy"],
            "partitions": ["iid"],
            "clients": [4],
            "runs": [["sage", "ours"], ["sage", "plain"], ["sage", "careful"]],
            "baselines": [],
            "paper": {"toy-iid-4": {"sage-ours": 81.5}},
        },
    ),
)


def run(*points, test=0.8):
    """A run with points (round, MB, validation, GFLOP)."""
    last = points[-1]
    return {
        "test_at_best_validation": test,
        "bytes": {"total": last[1] * 1e6},
        "flops": last[3] * 1e9,
        "curve": [[number, size * 1e6, score, score - 0.01, flops * 1e9] for number, size, score, flops in points],
    }


PLAIN = [
    run((0, 0, 0.5, 0), (2, 100, 0.80, 10), (4, 200, 0.90, 20)),
    run((0, 0, 0.5, 0), (2, 100, 0.84, 10), (4, 200, 0.86, 20)),
]


OURS = [run((0, 0, 0.5, 0), (2, 5, 0.70, 1), (4, 10, 0.88, 2), test=0.82)]
