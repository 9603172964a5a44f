"""Readers of public datasets: folders to entities, without torch.

>>> from patchad.datasets import DATASETS
>>> ", ".join(DATASETS)
'MSL, SMAP, PSM, SWaT, WADI, SWAN, GECCO, GECCO-challenge, UCR, SMD, ASD, SKAB, NAB, Exathlon, IOPS'
"""

from patchad.datasets.catalogue import DATASETS
from patchad.datasets.checking import Finding, check
from patchad.datasets.dataset import Dataset, Size
from patchad.datasets.download import get
from patchad.datasets.entity import Entity, join
from patchad.datasets.loading import load
from patchad.datasets.published import Difference, differences_from_published

__all__ = [
    "DATASETS",
    "Dataset",
    "Difference",
    "Entity",
    "Finding",
    "Size",
    "check",
    "differences_from_published",
    "get",
    "join",
    "load",
]
