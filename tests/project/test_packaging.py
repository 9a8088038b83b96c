"""Source distribution and wheel: what they hold, what an index shows, and that the wheel runs alone."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEFT_OUT = (".git", ".venv", "build", "dist", "site", "runs", "demo", "*.egg-info", "__pycache__", ".*_cache")
CONDA_NAMES = {"torch": "pytorch", "torch_geometric": "pytorch_geometric", "msgpack": "msgpack-python"}


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both distributions; the wheel is built from the source distribution."""
    folder = tmp_path_factory.mktemp("packaging")
    tree = shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*LEFT_OUT))
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", tree)
    ((source,), (wheel,)) = (list((folder / "dist").glob(pattern)) for pattern in ("*.tar.gz", "*.whl"))
    return source, wheel


@pytest.mark.slow
def test_a_source_distribution_has_documentation_and_tests(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    here = {"tests/project/test_packaging.py", "docs/index.md", "docs/tutorials/federation.ipynb", "recipe/recipe.yaml"}
    here |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "constraints.txt", "Makefile", "mkdocs.yml", "Dockerfile"}
    assert here <= names


@pytest.mark.slow
def test_an_index_shows_the_readme_without_dead_links(built):
    call(sys.executable, "-m", "twine", "check", "--strict", *built)
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    text = metadata.get_payload(decode=True).decode()
    assert "# fedgraft" in text
    assert "adding a method" in text
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", text)
    assert "Programming Language :: Python :: 3.12" in metadata.get_all("Classifier")


@pytest.mark.slow
def test_a_wheel_runs_in_a_fresh_environment(built, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    ((packages),) = (tmp_path / "venv").glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]  # what is installed there, but not editably
    (packages / "dependencies.pth").write_text("\n".join(here))
    call(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
        "--prefix",
        tmp_path / "venv",
        built[1],
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    python, fedgraft = tmp_path / "venv/bin/python", tmp_path / "venv/bin/fedgraft"
    where = call(python, "-c", "import fedgraft; print(fedgraft.__file__)", env=environment, cwd=tmp_path)
    assert where.startswith(str(packages))
    assert "Usage" in call(python, fedgraft, "--help", env=environment, cwd=tmp_path)
    small = ("rounds=1", "data.users=100", "data.items=80", "data.count=2000", "baselines=[]", "runtime.workers=0")
    call(python, fedgraft, "run", "fedacs", *small, "--out", "run", "-q", env=environment, cwd=tmp_path)
    assert (tmp_path / "run" / "summary.json").is_file()


def test_the_conda_recipe_says_the_same():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    needs = [re.split(r"(?=>=)", need) for need in PROJECT["dependencies"]]
    expected = {f"{CONDA_NAMES.get(name, name)} {bound}" for name, bound in needs}
    assert set(recipe["requirements"]["run"]) - {"python >=${{ python_min }}"} == expected
    assert recipe["context"]["version"] == PROJECT["version"]
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
