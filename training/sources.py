"""What the weights are trained on: train parts of public families and generated channels, scaled as `fit` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchad.data.scaling import ZScore
from patchad.datasets import DATASETS, load
from training.generated import KINDS, generate

FloatArray = NDArray[np.float32]

LICENSED = ("MSL", "SMAP", "GECCO", "SMD", "ASD", "NAB", "Exathlon")
"""Families whose licence lets weights learned from them be passed on: BSD style, CC BY, MIT and Apache.

Left out: UCR and IOPS, for which a licence is missing in one place or another, SKAB, whose licence is GPL, and what is
available on request only.
"""


def channels(
    root: Path | None, families: Sequence[str], *, seed: int, most: int | None = None
) -> dict[str, list[FloatArray]]:
    """Return scaled channels `(time,)` by family: these families' train parts, and every kind of generated channel.

    Parameters
    ----------
    root
        The data folder; not needed without families.
    families
        Names of `patchad.datasets.DATASETS`.
    seed
        Of the generated channels.
    most
        Most entities of a family, and a tenth as many generated channels of a kind; None: all.
    """
    found = {name: list(_public(name, root, most)) for name in families if root is not None}
    few = {} if most is None else {"channels": max(most // 10, 1)}
    return found | {kind: [scaled(one[:, None])[:, 0] for one in generate(kind, seed=seed, **few)] for kind in KINDS}


def _public(name: str, root: Path, most: int | None) -> Iterator[FloatArray]:
    """Yield the channels of a family that move."""
    logging.getLogger("patchad.datasets.loading").setLevel(logging.ERROR)
    for entity in load(name, root)[:most]:
        moving = entity.train.min(axis=0) < entity.train.max(axis=0)
        yield from scaled(entity.train[:, moving]).T


def scaled(rows: NDArray[np.floating]) -> FloatArray:
    """Scale `(time, channel)` as the detector does."""
    if not rows.shape[1]:
        return rows.astype(np.float32)
    return ZScore.fit([rows]).with_ranges([rows])(rows)


def licences(families: Sequence[str]) -> dict[str, str]:
    """Return the licence of each of these families."""
    return {name: DATASETS[name].licence for name in families}
