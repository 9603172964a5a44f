"""Small cases whose values are derived in the comments, from the definitions and without a program."""

from __future__ import annotations

import math

import numpy as np
import pytest

from patchad import metrics

LABELS = [0, 0, 1, 1, 0, 0, 0, 0]
ALARMS = [0, 0, 0, 1, 1, 0, 0, 0]
EVENT = [0, 0, 1, 0, 0]
C = math.sqrt(1 / 2)  # the slope beside an event, at distance 1 in a window of 2


def near(value):
    return pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accuracy", 6 / 8),
        ("precision", 1 / 2),
        ("recall", 1 / 2),
        ("f1", 1 / 2),
        ("mcc", 4 / 12),  # tp 1, fp 1, fn 1, tn 5: (1 * 5 - 1 * 1) / sqrt(2 * 2 * 6 * 6)
        ("pa_f1", 4 / 5),  # points 2 and 3 are adjusted, point 4 is false: precision 2/3, recall 1
        ("pa_k_f1", 4 / 5),  # half of the event alarms, more than 20 percent
        ("event_f1", 10 / 11),  # the event is detected, no run is false, 5 of 6 normal points have no alarm: 5/6 and 1
        ("composite_f1", 2 / 3),  # precision of points 1/2, recall of events 1
    ],
)
def test_one_event_half_covered(name, value):
    assert getattr(metrics, name)(labels=LABELS, alarms=ALARMS) == near(value)


def test_pa_k_needs_more_than_k_percent():
    assert metrics.pa_k_f1(labels=LABELS, alarms=ALARMS, k=50) == near(1 / 2)
    assert metrics.pa_k_f1(labels=LABELS, alarms=ALARMS, k=49) == near(4 / 5)


def test_affiliation_of_one_event_half_covered():
    # Zone [0, 8), event [2, 4), alarm [3, 5). Alarm times in [3, 4) earn 1. At distance d after the event, the times
    # of the zone that are farther are 2 - d before and 4 - d after it: (6 - 2d) / 8, averaged over d 5/8.
    # Event times in [3, 4) earn 1. At y in [2, 3), 3 - y from the alarm, farther are 2y - 3 before and 5 after:
    # (2y + 2) / 8, on average 7/8.
    precision, recall = (1 + 5 / 8) / 2, (1 + 7 / 8) / 2
    got = metrics.affiliation(labels=LABELS, alarms=ALARMS)
    assert got == near((precision, recall, 2 * precision * recall / (precision + recall)))


def test_affiliation_of_an_event_at_the_border():
    # Zone [0, 4), event [0, 1), alarm [3, 4): distances 2 to 3, farther are 3 - d of 4, on average 1/8. An event
    # time y is 3 - y from the alarm; nothing before it is farther, and after it the last 1 of 4.
    got = metrics.affiliation(labels=[1, 0, 0, 0], alarms=[0, 0, 0, 1])
    assert got[:2] == near((1 / 8, 1 / 4))


def test_affiliation_averages_precision_over_zones_with_alarms_only():
    # The zones meet at 4. The second has no alarm: recall 0, and it is excluded from precision.
    precision, recall, _ = metrics.affiliation(labels=[0, 0, 1, 0, 0, 1, 0, 0], alarms=[0, 0, 1, 0, 0, 0, 0, 0])
    assert (precision, recall) == near((1.0, 0.5))


def test_range_based_and_etapr_of_one_event_half_covered():
    # Half of the run is anomalous. The event is detected (0.2) and half covered in one piece (0.8 * 1/2).
    assert metrics.range_based(labels=LABELS, alarms=ALARMS) == near((1 / 2, 3 / 5, 6 / 11))
    # Both halves suffice, for 0.5 and 0.1: each earns (1 + 1/2) / 2.
    assert metrics.etapr(labels=LABELS, alarms=ALARMS) == near((3 / 4, 3 / 4, 3 / 4))


def test_range_based_divides_by_the_number_of_overlaps():
    # Two runs cover half of the event of 4: 0.2 + 0.8 * (1/2) / 2. Each run is inside the event.
    assert metrics.range_based(labels=[1, 1, 1, 1, 0], alarms=[1, 0, 1, 0, 0])[:2] == near((1.0, 0.4))


def test_etapr_discards_what_an_insufficient_run_covers():
    # The run [0, 5) is 2/5 anomalous, less than half: it is false, and its overlap with the event is removed. The run
    # [6, 7) is correct; the event [3, 7) keeps 1/4. Recall (1 + 1/4) / 2; precision weighs 0 by sqrt(5) and 1 by 1.
    got = metrics.etapr(labels=[0, 0, 0, 1, 1, 1, 1, 0], alarms=[1, 1, 1, 1, 1, 0, 1, 0])
    assert got[:2] == near((1 / (1 + math.sqrt(5)), 5 / 8))


