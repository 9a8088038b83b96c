"""Show an object in Python: facts about it, as text and as a notebook's table."""

import html
from collections.abc import Sequence


class Facts:
    """What has facts to show."""

    def _facts(self) -> Sequence[tuple[str, str]]:
        """Return (name, value) of each fact."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts())
        return f"<fedgraft.{type(self).__name__} {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self._facts()
        )
        return f"<table>{rows}</table>"
