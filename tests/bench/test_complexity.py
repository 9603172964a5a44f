"""Parameters and operations grow as the paper's appendix counts them."""

from __future__ import annotations

import pytest

from patchad.bench.complexity import AXES, BASE, LARGE, count, growth

PAPER = {
    "mixers": {"C": (2, 2), "N": (2, 2), "P": (2, 2), "D": (2, 2)},
    "attention": {"C": (0, 1), "N": (0, 2), "P": (0, 2), "D": (2, 2)},
}
"""Exponents of O(C2 + N2 + P2 + D2) and O(C2 D (N + P) + C D N2 + C D P2 + C D2 (N + P)), and attention's."""


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("kind", PAPER)
def test_operations_grow_along_each_axis_as_the_paper_counts_them(kind, axis):
    parameters, operations = growth(kind, axis)
    assert parameters == pytest.approx(PAPER[kind][axis][0], abs=0.1)
    assert operations == pytest.approx(PAPER[kind][axis][1], abs=0.15)


def test_the_largest_axis_determines_the_parameters_and_not_the_smallest():
    """The paper ends with the square of the minimum of the axes; it is that of the maximum."""
    grown, shrunk = ({**BASE, "C": size}["C"] for size in (LARGE, 1))
    base = count("mixers", BASE)[0]
    assert count("mixers", {**BASE, "C": grown})[0] > 50 * base
    assert count("mixers", {**BASE, "C": shrunk})[0] > base / 2
