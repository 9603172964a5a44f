"""The memory of normal windows, and the witnesses that a fused score is made of."""

import numpy as np
import pytest
import torch

from patchad import InputError, PatchAD, load
from patchad.data.scaling import ZScore
from patchad.model.score import EMPHASIS, ScoreRule
from patchad.model.witnesses.memory import PARTS, SWITCH_WEIGHT, Memory, Part


def waves(rows, seed=0, channels=3):
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None]
    return (np.sin(t / 5 + np.arange(channels)) + 0.05 * rng.standard_normal((rows, channels))).astype(np.float32)


def remember(rows, window=30, values=8_000):
    unit = ZScore(np.zeros(rows.shape[1]), np.ones(rows.shape[1]))
    return Memory.fit([rows], unit, window=window, values=values, seed=0)


def remembered(window=30):
    return remember(waves(800), window)


def plain_distances(part, weighed):
    """Do what a part does to one window, a stretch and a step at a time."""
    steps = len(weighed)
    apart, counts = np.zeros(steps), np.zeros(steps)
    ends = sorted({*range(steps, part.length - 1, -max(part.length // 4, 1)), part.length})
    for end in ends:
        stretch = weighed[end - part.length : end].astype(np.float64)
        if part.centred:
            stretch = stretch - stretch.mean(axis=0)
        flat = stretch.ravel() - part.mean.numpy()
        lie = flat @ part.directions.numpy()
        square = np.sum((flat - part.directions.numpy() @ lie) ** 2)
        if len(part.places):
            square += np.min(np.sum((lie - part.places.numpy()) ** 2, axis=1))
        apart[end - part.length : end] += np.sqrt(square / part.length)
        counts[end - part.length : end] += 1
    return apart / counts


@pytest.mark.parametrize("window", [1, 2, 7, 30, 60])
def test_distances_are_those_of_the_nearest_remembered_stretch(window):
    memory = remembered(window=window)
    odd = waves(window, seed=5)
    odd[window // 2] += 3
    found = memory(torch.from_numpy(odd)[None])[0].numpy()
    assert found.shape == (window, PARTS)
    weighed = odd * memory.weights.numpy()
    for column, part in enumerate(memory.parts):
        np.testing.assert_allclose(found[:, column], plain_distances(part, weighed), rtol=2e-3, atol=2e-4)


def test_scaling_first_changes_nothing_for_channels_that_move():
    rows = waves(800) * [1.0, 10.0, 0.1] + [0.0, 30.0, 0.5]
    scaler = ZScore.fit([rows])
    scaled = Memory.fit([rows], scaler, window=30, values=8_000, seed=0)
    plain = remember(rows.astype(np.float32))
    window = rows[None, :30].astype(np.float32)
    given = torch.from_numpy(scaler(window))
    centred = torch.from_numpy(window) - torch.from_numpy(scaler.mean).float()
    torch.testing.assert_close(scaled(given)[..., 2:], plain(centred)[..., 2:], rtol=0.05, atol=0.01)


def test_what_was_seen_is_near_and_what_was_not_is_far():
    memory = remembered()
    calm = torch.from_numpy(np.stack([waves(30, seed=3), waves(30, seed=4)]))
    odd = calm.clone()
    odd[:, 10:20, 1] = 2.0
    assert (memory(odd)[:, 15] > 2 * memory(calm)[:, 15]).all()


def test_a_level_of_its_own_is_forgiven_by_the_centred_parts_only():
    part = {
        centred: Part.fit([waves(800)], np.copy, length=30, centred=centred, directions=4, places=50, seed=0)
        for centred in (False, True)
    }
    calm = torch.from_numpy(waves(30, seed=3))[None]
    high = calm + 5
    torch.testing.assert_close(part[True](high), part[True](calm), rtol=1e-3, atol=1e-4)
    assert (part[False](high) > 5 * part[False](calm)).all()


def test_a_switch_counts_less_and_a_channel_that_never_moves_keeps_its_unit():
    rows = waves(400)
    rows[:, 1] = np.arange(400) % 50 == 0
    rows[:, 2] = 7.0
    weights = remember(rows, 20, 4_000).weights.numpy()
    assert weights[0] == pytest.approx(1 / np.ptp(rows[:, 0]))
    assert weights[1] == pytest.approx(SWITCH_WEIGHT)
    assert weights[2] == 1.0


@pytest.mark.parametrize("channels", [1, 8, 38, 123])
def test_it_keeps_to_its_size(channels):
    memory = remember(waves(3000, channels=channels), 60, 45_000)
    least = 2 * 80 * channels * 2 + 2 * 100  # a direction and a mean for each part, and a hundred places
    assert memory.size <= max(45_000, least) + 2 * 16 * 100


def test_windows_do_not_depend_on_their_neighbours():
    memory = remembered()
    many = torch.from_numpy(np.stack([waves(30, seed=s) for s in range(9)]))
    torch.testing.assert_close(memory(many)[4:5], memory(many[4:5]), rtol=1e-4, atol=1e-6)


def test_short_and_constant_series_are_remembered():
    for rows in (np.zeros((40, 2), np.float32), waves(16)[:, :1]):
        found = remember(rows, 15, 1_000)(torch.from_numpy(rows[None, :15]))
        assert found.isfinite().all()


def test_ranges_keep_rare_moves_small():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal(1000), np.zeros(1000), np.zeros(1000)])
    rows[500, 1], rows[600, 2], rows[700, 2] = 1.0, 1.0, 0.5
    plain = ZScore.fit([rows])
    calm = plain.with_ranges([rows])
    assert plain(rows)[500, 1] > 30
    assert calm(rows)[500, 1] == pytest.approx(
        0.8, abs=0.01
    )  # a switch: four spreads in its range, and a fifth of that
    assert calm(rows)[600, 2] == pytest.approx(4, abs=0.05)
    assert 1 <= calm.spread[0] / plain.spread[0] < 2


def test_two_witnesses_make_the_score():
    rule = ScoreRule.fit(
        "fused", 1, np.random.default_rng(0).random((50, 4, 2)), np.random.default_rng(1).random((50, 4, 2))
    )
    held_out = np.random.default_rng(2).random((500, 6))
    rule = rule.with_witnesses(held_out)
    said = np.full((1, 6), 0.5)
    said[0, 3] = 50.0
    one = rule.combine(said)[0]
    said[0, 1] = 50.0
    two = rule.combine(said)[0]
    said[0, 0] = 50.0
    assert one ** (1 / EMPHASIS) == pytest.approx(two ** (1 / EMPHASIS) / 2, rel=0.05)
    assert rule.combine(said)[0] == pytest.approx(two, rel=0.07)


def test_of_what_has_lasted_the_root_counts():
    noise, held_out = np.random.default_rng(0).random((50, 4, 2)), np.random.default_rng(2).random((500, 1))
    rule = ScoreRule.fit("fused", 1, noise, noise).with_witnesses(held_out.repeat(6, axis=1))
    said = np.full((400, 6), 0.5)
    said[100:] = 50.0
    said[350:] = 80.0
    plain, adapted = (rule.combine(said, rows) for rows in (0, 100))
    np.testing.assert_array_equal(adapted[:149], plain[:149])  # for half of the rows that it remembers, all counts
    np.testing.assert_array_equal(rule.combine(said[:300], 100), adapted[:300])
    was, now, left, new = (score ** (1 / EMPHASIS) for score in (plain[349], plain[350], adapted[349], adapted[350]))
    assert left == pytest.approx(np.sqrt(was))
    assert new == pytest.approx(now - was + np.sqrt(was))  # what is new counts whole


def test_a_plant_that_changed_for_good_does_not_alarm_for_ever(tmp_path):
    train, test = waves(1500), waves(1500, seed=1)
    test[300:, 0] += 0.6
    settings = {"window": 30, "d_model": 4, "max_steps": 20, "random_state": 0}
    plain, adapting = (PatchAD(**settings, adapt=rows).fit(train) for rows in (0, 300))
    before, after = plain.decision_function(test), adapting.decision_function(test)
    assert after[300:400].mean() == pytest.approx(before[300:400].mean(), rel=0.1)
    assert before[700:].mean() > 0.8 * before[330:400].mean() > 5
    assert after[700:].mean() < 0.6 * before[700:].mean()
    path = adapting.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(path).decision_function(test), after)
    with pytest.raises(InputError, match="adapt=-1 is out of range"):
        PatchAD(adapt=-1).fit(train)


def test_a_file_from_before_the_adaptation_scores_as_it_did(tmp_path):
    train, test = waves(600), waves(200, seed=1)
    test[50:] += 0.6
    detector = PatchAD(window=30, d_model=4, max_steps=5).fit(train)
    arrays, facts = detector._state()
    older = load(detector.save(tmp_path / "m.safetensors"))
    older._restore(arrays, {name: fact for name, fact in facts.items() if name not in ("adapt", "emphasis")})
    heard = older.rule_.combine(older._folded(test, explain=False)[0], adapt=0, emphasis=1.0)
    np.testing.assert_allclose(older._combine(older._folded(test, explain=False)[0]), heard)
    assert heard[150:].mean() != pytest.approx(detector.decision_function(test)[150:].mean(), rel=0.1)


def test_a_file_brings_the_memory_back(tmp_path):
    train, test = waves(600), waves(100, seed=1)
    detector = PatchAD(window=30, d_model=4, max_steps=5, memory=6_000).fit(train)
    detector.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(again.decision_function(test), detector.decision_function(test), rtol=1e-5)
    assert again.n_parameters_ == detector.n_parameters_ > sum(p.numel() for p in detector.net_.parameters())


def test_without_a_memory_the_net_alone_speaks(tmp_path):
    detector = PatchAD(window=30, d_model=4, max_steps=5, memory=0).fit(waves(600))
    assert detector.memory_ is None
    assert detector.columns == 2
    assert np.isfinite(detector.decision_function(waves(100))).all()


def test_a_negative_memory_is_refused():
    with pytest.raises(InputError, match="memory=-1"):
        PatchAD(memory=-1).fit(waves(600))
