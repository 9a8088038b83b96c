"""How recipes stand to each other: which are equal within the spread of their paired seeds."""

from collections.abc import Mapping
from statistics import mean, stdev


def equal(best: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Return whether two recipes' scores, {seed: score}, differ by no more than one standard error, seed by seed.

    That is the one-standard-error rule of Breiman et al. (1984, section 3.4.3): what is no further behind the best
    than its spread counts as good, and the cheapest is taken. Fewer than two common seeds tell nothing.

    >>> equal({1: 0.80, 2: 0.84, 3: 0.82}, {1: 0.81, 2: 0.82, 3: 0.82})
    True
    >>> equal({1: 0.80, 2: 0.84, 3: 0.82}, {1: 0.70, 2: 0.75, 3: 0.71})
    False
    """
    common = sorted(best.keys() & other.keys())
    if len(common) < 2:
        return False
    differences = [best[seed] - other[seed] for seed in common]
    return bool(abs(mean(differences)) <= stdev(differences) / len(common) ** 0.5)
