"""Count floating-point operations of products where they are executed, a multiply-add as two.

Those of models and of codecs that multiply; decompositions, sums and entrywise functions are not products.
"""


class Meter:
    """Counts what this process executes while it is entered; what is counted within an inner one belongs to that alone.

    Attributes:
        flops: what has been counted so far.
    """

    def __init__(self) -> None:
        self.flops = 0

    def __enter__(self) -> "Meter":
        _meters.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _meters.remove(self)


_meters: list[Meter] = []


def count(multiply_adds: int) -> None:
    """Note so many multiply-adds, if anybody is counting."""
    if _meters:
        _meters[-1].flops += 2 * multiply_adds
