"""Every error fedgraft raises on purpose, and the one way its messages are worded.

FedgraftError
├── InputError            what the user gave is wrong: parameter, file, value           (exit code 2)
├── BudgetError           the budget does not pay for a single round                    (exit code 3)
├── WireError             bytes that are not a message of ours, or break their own limits
├── ClientError           a client's reply cannot be used; costs that client its round
└── AllClientsFailedError no client of a cohort answered, with every reason              (exit code 1)
"""

import difflib
from collections.abc import Iterable, Mapping


class FedgraftError(Exception):
    """Base of everything raised on purpose."""


class InputError(FedgraftError):
    """What the user gave is wrong; the message names it, the value, what is allowed, the nearest right name."""


class BudgetError(FedgraftError):
    """The budget does not pay for a single round."""


class WireError(FedgraftError):
    """Bytes that are not a message of ours, or that break their own limits."""


class ClientError(FedgraftError):
    """A client's reply cannot be used: it never enters the average."""


class AllClientsFailedError(FedgraftError):
    """No client of a cohort answered; carries every reason."""

    def __init__(self, round: int, reasons: Mapping[int, str]) -> None:
        lines = "\n".join(f"  client {client}: {reason}" for client, reason in sorted(reasons.items()))
        super().__init__(f"Round {round}: all {len(reasons)} selected clients failed.\n{lines}")
        self.reasons = dict(reasons)


def unknown(what: str, got: object, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist: nearest right name first, then all of them."""
    names = sorted(set(known))
    return InputError(f"No {what} named {str(got)!r}.{nearest(got, names)} Known: {', '.join(names) or 'none'}.")


def require(condition: bool, parameter: str, allowed: str, got: object) -> None:
    """Raise `InputError` unless `condition`: '`parameter` must be `allowed`; got `got`.'."""
    if not condition:
        raise InputError(f"{parameter} must be {allowed}; got {got!r}.")


def require_one_of(parameter: str, got: str, allowed: Iterable[str]) -> None:
    """Raise `InputError` unless `got` is one of `allowed`, naming the nearest."""
    names = list(allowed)
    if got not in names:
        listed = ", ".join(map(repr, names))
        raise InputError(f"{parameter} must be one of {listed}; got {got!r}.{nearest(got, names)}")


def nearest(got: object, names: Iterable[str]) -> str:
    """' Did you mean NAME?' of the most alike, upper or lower case; or nothing where none is alike."""
    by_lower_case = {name.lower(): name for name in names}
    near = difflib.get_close_matches(str(got).lower(), by_lower_case, n=1, cutoff=0.5)
    return f" Did you mean {by_lower_case[near[0]]!r}?" if near else ""
