"""What keeps a recipe from having the sums that are asked for, with the options by which it would have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fedgraft.errors import InputError


@dataclass(frozen=True)
class Finding:
    """One thing that does not suit.

    Args:
        why: what it is.
        instead: what to take instead, in words.
        changes: {"section.key": value} by which it suits; None where that is for the user to say.
        wished: {"section.key": value} that go well with these, where the user has set nothing else.
        frame: the sentence, with {why} and {instead} in it.
    """

    why: str
    instead: str
    changes: Mapping[str, Any] | None = None
    wished: Mapping[str, Any] = field(default_factory=dict)
    frame: str = "{why}: {instead}"

    def __str__(self) -> str:
        return self.frame.replace("{why}", self.why).replace("{instead}", self.instead)


Also: TypeAlias = Callable[[Mapping[str, Any]], Sequence[Finding]]
"""What does not suit of things beside a recipe, such as the run that it begins with, by the recipe's content."""


class UnsuitedError(InputError):
    """A recipe cannot have the sums that are asked for; the text says all that must change.

    Args:
        text: of the error.
        findings: what does not suit.
        more: a sentence that follows, "" for none.
    """

    def __init__(self, text: str, findings: Sequence[Finding] = (), more: str = "") -> None:
        super().__init__(text)
        self.findings, self.more = findings, more

    @classmethod
    def of(cls, findings: Sequence[Finding], more: str = "") -> "UnsuitedError":
        """Return the error for at least one finding; `more` is a sentence that follows, "" for none."""
        said = [*dict.fromkeys(map(str, findings))]
        head = f"{len(said)} things must change: " if len(said) > 1 else ""
        return cls(f"{head}{'; '.join(said)}.{more and f' {more}'}", findings, more)
