"""The memory of normal windows."""

import numpy as np
import pytest
import torch
from tests.conftest import small

from patchad import InputError, PatchAD, load
from patchad.data.scaling import SWITCH_WEIGHT, ZScore
from patchad.model.witnesses import Training
from patchad.model.witnesses.memory import MAX_AXES, Memory, Subspace, far_apart

COLUMNS = 5


def waves(rows, seed=0, channels=3):
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None]
    return (np.sin(t / 5 + np.arange(channels)) + 0.05 * rng.standard_normal((rows, channels))).astype(np.float32)


def training(rows, scaler=None, held_out=(), **settings):
    plain = {"window": 30, "distance": "kl", "orientation": 1, "memory": 8_000, "seed": 0} | settings
    unit = ZScore(np.zeros(rows.shape[1]), np.ones(rows.shape[1]), np.zeros(rows.shape[1]))
    return Training(known=[rows], held_out=held_out, scaler=scaler or unit, **plain)


def remember(rows, window=30, values=8_000):
    return Memory.fit(training(rows, window=window, memory=values))


def remembered(window=30):
    return remember(waves(800), window)


def plain_distances(memory, subspace, rows):
    """Do what a subspace does to one window, a subsequence and a step at a time; a list of columns."""
    weighed = rows.astype(np.float64) * memory.weights.numpy() - memory.mean.numpy()
    axes = memory.axes.numpy().astype(np.float64)
    steps, length, grain = len(weighed), subspace.length, subspace.grain
    sums, counts = [np.zeros(steps), np.zeros(steps)], np.zeros(steps)
    ends = sorted({*range(steps, length - 1, -max(length // 4, 1)), length})
    for end in ends:
        subsequence = weighed[end - length : end]
        subsequence = np.array([subsequence[i : i + grain].mean(axis=0) for i in range(0, length, grain)])
        if subspace.centred:
            subsequence = subsequence - subsequence.mean(axis=0)
        coordinates = (subsequence @ axes).ravel() @ subspace.components.numpy()
        rebuilt = (subspace.components.numpy() @ coordinates).reshape(len(subsequence), -1) @ axes.T
        square = np.sum((subsequence - rebuilt) ** 2)
        nearest = 0.0
        if len(subspace.references):
            nearest = np.min(np.sum((coordinates - subspace.references.numpy()) ** 2, axis=1))
        for column, total in enumerate((square, square + nearest)):
            sums[column][end - length : end] += np.sqrt(total * grain / length)
        counts[end - length : end] += 1
    both = [column / counts for column in sums]
    if not len(subspace.references):
        return both[:1]
    return both if subspace.apart else both[1:]


@pytest.mark.parametrize(("window", "channels"), [(1, 3), (2, 3), (7, 3), (30, 3), (60, 3), (30, 12)])
def test_distances_are_those_of_the_nearest_remembered_subsequence(window, channels):
    memory = remember(waves(800, channels=channels), window)
    assert memory.axes.shape == (channels, min(channels, MAX_AXES))
    odd = waves(window, seed=5, channels=channels)
    odd[window // 2] += 3
    odd[:, 0] += 0.3
    found = memory(torch.from_numpy(odd)[None])[0].numpy()
    expected = [column for subspace in memory.subspaces for column in plain_distances(memory, subspace, odd)]
    assert found.shape == (window, len(expected))
    np.testing.assert_allclose(found, np.column_stack(expected), rtol=2e-3, atol=2e-4)


def test_what_no_axis_shows_is_strange():
    rows = waves(800, channels=12)
    memory = remember(rows)
    axes = memory.axes.numpy()
    beside = np.linalg.svd(axes.T)[2][-1]  # orthogonal to all axes
    np.testing.assert_allclose(axes.T @ beside, 0, atol=1e-5)
    calm = waves(30, seed=3, channels=12)
    odd = calm + (3 * beside / memory.weights.numpy()).astype(np.float32)
    both = memory(torch.from_numpy(np.stack([calm, odd])))
    assert (both[1, :, :3] > 4 * both[0, :, :3]).all()  # those that levels count for


def test_references_leave_nothing_of_train_far_away():
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((500, 3)).astype(np.float32) ** 3)
    chosen, evenly = points[far_apart(points, 40)], points[::13]

    def farthest(some):
        return torch.cdist(points, some).amin(1).max()

    assert len(chosen) == 40
    assert farthest(chosen) < farthest(evenly) / 2
    assert far_apart(points[:5], 9).tolist() == [0, 1, 2, 3, 4]
    assert far_apart(torch.zeros(9, 2), 3).tolist() == [0]  # no two are apart
    assert far_apart(points, 0).tolist() == []


def test_scaling_first_changes_nothing_for_channels_that_move():
    rows = waves(800) * [1.0, 10.0, 0.1] + [0.0, 30.0, 0.5]
    scaler = ZScore.fit([rows])
    scaled = Memory.fit(training(rows, scaler))
    plain = remember(rows.astype(np.float32))
    window = rows[None, :30].astype(np.float32)
    given = torch.from_numpy(scaler(window))
    centred = torch.from_numpy(window) - torch.from_numpy(scaler.mean).float()
    torch.testing.assert_close(scaled(given)[..., 3:], plain(centred)[..., 3:], rtol=0.05, atol=0.01)


def test_what_was_seen_is_near_and_what_was_not_is_far():
    memory = remembered()
    calm = torch.from_numpy(np.stack([waves(30, seed=3), waves(30, seed=4)]))
    odd = calm.clone()
    odd[:, 10:20, 1] = 2.0
    assert (memory(odd)[:, 15] > 2 * memory(calm)[:, 15]).all()


def test_only_centred_subspaces_ignore_the_level():
    sizes = {"length": 30, "grain": 1, "apart": False, "components": 4, "references": 50}
    steps = torch.from_numpy(waves(800)).double().unfold(0, 30, 1).transpose(1, 2)
    level, centred = (Subspace.fit(steps, centred=centred, **sizes) for centred in (False, True))
    calm = torch.from_numpy(waves(30, seed=3)).double()[None]
    high = calm + 5
    torch.testing.assert_close(centred(high), centred(calm), rtol=1e-3, atol=1e-4)
    assert (level(high) > 5 * level(calm)).all()


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
    assert memory.size <= 45_000 + (MAX_AXES + 1) * channels  # the axes and the mean


def test_windows_do_not_depend_on_their_neighbours():
    memory = remembered()
    many = torch.from_numpy(np.stack([waves(30, seed=s) for s in range(9)]))
    torch.testing.assert_close(memory(many)[4:5], memory(many[4:5]), rtol=1e-4, atol=1e-6)


def test_short_and_constant_series_are_remembered():
    for rows in (np.zeros((40, 2), np.float32), waves(16)[:, :1]):
        found = remember(rows, 15, 1_000)(torch.from_numpy(rows[None, :15]))
        assert found.isfinite().all()


def test_a_file_brings_the_memory_back(tmp_path):
    train, test = waves(600), waves(100, seed=1)
    detector = PatchAD(window=30, d_model=4, max_steps=5, memory=6_000).fit(train)
    detector.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(again.decision_function(test), detector.decision_function(test), rtol=1e-5)
    assert again.n_parameters_ == detector.n_parameters_ > sum(p.numel() for p in detector.net_.parameters())


@pytest.mark.parametrize(("setting", "more"), [({"memory": 0}, ["surprise"]), ({"score": "residual"}, [])], ids=str)
def test_without_a_memory_the_other_witnesses_are_left(setting, more):
    detector = small(max_steps=5, **setting).fit(waves(1300))
    assert [witness.name for witness in detector.rule_.witnesses] == ["discrepancy", "residual", *more]
    assert np.isfinite(detector.decision_function(waves(100))).all()
    assert Memory.fit(training(waves(100), memory=0)) is None


def test_a_flag_that_first_moves_in_held_out_rows_is_a_switch():
    known, held_out = waves(400), waves(100)
    known[:, 1], held_out[:, 1] = 0, np.arange(100) % 50 == 0
    memory = Memory.fit(training(known, held_out=[held_out]))
    assert memory.weights[1] == pytest.approx(SWITCH_WEIGHT)
    assert Memory.fit(training(known)).weights[1] == 1.0


def test_a_negative_memory_is_refused():
    with pytest.raises(InputError, match="memory=-1"):
        PatchAD(memory=-1).fit(waves(600))


def test_the_newest_steps_are_observed():
    memory = remembered()
    windows = torch.from_numpy(np.stack([waves(30, seed=s) for s in range(3)]))
    torch.testing.assert_close(memory.observe(windows, (), 7), memory(windows)[:, -7:])
    observed = memory(windows)
    torch.testing.assert_close(memory.columns(observed), observed.double())
    torch.testing.assert_close(memory.alone(observed), observed.double().mean(-1, keepdim=True))
    assert memory.attribution(observed.numpy()) is None


def test_rounding_is_nothing_outside_components_that_span_everything():
    rows = np.repeat([[0.0, 0.5, 1.0]], 40, axis=0).reshape(-1, 1).astype(np.float32)  # a period of three rows
    memory = remember(rows, window=15)
    odd = 3 * rows[:15] - 1  # another size of the same
    assert not memory(torch.from_numpy(odd)[None])[..., 0].any()


def test_what_is_not_rebuilt_does_not_depend_on_other_windows():
    rows = np.sin(np.arange(800) / 40).astype(np.float32)[:, None]  # smooth: components leave next to nothing
    memory = remember(rows + 1e-5 * waves(800, channels=1))
    windows = torch.from_numpy(np.stack([rows[i : i + 30] + 1e-5 * waves(30, seed=i, channels=1) for i in range(9)]))
    torch.testing.assert_close(memory(windows)[3:4], memory(windows[3:4]), rtol=1e-6, atol=0)


def test_a_train_without_held_out_rows_has_no_memory_that_finds_all_others_strange():
    found = small(max_steps=5).fit(waves(40))
    assert "memory" not in [witness.name for witness in found.rule_.witnesses]
    rows = waves(300, seed=1)
    rows[200:220, 1] += 3
    alarms = found.predict(rows)
    assert alarms[200:220].any()
    assert alarms.mean() < 0.3
