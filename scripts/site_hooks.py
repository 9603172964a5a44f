"""What the site shows in another way than the files: links out of `docs/`, and pages that are kept elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHOWN = {"security.md": ROOT / "SECURITY.md"}
"""Pages of the site that are files of the repository outside `docs/`."""
NOTEBOOKS = ROOT / "build" / "notebooks"
"""Where `scripts/notebooks.py` writes what it made of those in `docs/notebooks`."""
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads to search pages that are opened from files; we have our own."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are kept outside `docs/`, and those of notebooks with what belongs to them."""
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    for name, path in SHOWN.items():
        text = path.read_text().replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    for source in sorted((DOCS / "notebooks").glob("*.py")):
        made = sorted(NOTEBOOKS.glob(f"{source.stem}*"))
        if not made:
            raise PluginError(
                f"{source.name} has not been run; `make docs` runs it, or scripts/notebooks.py {NOTEBOOKS}"
            )
        for path in made:
            files.append(File.generated(config, f"notebooks/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - mkdocs asks for them
    """Turn links that leave `docs/`, as to a source file, into plain text, for the site has no such page.

    A link to a notebook leads to its page.
    """
    folder = (DOCS / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.parent == DOCS / "notebooks" and target.suffix == ".py":
            return f"[{link[1]}]({link[2].removesuffix('.py')}.md)"
        kept = next((name for name, path in SHOWN.items() if path == target), None)
        if kept is not None:
            return f"[{link[1]}]({os.path.relpath(DOCS / kept, folder)}{link[3] or ''})"
        inside = target.is_relative_to(DOCS) and "results/records" not in str(target)
        if inside and target.is_dir():
            return f"[{link[1]}]({link[2].rstrip('/')}/README.md)" if (target / "README.md").exists() else link[1]
        return link[0] if inside else link[1]

    return LINK.sub(shown, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001 - mkdocs asks for them
    """Load nothing from elsewhere."""
    own = os.path.relpath("javascripts/search-from-files.js", Path(page.file.dest_uri).parent)
    return output.replace(ELSEWHERE, own)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:  # noqa: ARG001 - mkdocs asks for them
    """Load nothing from elsewhere on the page for lost visitors either."""
    return output_content.replace(ELSEWHERE, "javascripts/search-from-files.js")
