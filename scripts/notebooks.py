"""Run the notebooks of `docs/notebooks` and write, for each, a page with what it prints and draws, and a Jupyter file.

python scripts/notebooks.py FOLDER [NAME]...: pages (`NAME.md`), their pictures, and `NAME.ipynb`, without results.
A notebook is a Python file in the percent format, which editors and Jupytext open as one: `# %%` begins a cell of code,
`# %% [markdown]` one of text. An exception, a warning, or more than a minute of CPU time ends the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
LIMIT = 60.0
"""CPU seconds that a notebook may take: a reader wants to try it, and the site is built often."""
MARK = re.compile(r"^# %%(?: \[(markdown)\])?.*\n", re.MULTILINE)


class Cell(NamedTuple):
    """A cell of a notebook."""

    kind: str
    """`code` or `markdown`."""
    text: str


def read_cells(source: str) -> list[Cell]:
    r"""Cut a file in the percent format into cells.

    Examples
    --------
    >>> read_cells("# %% [markdown]\n# # Hello\n# %%\n1 + 1\n")
    [Cell(kind='markdown', text='# Hello'), Cell(kind='code', text='1 + 1')]
    """
    _, *parts = MARK.split(source)
    cells = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if kind == "markdown":
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        cells.append(Cell(kind or "code", text.strip()))
    return cells


def to_jupyter(cells: list[Cell]) -> dict[str, Any]:
    """Return the cells as a Jupyter notebook without results."""
    listed = []
    for number, cell in enumerate(cells):
        ran = {"execution_count": None, "outputs": []} if cell.kind == "code" else {}
        lines = cell.text.splitlines(keepends=True)
        listed.append({"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}, "source": lines, **ran})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": listed, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def run_cell(code: str, scope: dict[str, Any], pictures: Path) -> str:
    """Run a cell; return what it printed, its last value and its pictures, as Markdown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "notebook", "exec"), scope)  # noqa: S102 - running it is what this is for
        value = None if last is None else eval(compile(ast.Expression(last.value), "notebook", "eval"), scope)  # noqa: S307
    parts = [f"```text\n{printed.getvalue().rstrip()}\n```"] if printed.getvalue() else []
    if hasattr(value, "_repr_html_"):
        plain = re.sub(r"<style.*?</style>|\n\s*", "", value._repr_html_(), flags=re.DOTALL)
        parts.append(re.sub(r"<(table|tr)[^>]*>", r"<\1>", plain))  # styled as the site's other tables are
    elif value is not None:
        parts.append(f"```text\n{value!r}\n```")
    return "\n\n".join([*parts, *save_pictures(pictures)])


def save_pictures(pictures: Path) -> list[str]:
    """Save what matplotlib has drawn, if anything, numbered on; return links to it."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot as plt

    links = []
    for number in plt.get_fignums():
        count = len(list(pictures.parent.glob(f"{pictures.name}-*.png"))) + 1
        path = pictures.with_name(f"{pictures.name}-{count}.png")
        figure = plt.figure(number)
        title = figure.axes[0].get_title() if figure.axes else ""
        figure.savefig(path, dpi=80, metadata={"Software": None})
        plt.close(figure)
        links.append(f"![{title}]({path.name})")
    return links


def run(source: Path, folder: Path) -> float:
    """Run a notebook, write its page and its Jupyter file into the folder; return the CPU time that it took."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # draws to files, wherever it runs
    cells = read_cells(source.read_text())
    scope: dict[str, Any] = {"__name__": "__main__"}
    parts, began = [], time.process_time()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place), warnings.catch_warnings():
        warnings.simplefilter("error")
        for cell in cells:
            if cell.kind == "markdown":
                parts.append(cell.text)
            else:
                parts += [f"```python\n{cell.text}\n```", run_cell(cell.text, scope, folder / source.stem)]
    link = f"[The notebook]({source.stem}.ipynb){{ download }} runs in Jupyter; the results here are from this build."
    parts.insert(1, link)
    (folder / f"{source.stem}.md").write_text("\n\n".join(part for part in parts if part) + "\n")
    (folder / f"{source.stem}.ipynb").write_text(json.dumps(to_jupyter(cells), indent=1) + "\n")
    return time.process_time() - began


def main() -> None:
    """Run those that are named, or all."""
    folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.py")):
        if names and source.stem not in names:
            continue
        for old in folder.glob(f"{source.stem}*"):
            old.unlink()
        took = run(source, folder)
        print(f"{source.stem}: {took:.1f} s of CPU time", flush=True)
        if took > LIMIT:
            sys.exit(f"{source.name} took {took:.0f} s of CPU time; {LIMIT:.0f} s are allowed: make it smaller")


if __name__ == "__main__":
    main()
