from __future__ import annotations

import numpy as np
import pytest

from patchad import InputError, PatchAD, make
from patchad.data.series import prepare
from patchad.datasets.backgrounds import calm
from patchad.detectors.cleaning import clean_train


def unclean(rows: int = 4000) -> np.ndarray:
    values = calm("waves", rows, 2)
    values[1000:1060, 0] += 12 * values[:, 0].std()
    values[2500:2620, 1] = values[2499, 1]
    return values


def cleaned(values: np.ndarray, window: int = 50, contamination: float | None = None):
    return clean_train([prepare(values, ("a", "b"))], [values], contamination=contamination, window=window)


def test_clean_train_stays_as_it_is():
    values = calm("waves", 4000, 2)
    found = cleaned(values)
    assert [len(segment) for segment in found.segments] == [4000]
    assert found.values[0] is values
    assert found.notes == ()


def test_strange_and_stuck_rows_are_cut_out():
    found = cleaned(unclean())
    assert [len(segment) for segment in found.segments] == pytest.approx([1000, 1439, 1380], abs=12)
    assert sum(map(len, found.values)) == sum(map(len, found.segments))
    assert "left out" in found.notes[0]
    assert "contamination=0" in found.notes[0]


def test_pieces_that_are_too_short_for_the_window_are_left_out_too():
    assert len(cleaned(unclean(), window=1100).segments) == 2


def test_nothing_is_left_out_where_too_little_would_be_left():
    found = cleaned(unclean(), window=2000)
    assert [len(segment) for segment in found.segments] == [4000]
    assert "too short" in found.notes[0]


def test_no_contamination_keeps_all():
    assert [len(segment) for segment in cleaned(unclean(), contamination=0).segments] == [4000]


def test_contamination_is_the_share_that_is_left_out():
    found = cleaned(unclean(), contamination=0.06, window=32)  # 60 strange rows, 121 stuck ones, and as strange ones
    assert 0.06 * 4000 <= 4000 - sum(map(len, found.segments)) <= 0.08 * 4000


def test_missing_values_of_train_are_kept_for_their_limit():
    values = unclean()
    values[3000:3100, 0] = np.nan
    found = cleaned(values)
    assert sum(int(np.isnan(part).sum()) for part in found.values) == 100


def test_faults_of_train_are_found_again():
    test = unclean()
    faulty = make("sub_knn", contamination=0).fit(test).detect(test)
    found = make("sub_knn").fit(test).detect(test)
    spike, stuck = found.events
    assert (spike.kind, spike.start, spike.stop) == ("anomaly", 1000, 1060)
    assert (stuck.kind, stuck.start, stuck.stop) == ("stuck", 2499, 2620)
    assert spike.severity > faulty.events[0].severity
    assert any("left out" in note for note in found.notes)


@pytest.mark.parametrize("share", [-0.1, 0.3, float("nan")])
def test_a_contamination_out_of_range_is_refused(share):
    with pytest.raises(InputError, match="share of faulty rows of train"):
        make("pca", contamination=share).fit(calm("noise", 100, 1))


def test_the_paper_trains_on_all_of_train():
    assert PatchAD.paper().contamination == 0
