"""`Entity`: one labelled unit of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchad.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """A train series, a test series and the labels of the test series.

    Array-likes are converted: the two series to float32, the labels from 0/1 to bool.

    Parameters
    ----------
    name
        Name within the dataset, for instance of a telemetry channel or a machine.
    train
        Unlabelled values, shape (time, channel).
    test
        Values with the same channels, shape (time, channel).
    labels
        One per row of ``test``, true where it is anomalous. All-normal labels are allowed.

    Examples
    --------
    >>> entity = Entity("pump", train=[[0.0], [1.0]], test=[[0.0], [9.0]], labels=[0, 1])
    >>> entity.channels, entity.train.dtype.name, entity.labels.tolist()
    (1, 'float32', [False, True])
    """

    name: str
    train: NDArray[np.float32]  # (time, channel)
    test: NDArray[np.float32]  # (time, channel)
    labels: NDArray[np.bool_]  # (time,)

    def __post_init__(self) -> None:
        for split in ("train", "test"):
            object.__setattr__(self, split, _values(getattr(self, split), f"{self.name}: {split}"))
        object.__setattr__(self, "labels", as_labels(self.labels, f"{self.name}: labels"))
        if self.train.shape[1] != self.test.shape[1]:
            raise InputError(
                f"{self.name}: train has {self.train.shape[1]} channels and test has {self.test.shape[1]}; "
                "both need the same channels"
            )
        if len(self.labels) != len(self.test):
            raise InputError(
                f"{self.name}: {len(self.labels)} labels for {len(self.test)} test rows; one label per row is needed"
            )

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.train.shape[1])

    def thinned(self, every: int) -> Entity:
        """Return an entity with rows 0, ``every``, 2 ``every``, ... of train and test.

        Examples
        --------
        >>> Entity("a", train=[[0], [1], [2]], test=[[3], [4], [5]], labels=[0, 1, 1]).thinned(2).test.ravel().tolist()
        [3.0, 5.0]
        """
        if every == 1:
            return self
        return Entity(self.name, self.train[::every].copy(), self.test[::every].copy(), self.labels[::every].copy())

    def whole(self) -> Entity:
        """Return an entity whose test begins with the rows of train, labelled normal.

        Examples
        --------
        >>> Entity("a", train=[[0]], test=[[3], [4]], labels=[0, 1]).whole().labels.tolist()
        [False, False, True]
        """
        normal = np.zeros(len(self.train), dtype=np.bool_)
        both = np.concatenate([self.train, self.test])
        return Entity(self.name, self.train, both, np.concatenate([normal, self.labels]))


def join(entities: Sequence[Entity], name: str) -> Entity:
    """Concatenate entities in the given order, as the literature does.

    Windows over the result may span two entities.

    Parameters
    ----------
    entities
        One or more entities with the same number of channels.
    name
        Name of the result.

    Examples
    --------
    >>> parts = [Entity(name, train=[[0.0]], test=[[1.0], [2.0]], labels=[0, 1]) for name in "ab"]
    >>> join(parts, "both").labels.tolist()
    [False, True, False, True]
    """
    widths = sorted({entity.channels for entity in entities})
    if len(widths) != 1:
        raise InputError(f"{name}: entities with {widths} channels cannot be joined; use them one by one")
    return Entity(
        name,
        np.concatenate([entity.train for entity in entities]),
        np.concatenate([entity.test for entity in entities]),
        np.concatenate([entity.labels for entity in entities]),
    )


def _values(given: ArrayLike, what: str) -> NDArray[np.float32]:
    values = np.asarray(given)
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(
            f"{what} must have shape (time, channel) with at least one of each, got {values.shape}; "
            "for one channel pass x[:, None]"
        )
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got dtype {values.dtype}")
    with np.errstate(over="ignore"):  # values beyond float32 become infinite and are refused below
        values = np.ascontiguousarray(values, dtype=np.float32)
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise InputError(f"{what} has {bad} values that are missing or infinite; fill or drop them first")
    return values


def as_labels(given: ArrayLike, what: str) -> NDArray[np.bool_]:
    """Return 0/1 labels of any dtype as bool; refuse anything else."""
    labels = np.asarray(given)
    if labels.ndim != 1:
        raise InputError(f"{what} must have shape (time,), got {labels.shape}")
    if labels.dtype == np.bool_:
        return labels
    if labels.dtype.kind not in "iuf" or not np.isin(labels, (0, 1)).all():
        raise InputError(f"{what} must be 0 or 1, got {np.unique(labels)[:5].tolist()} and dtype {labels.dtype}")
    return labels.astype(np.bool_)
