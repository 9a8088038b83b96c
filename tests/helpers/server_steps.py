"""Steps of server optimisers, number by number."""

import numpy as np


def walk(optimizer, *changes):
    """The moves after each change of one number, and the last state."""
    state, moves = optimizer.init({"w": np.zeros(1, np.float32)}), []
    for change in changes:
        move, state = optimizer.step(state, {"w": np.array([change], np.float64)})
        moves.append(float(move["w"][0]))
    return moves, {name: float(arrays["w"][0]) for name, arrays in state.items()}
