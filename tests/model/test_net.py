from __future__ import annotations

import dataclasses
from typing import get_args

import pytest
import torch
from tests.reference.net_slow import PlainNet

from patchad import PatchAD
from patchad._kernels.backend import Activation
from patchad.errors import InputError
from patchad.model.net import ACTIVATIONS, NetConfig, PatchADNet, sinusoids

CONFIG = NetConfig(
    channels=3,
    window=30,
    patch_sizes=(3, 5),
    d_model=8,
    layers=2,
    layers_mode="stacked",
    activation="gelu",
    view_pooling="none",
    share_channel_mixer=True,
    channel_mixer=True,
    mixrep_mixer=True,
    positional_embedding=True,
    projection=True,
)


def net(**changes) -> PatchADNet:
    torch.manual_seed(0)
    return PatchADNet(dataclasses.replace(CONFIG, **changes))


def size(module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("patch_sizes", [(1,), (2,), (30,), (3, 5), (1, 2, 3, 5, 6, 10, 15, 30)])
@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_shapes_for_any_divisors_of_the_window(patch_sizes, pooling):
    outputs = net(patch_sizes=patch_sizes, view_pooling=pooling)(torch.randn(4, 30, 3))
    channels = 3 if pooling == "none" else 1
    assert len(outputs) == len(patch_sizes)
    for size, out in zip(patch_sizes, outputs, strict=True):
        assert out.inter.shape == out.inter_projected.shape == (channels, 30 // size, 4, 8)
        assert out.intra.shape == out.intra_projected.shape == (channels, size, 4, 8)
        assert out.rec_inter.shape == out.rec_intra.shape == (4, 30, 3)
        torch.testing.assert_close(out.reconstruction, out.rec_inter + out.rec_intra)


VARIANTS = [
    {},
    {"view_pooling": "mean"},
    {"layers": 3, "layers_mode": "parallel"},
    {"activation": "relu"},
    {"share_channel_mixer": False},
    {"channel_mixer": False},
    {"mixrep_mixer": False},
    {"positional_embedding": False},
    {"channels": 1},
    {"window": 12, "patch_sizes": (1, 12)},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("graded", [True, False], ids=["with gradient", "in place"])
def test_the_net_equals_its_plain_twin(changes, graded):
    fast = net(**changes)
    slow = PlainNet(fast.config)
    slow.load_state_dict(fast.state_dict())
    x = torch.randn(4, fast.config.window, fast.config.channels)
    before = x.clone()
    with torch.set_grad_enabled(graded):
        outputs = fast(x)
    assert torch.equal(x, before)
    for found, expected in zip(outputs, slow(x), strict=True):
        for name in ("inter", "intra", "inter_projected", "intra_projected"):
            torch.testing.assert_close(
                getattr(found, name).permute(2, 0, 1, 3), getattr(expected, name), rtol=1e-4, atol=1e-5
            )
        torch.testing.assert_close(found.rec_inter, expected.rec_inter, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.rec_intra, expected.rec_intra, rtol=1e-4, atol=1e-5)


def test_changed_weights_are_fused_again():
    model = net()
    x = torch.randn(2, 30, 3)
    with torch.no_grad():
        before = model(x)[0].inter
        model.load_state_dict({name: 1.5 * value for name, value in model.state_dict().items()})
        after = model(x)[0].inter
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, model(x)[0].inter)


def test_heads_are_optional():
    out = net()(torch.randn(2, 30, 3), project=False, reconstruct=False)[0]
    assert out.inter_projected is out.rec_inter is None
    with pytest.raises(ValueError, match="reconstruct=False"):
        _ = out.reconstruction


def test_hidden_widths_are_a_fifth_wider_than_the_axis_and_d_for_mixrep():
    layer = net(channels=51, window=105).scales[0].layers[0]
    assert layer.channel_inter.widen.out_features == round(1.2 * 51)
    assert layer.inter.widen.out_features == round(1.2 * 35)
    assert layer.intra.widen.out_features == round(1.2 * 3)
    assert layer.mixrep.widen.out_features == 8


def test_views_share_channel_and_mixrep_mixers_but_not_inter_and_intra():
    layer = net().scales[0].layers[0]
    assert layer.channel_inter is layer.channel_intra
    assert layer.inter is not layer.intra
    separate = net(share_channel_mixer=False)
    assert separate.scales[0].layers[0].channel_inter is not separate.scales[0].layers[0].channel_intra
    assert size(separate) > size(net())


@pytest.mark.parametrize("switch", ["channel_mixer", "mixrep_mixer", "projection"])
def test_a_disabled_part_has_no_weights(switch):
    assert size(net(**{switch: False})) < size(net())
    net(**{switch: False})(torch.randn(2, 30, 3))


def test_channels_do_not_mix_without_the_channel_mixer():
    x = torch.randn(1, 30, 3)
    other = x.clone()
    other[..., 2] += 1
    for mixing, same in ((False, True), (True, False)):
        model = net(channel_mixer=mixing)
        first, second = model(x)[0].inter[0], model(other)[0].inter[0]
        assert torch.allclose(first, second) is same


def test_positions_are_added_once_and_can_be_disabled():
    x = torch.randn(2, 30, 3)
    with_positions, without = net(), net(positional_embedding=False)
    torch.testing.assert_close(without(x + sinusoids(30, 3))[1].inter, with_positions(x)[1].inter)


def test_positions_are_those_of_the_transformer():
    found = sinusoids(4, 5)
    for t in range(4):
        for c in range(5):
            angle = torch.tensor(t / 10_000 ** ((c - c % 2) / 5))
            torch.testing.assert_close(found[t, c], angle.sin() if c % 2 == 0 else angle.cos(), atol=1e-6, rtol=0)


def test_reweight_gives_each_layer_its_softmax_weight():
    model = net(layers=3)
    x = torch.randn(2, 30, 3)
    with torch.no_grad():
        for scale in model.scales:
            scale.weights_inter[:] = torch.tensor([100.0, 0.0, 0.0])
            scale.weights_intra[:] = torch.tensor([100.0, 0.0, 0.0])
    one = net(layers=1)
    one.load_state_dict(
        {k: v for k, v in model.state_dict().items() if k in one.state_dict() and "weights" not in k}, strict=False
    )
    torch.testing.assert_close(model(x)[0].inter, one(x)[0].inter)


def test_parallel_layers_all_read_the_embedding():
    stacked, parallel = net(), net(layers_mode="parallel")
    parallel.load_state_dict(stacked.state_dict())
    x = torch.randn(2, 30, 3)
    assert not torch.allclose(stacked(x)[0].inter, parallel(x)[0].inter)
    scale = parallel.scales[0]
    start = scale._embed((x + parallel.positions).permute(2, 1, 0))
    expected = (scale.layers[0](start) + scale.layers[1](start)) / 2
    torch.testing.assert_close(parallel(x)[0].inter, expected[:, :10])


def test_projection_is_linear():
    head = net().scales[0].project_inter
    a, b = torch.randn(5, 8), torch.randn(5, 8)
    torch.testing.assert_close(head(a + b) - head(b), head(a) - head(torch.zeros_like(a)), atol=1e-5, rtol=1e-4)


def test_the_papers_net_is_no_larger_than_the_paper_says():
    detector = PatchAD.paper()
    detector.channels_ = tuple(map(str, range(51)))
    assert size(PatchADNet(detector._net_config(105, (3, 5)))) <= 403_000


def test_activations_are_those_of_the_type():
    assert tuple(ACTIVATIONS) == get_args(Activation)


@pytest.mark.parametrize(
    "wrong",
    [
        {"patch_sizes": (4,)},
        {"patch_sizes": ()},
        {"patch_sizes": (0,)},
        {"d_model": 0},
        {"layers": 0},
        {"layers_mode": "serial"},
        {"activation": "tanh"},
        {"view_pooling": "max"},
    ],
)
def test_impossible_shapes_are_refused(wrong):
    with pytest.raises(InputError, match=r"divide|empty|at least 1|use one of"):
        net(**wrong)
