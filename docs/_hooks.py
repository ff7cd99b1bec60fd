"""Brings the pages of the repository's root into the site, and points links to files outside of it at their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
#: Pages of the root, which the site shows below ``project/``.
PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages of the root."""
    for name in PAGES:
        files.append(File.generated(config, f"project/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Rewrites links by the places of files in the repository; a file that is not on the site becomes plain text, and pictures stay."""
    source = page.file.src_uri
    origin = ROOT / source.removeprefix("project/") if source.startswith("project/") else ROOT / "docs" / source

    def rewritten(match: re.Match[str]) -> str:
        opening, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        path = (origin.parent / target).resolve()
        if not path.exists() or ROOT not in path.parents:
            return match.group(0)
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/img/"):
            return match.group(0)
        place = f"project/{name}" if name in PAGES else name.removeprefix("docs/") if name.startswith("docs/") else None
        if place is None or not place.endswith(".md"):
            return f"{opening[:-1]} (`{name}`)"
        return f"{opening}{get_relative_url(place, source)}{anchor})"

    text = LINK.sub(rewritten, markdown)
    # A link that became plain text: its brackets go too.
    return re.sub(r"\[([^\]]+)\] \(`([^`]+)`\)", lambda match: f"{match.group(1)} (`{match.group(2)}`)", text)
