"""The catalogue: every dataset that can be loaded, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from patchad.datasets import itrust, nab, nasa, nips_ts, psm, skab, smd, tsb_ad, ucr
from patchad.datasets.dataset import Dataset, Size
from patchad.errors import InputError

DATASETS: Mapping[str, Dataset] = {
    "MSL": nasa.MSL,
    "SMAP": nasa.SMAP,
    "PSM": psm.PSM,
    "SWaT": itrust.SWAT,
    "WADI": itrust.WADI,
    "SWAN": nips_ts.SWAN,
    "GECCO": nips_ts.GECCO,
    "GECCO-challenge": nips_ts.GECCO_CHALLENGE,
    "UCR": ucr.UCR,
    "SMD": smd.SMD,
    "ASD": smd.ASD,
    "SKAB": skab.SKAB,
    "NAB": nab.NAB,
    "Exathlon": tsb_ad.EXATHLON,
    "IOPS": tsb_ad.IOPS,
}
"""Every dataset that can be loaded, by name."""

_PREFIX = "nips-ts-"


def lookup(name: str) -> Dataset:
    """Look up a dataset by name or alias, ignoring case and the prefix ``NIPS-TS-``.

    Examples
    --------
    >>> lookup("nips-ts-swan").name
    'SWAN'
    """
    known = {normalised(each): dataset for dataset in DATASETS.values() for each in (dataset.name, *dataset.aliases)}
    plain = normalised(name)
    short = plain.removeprefix(_PREFIX)
    dataset = known.get(plain) or known.get(short)
    if dataset is not None:
        return dataset
    near = difflib.get_close_matches(short, known, n=1)
    hint = f"did you mean {known[near[0]].name}? " if near else ""
    raise InputError(f"there is no dataset {name!r}; {hint}known datasets: {', '.join(DATASETS)}")


def normalised(name: str) -> str:
    """Return a name in lower case with hyphens, for comparison."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def markdown() -> str:
    """Return the catalogue as a Markdown table.

    Examples
    --------
    >>> print(markdown().splitlines()[2])
    | MSL | 27 | 58,317 | 73,729 | 55 | 10.53 | 58,317 / 73,729 / 55 / 10.5 | Caltech/JPL, BSD style |
    """
    lines = [
        "| dataset | entities | train rows | test rows | channels | anomalous % | in the paper | licence |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for dataset in DATASETS.values():
        paper = "" if dataset.paper is None else " / ".join(map(_cell, _figures(dataset.paper)))
        cells = (dataset.name, dataset.entities, *_figures(dataset.size), paper, dataset.licence)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def _figures(size: Size) -> tuple[float | None, ...]:
    return size.train, size.test, size.channels, size.ratio


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
