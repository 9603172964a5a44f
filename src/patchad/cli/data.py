"""`patchad data`: list the datasets, check a folder, download."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchad.cli.console import notify

if TYPE_CHECKING:
    from patchad.datasets.checking import Finding

app = typer.Typer(help="List, check and download datasets.", rich_markup_mode=None)


@app.command("list")
def list_datasets() -> None:
    """List the datasets that can be loaded."""
    from patchad.datasets import DATASETS

    print(f"{'dataset':<16} {'entities':>8} {'channels':>8}  {'licence':<24} description")
    for row in DATASETS.values():
        print(f"{row.name:<16} {row.entities:>8} {row.size.channels:>8}  {row.licence:<24} {row.about}")


@app.command()
def check(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the datasets.")]) -> None:
    """Check which datasets a folder contains.

    Prints where they differ from the published ones.
    """
    from patchad.datasets import check as check_folder

    findings = check_folder(folder)
    print(f"{'dataset':<16} {'state':<13} {'entities':>8} {'train rows':>11} {'test rows':>11}  remarks")
    for finding in findings:
        counts = f"{finding.entities:>8} {finding.train:>11,} {finding.test:>11,}"
        print(f"{finding.name:<16} {finding.state:<13} {counts}  {_remarks(finding)}".rstrip())


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of a dataset; `patchad data list` lists them.")],
    data: Annotated[Path, typer.Option(help="Folder for the datasets.")] = Path("data"),
) -> None:
    """Download a dataset, or explain how to request it."""
    from patchad.datasets import get as download

    result = download(name, data, progress=sys.stderr.isatty())
    done = "downloaded to" if result.fetched else "is already in"
    notify(f"{result.name} {done} {result.folder}: {result.files} files")


def _remarks(finding: Finding) -> str:
    return finding.remedy or "; ".join(map(str, finding.differences))
