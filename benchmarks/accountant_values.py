"""Write what dp-accounting says of a grid of mechanisms: what fedgraft's accountant is tested against.

python -m venv other && other/bin/pip install dp-accounting==0.6.0
other/bin/python benchmarks/accountant_values.py        # ten minutes; writes tests/secrets/accountant_values.json

In an environment of its own: dp-accounting needs attrs below 24, what fedgraft is tested with is newer.
"""

import json
import math
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

TABLE = Path(__file__).resolve().parents[1] / "tests" / "secrets" / "accountant_values.json"
NOISES, SHARES, ROUNDS, DELTAS = (0.7, 1.0, 2.0, 5.0), (0.005, 0.05, 0.3, 1.0), (1, 100, 2000), (1e-5, 1e-8)
MIXED = (
    {"released": [[1.0, 60, 0.1], [20.0, 10, 1.0]], "answered": [[1.0, 3]]},
    {"released": [[0.8, 500, 0.01], [3.0, 100, 0.2]], "answered": []},
    {"released": [[4.0, 1, 1.0]], "answered": [[0.5, 1], [2.0, 1]]},
    {"released": [], "answered": [[0.3, 40]]},
)
"""noise, rounds, share of sums; epsilon, times of answers."""


def main() -> None:
    """Reckon and write."""
    cases = [
        {"released": [[noise, rounds, share]], "answered": []}
        for noise, share, rounds in product(NOISES, SHARES, ROUNDS)
    ]
    rows = []
    for case in (*cases, *MIXED):
        loss = composed(case)
        for delta in DELTAS:
            rows.append({**case, "delta": delta, "epsilon": loss.get_epsilon_for_delta(delta)})
            print(rows[-1], flush=True)
    text = ",\n".join(json.dumps(row) for row in rows)
    TABLE.write_text(f'{{"dp-accounting": "{version("dp-accounting")}", "rows": [\n{text}\n]}}\n', encoding="utf-8")


def composed(case: dict) -> pld.PrivacyLossDistribution:
    """Return the loss of all parts together, on one grid of a hundredth of the narrowest."""
    step = max(2e-6, min(1e-4, *(deviation(noise, share) / 100 for noise, _, share in case["released"]), 1.0))
    parts = [
        pld.from_gaussian_mechanism(noise, sampling_prob=share, value_discretization_interval=step).self_compose(rounds)
        for noise, rounds, share in case["released"]
    ]
    parts += [
        pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=step).self_compose(
            times
        )
        for epsilon, times in case["answered"]
    ]
    first, *others = parts
    for other in others:
        first = first.compose(other)
    return first


def deviation(noise: float, share: float) -> float:
    """Return that of the loss of one round, without the unit."""
    x = np.linspace(-10 * noise, 10 * noise, 10_001)
    loss = np.log1p(share * np.expm1((2 * x - 1) / (2 * noise**2)))
    weight = np.exp(-0.5 * (x / noise) ** 2)
    return math.sqrt(np.average((loss - np.average(loss, weights=weight)) ** 2, weights=weight))


if __name__ == "__main__":
    main()
