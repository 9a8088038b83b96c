"""What an index of packages shows: the README without links into the repository, which lead nowhere there.

No public address of the repository is known, to which they could lead instead. All else is in `pyproject.toml`.
"""

import re
from pathlib import Path

from setuptools import setup

RELATIVE = r"\((?!https?://)[^)]*\)"
readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
without_pictures = re.sub(rf"!\[[^\]]*\]{RELATIVE}", "", readme)

setup(
    long_description=re.sub(rf"\[([^\]]*)\]{RELATIVE}", r"\1", without_pictures),
    long_description_content_type="text/markdown",
)
