"""The site of the documentation is made without a warning, and has every page once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def test_the_site_is_made(tmp_path: Path) -> None:
    """Strictly: no link is broken, no page is left out of the navigation, and what is public has its docstring."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    interface = (tmp_path / "site" / "api" / "python.html").read_text(encoding="utf-8")
    for name in ("AppleClassifier.partial_fit", "LearnedModel.explain", "river.AppleRegressor.learn_one"):
        assert f'id="stream_apple.{name}"' in interface


def test_no_page_stands_twice_and_none_is_missing() -> None:
    """In the navigation, which has four parts."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert [next(iter(part)) for part in navigation] == ["Tutorial", "How-to", "Reference", "Explanation"]
    pages = [page for part in navigation for of_part in part.values() for page in of_part]
    found = {str(path.relative_to(DOCS)) for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")}
    assert sorted(pages) == sorted(found - {"package-index.md"})
    assert not re.search(r"https?://", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
