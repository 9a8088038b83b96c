"""Feedback: what one message loses, the next ones make up for."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from fedgraft.contracts import Codec
from fedgraft.errors import ClientError, InputError, WireError, require
from fedgraft.methods import float_codec
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Tree


class FeedbackState(TypedDict):
    """`residual`: float32, as the arrays sent; `inner`: the state of the codec inside."""

    residual: Arrays
    inner: Tree


@dataclass(frozen=True)
class Feedback(Codec[FeedbackState]):
    """Add to what is sent the errors of all messages before, and remember the error of this one.

    With x_t to send and residual e_t: p = x_t + e_t is encoded, and e_(t+1) is p minus what the receiver decodes. So
    what it has decoded over T messages is the sum of all x_t minus e_(T+1), however coarse the codec.

    Source: Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training
        of Speech DNNs", Interspeech 2014; Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient
        Compression Schemes", ICML 2019, algorithm 2.
    Differs: the learning rate is part of x_t, an update and not a gradient. A message counts as received once it is
        encoded.

    Args:
        codec: the codec inside, any.

    State:
        residual: float32 arrays of the names and shapes of those sent, at first zero.
        inner: the state of `codec`.
    Needs: sums that matter, such as updates; arrays of fixed shape.
    Cost: that of `codec`, and 4 bytes of the sender's memory per float32 value. Error: of a sum, that of `codec` in its
        last message. NaN and infinity raise `ClientError`, since they would stay in the residual for ever.
    """

    codec: Codec[Any]

    def __post_init__(self) -> None:
        require(isinstance(self.codec, Codec), "Feedback.codec", "a codec", self.codec)

    def init(self, layout: Layout) -> FeedbackState:
        """Return the first state: nothing was lost yet."""
        specs = float_codec.float32_specs(layout)
        for spec in specs:
            if VARIABLE in spec.shape:
                raise InputError(
                    "Error feedback needs arrays of fixed shape, to add one message's error to the next; "
                    f"{spec.name!r} has {spec.shape}, where {VARIABLE} varies."
                )
        residual: Arrays = {spec.name: np.zeros(spec.shape, np.float32) for spec in specs}
        return {"residual": residual, "inner": self.codec.init(layout)}

    def encoded(self, layout: Layout) -> Layout:
        """Return the same as the codec inside."""
        return self.codec.encoded(layout)

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Return the same as the codec inside."""
        return self.codec.bounds(layout, largest)

    def encode(self, arrays: Arrays, state: FeedbackState, g: np.random.Generator) -> tuple[Arrays, FeedbackState]:
        """The sums of arrays and residual, encoded; and what that loses."""
        residual = state["residual"]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = {name: np.asarray(a + residual[name]) if name in residual else a for name, a in arrays.items()}
        _check_finite(sums, residual)
        encoded, inner = self.codec.encode(sums, state["inner"], g)
        try:
            received = self.codec.decode(encoded, Layout.of(arrays))
        except WireError as error:
            raise ClientError(f"The receiver would refuse what was encoded: {error}") from error
        with np.errstate(over="ignore", invalid="ignore"):
            lost: Arrays = {name: np.asarray(sums[name] - received[name]) for name in residual}
        _check_finite(lost, residual)
        return encoded, {"residual": lost, "inner": inner}

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Return the same as the codec inside: the receiver knows of no residual."""
        return self.codec.decode(arrays, layout)


def _check_finite(arrays: Arrays, residual: Arrays) -> None:
    for name in residual:
        if not np.isfinite(float_codec.largest_magnitude(arrays[name])):
            raise ClientError(f"Array {name!r} and what was lost of it before add up to NaN or infinity.")
