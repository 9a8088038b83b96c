"""What a client is sent, before it looks at its data."""

from fedgraft.errors import WireError
from fedgraft.wire.layouts import Arrays, finite


def sound(model: Arrays) -> Arrays:
    """Return a model as it was received. Raises `WireError` where it is not finite.

    Whether such a model breaks depends on the data: what comes of it would tell of them.
    """
    for name, array in model.items():
        if not finite(array):
            raise WireError(f"{name} of the model is not finite")
    return model
