"""Where a record comes from."""

from __future__ import annotations

from patchad.bench.provenance import checksum, hardware, versions
from patchad.datasets.entity import Entity
from patchad.datasets.synthetic import one_channel


def test_the_checksum_depends_on_values_and_labels() -> None:
    entity = one_channel("seasonal", rows=600)
    other = Entity(entity.name, entity.train, entity.test, ~entity.labels)
    assert len({checksum(entity), checksum(other), checksum(one_channel("seasonal", rows=600))}) == 2


def test_versions_and_hardware_are_named() -> None:
    assert {"patchad", "python", "torch", "numpy"} <= set(versions())
    assert "cores" in hardware()