def test_delay_counts_from_the_start_and_misses():
    got = metrics.detection_delay(labels=[0, 1, 1, 1, 0, 1, 1, 0, 1], alarms=[1, 0, 0, 1, 0, 1, 0, 0, 0])
    assert got == (1.0, 1.0, 2, 1)
    nothing = metrics.detection_delay(labels=LABELS, alarms=[0] * 8)
    assert np.isnan(nothing[:2]).all()
    assert nothing[2:] == (0, 1)


def test_curves_over_points():
    labels, scores = [0, 1, 0, 1, 0], [0.5, 0.5, 0.9, 0.7, 0.1]
    # 0.7 beats two of three normal points; 0.5 beats one and ties with one.
    assert metrics.roc_auc(labels=labels, scores=scores) == near((2 + 1.5) / 6)
    # Recall 1/2 at precision 1/2 (from 0.7 up), then 1 at precision 2/4 (from 0.5 up).
    assert metrics.pr_auc(labels=labels, scores=scores) == near(1 / 2)
    assert metrics.oracle_f1(labels=labels, scores=scores) == near(2 / 3)  # from 0.5 up: precision 1/2, recall 1


def test_oracle_pa_f1_alarms_above_a_score():
    # Above 0.5: the event of 2 is adjusted from its 0.7, and 0.9 is false: precision 2/3, recall 1.
    assert metrics.oracle_pa_f1(labels=[0, 1, 1, 0], scores=[0.9, 0.5, 0.7, 0.1]) == near(4 / 5)
    # The event has only the lowest score: no score is lower, so nothing can alarm there.
    assert metrics.oracle_pa_f1(labels=[0, 1, 0], scores=[0.9, 0.1, 0.3]) == 0.0


SCORES = [0.1, 0.5, 0.8, 0.9, 0.0]  # thresholds, in turn, alarm at 3; 3, 2; 3, 2, 1; all but 4; all


def test_vus_opt_of_one_point():
    # Windows 0 and 1 have no slopes. ROC: one false alarm of four, then the hit: 3/4. PR: recall 1 at precision 1/2.
    # Window 2 has the soft label C at 1 and 3. First threshold: hits C, positives 1 + C/2, all detected, precision C;
    # second: recall 1, hits 1 + C of 2 alarms; after that recall stays 1. False: 1 - C of 4 - C/2, at both.
    recall, false_rate = C / (1 + C / 2), (1 - C) / (4 - C / 2)
    roc = false_rate * recall / 2 + (1 - false_rate)
    pr = recall * C + (1 - recall) * (1 + C) / 2
    got = metrics.vus(labels=EVENT, scores=SCORES, window=2, thresholds=5)
    assert got == near(((3 / 4 + 3 / 4 + roc) / 3, (1 / 2 + 1 / 2 + pr) / 3))


def test_range_auc_of_one_point_in_both_families():
    # Legacy, window 2: the slope after the event is a point shorter, so only 1 is soft. Positives are 1 + C/2 always.
    # Hits 0, 1, 1 + C, ...; precision 0, 1/2, (1 + C)/3; recall 0, 1/(1 + C/2), 1. Trapezoids from precision 1.
    recall = 1 / (1 + C / 2)
    pr = recall * (0 + 1 / 2) / 2 + (1 - recall) * (1 / 2 + (1 + C) / 3) / 2
    got = metrics.range_auc(labels=EVENT, scores=SCORES, window=2, thresholds=5, family="legacy")
    assert got.pr == near(pr)
    # Opt, window 2: soft at 1 and 3, positives 1 + C. Hits C, 1 + C; recall C/(1 + C), 1; precision C, (1 + C)/2.
    recall = C / (1 + C)
    pr = recall * (1 + C) / 2 + (1 - recall) * (C + (1 + C) / 2) / 2
    got = metrics.range_auc(labels=EVENT, scores=SCORES, window=2, thresholds=5)
    assert got.pr == near(pr)


def test_pate_of_one_point():
    # Useful thresholds are 1.0, 0.8 and 0.2. Without a late buffer: recall 0 at precision 0, then 1 at 1/2: area 1/4.
    # With rows 3 and 4 as late buffer, row 3 weighs 1 - 1/2. At 1.0: precision 1/2, recall (1/2) / (3/2); at 0.8:
    # precision 3/4, recall 1. Area 1/3 * (1 + 1/2)/2 + 2/3 * (1/2 + 3/4)/2 = 2/3. Early buffers only matter at 0.2.
    got = metrics.pate(labels=EVENT, scores=[0.2, 0.6, 0.8, 1.0, 0.4], window=2, thresholds=3)
    assert got == near((1 / 4 + 2 / 3) / 2)


def test_point_adjust_extends_alarms_to_detected_events_only():
    adjusted = metrics.point_adjust(labels=[1, 1, 0, 1, 1], alarms=[0, 1, 1, 0, 0])
    assert adjusted.tolist() == [True, True, True, False, False]
