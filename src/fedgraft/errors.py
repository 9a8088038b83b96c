"""Every error fedgraft raises on purpose, and the one way its messages are worded.

FedgraftError
├── InputError            what the user gave is wrong: parameter, file, value           (exit code 2)
│   └── RefusedError          a site refuses what a server asks for; the server is told a code, and no words
├── BudgetError           the budget does not pay for a single round                    (exit code 3)
├── WireError             bytes that are not a message of ours, or break their own limits
├── ClientError           a client cannot serve a request, or its reply cannot be used; costs that client its round
│   ├── DivergedError         its training left all finite numbers
│   ├── BeyondLimitError      it is asked for more than its site gives
│   └── UnknownRequestError   it is asked what no client answers
├── AllClientsFailedError no client of a cohort answered, with every reason              (exit code 1)
├── Interrupted           the process was asked to stop; the run can be resumed          (exit code 128 + signal)
└── MachineError          this machine could not do its part: memory, a worker process  (exit code 1)
"""

import difflib
import errno
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from signal import SIGINT

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of control and format characters, surrogates, ends of lines and of paragraphs."""
_JOINERS = "\u200c\u200d"
"""Format characters that words of some scripts, and some emoji, are written with."""


class FedgraftError(Exception):
    """Base of everything raised on purpose."""


class InputError(FedgraftError):
    """Wrong input of the user; the message names it, the value, what is allowed, the nearest right name."""


class RefusedError(InputError):
    """A site refuses what a server asks for.

    Args:
        text: why, in words that stay at the site.
        code: of `engine.protocol.codes`; the server is told it, and nothing else.
    """

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class BudgetError(FedgraftError):
    """The budget does not pay for a single round."""


class WireError(FedgraftError):
    """Bytes that are not a message of ours, or that break their own limits."""


class ClientError(FedgraftError):
    """A client cannot serve a request, or its reply cannot be used: it never enters the average."""


class DivergedError(ClientError):
    """A client's training left all finite numbers."""


class BeyondLimitError(ClientError):
    """A client is asked for more work than its site gives."""


class UnknownRequestError(ClientError):
    """A client is asked what no client answers."""


class AllClientsFailedError(FedgraftError):
    """No client of a cohort answered; carries every reason.

    Args:
        round: in which the last one failed.
        reasons: {client: reason}.
        kept: a sentence on what is left of the run; "" for nothing.
    """

    def __init__(self, round: int, reasons: Mapping[int, str], kept: str = "") -> None:
        super().__init__(round, reasons, kept)
        self.round, self.reasons, self.kept = round, dict(reasons), kept

    def __str__(self) -> str:
        lines = "\n".join(f"  client {client}: {reason}" for client, reason in sorted(self.reasons.items()))
        kept = f"\n{self.kept}" if self.kept else ""
        return f"Round {self.round}: all {len(self.reasons)} selected clients failed.\n{lines}{kept}"


class Interrupted(FedgraftError):
    """The process was asked to stop; the run is stored and can be resumed.

    Args:
        message: after which round.
        number: of the signal that asked.
    """

    def __init__(self, message: str, number: int = SIGINT) -> None:
        super().__init__(message)
        self.number = number


class MachineError(FedgraftError):
    """This machine could not do its part, such as for lack of memory: no client is to blame, and the run ends."""


_SHORTAGES = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "alloc_failed",
    "can't start new thread",
    "failed to map segment",
    "storage size calculation overflowed",
)
"""What errors of torch, of the system and of the loader of libraries say where memory is short."""
_TOO_BIG = ("array is too big", "maximum allowed dimension exceeded", "maximum allowed size exceeded")
"""What NumPy says of arrays for which no memory is enough."""
_SAID = 200
"""Characters of such an error that are told."""


def memory_shortage(error: BaseException) -> str:
    """Return what an exception, or what led to it, says of too little memory on this machine; "" for nothing."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or _tells_of_shortage(seen):
            said = " ".join(str(seen).split())[:_SAID]
            return f"out of memory ({said})" if said else "out of memory"
        seen = seen.__cause__ or seen.__context__
    return ""


def _tells_of_shortage(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    told = {RuntimeError: _SHORTAGES, ImportError: _SHORTAGES, ValueError: _TOO_BIG}
    return any(sign in str(error).lower() for kind, signs in told.items() if isinstance(error, kind) for sign in signs)


LISTED = 12
"""Most names that an error lists all of; of more it lists the `NEAREST`."""
NEAREST = 5


def unknown(what: str, got: object, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist: nearest right name first, then all of them, or of many the nearest."""
    names = sorted(set(known))
    if len(names) > LISTED:
        near = difflib.get_close_matches(str(got).lower(), names, n=NEAREST, cutoff=0.0)
        listed = f"{', '.join(near)}, ... ({len(names):,} in all)"
    else:
        listed = ", ".join(names)
    return InputError(f"No {what} named {str(got)!r}.{nearest(got, names)} Known: {listed or 'none'}.")


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


def literal(text: str) -> str:
    """Return a text as a part of a format that says it."""
    return text.replace("{", "{{").replace("}", "}}")


def printable(text: str) -> str:
    r"""A text in which control characters can be seen and do nothing; it is one line.

    What a client or a data file calls something is shown to people in this form alone: no name clears a screen, begins
    a line that looks like ours, or hides a part of itself.

    >>> print(printable("a\x1b[2J\nb"))
    a\x1b[2J\nb
    """
    return text if text.isprintable() else "".join(map(_seen, text))


def _seen(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN or character in _JOINERS:
        return character
    return character.encode("unicode_escape").decode("ascii")


@contextmanager
def missing_extra(*extras: str, by: str) -> Iterator[None]:
    """Say which extra to install where what is imported here is not there.

    Args:
        extras: of fedgraft, such as "ray".
        by: what needs them, such as "runtime.name = 'ray'".

    Raises `InputError` for a package that is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fedgraft":
            raise
        raise InputError(f"{by} needs the package {error.name}: pip install 'fedgraft[{','.join(extras)}]'.") from error
