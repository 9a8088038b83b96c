"""Show an object in Python: its properties, as text and as a notebook's table."""

import html
from collections.abc import Sequence


class Represented:
    """An object that shows its properties in a terminal and in a notebook."""

    def _properties(self) -> Sequence[tuple[str, str]]:
        """Return (name, value) of each property."""
        raise NotImplementedError

    def __repr__(self) -> str:
        properties = ", ".join(f"{name} {value}" for name, value in self._properties())
        return f"<fedgraft.{type(self).__name__} {properties}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self._properties()
        )
        return f"<table>{rows}</table>"
