from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from training.sources import LICENSED

from patchad import InputError
from patchad.datasets import DATASETS
from patchad.errors import ModelFileError
from patchad.model.net import PatchADNet
from patchad.model.pretrained import FILE, Shape, read_weights, write_weights

SHAPE = Shape((3, 5), 8, 1)


@pytest.fixture
def nets():
    return {window: PatchADNet(SHAPE.config(1, window)).eval() for window in (30, 15)}


@pytest.fixture
def path(nets, tmp_path):
    write_weights(tmp_path / "weights.safetensors", SHAPE, nets, {"seed": 3})
    return tmp_path / "weights.safetensors"


def test_weights_come_back_in_half_precision_with_their_card(nets, path):
    found = read_weights(str(path))
    assert list(found.nets) == [15, 30]
    assert found.shape == SHAPE == found.origin.shape
    assert found.card["seed"] == 3
    assert len(found.digest) == 64
    net = PatchADNet(SHAPE.config(4, 30))
    found.load_into(net)
    for name, tensor in nets[30].state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)


def test_a_channel_does_not_see_the_others(nets, path):
    wide = PatchADNet(SHAPE.config(3, 30))
    read_weights(str(path)).load_into(wide)
    read_weights(str(path)).load_into(nets[30])
    windows = torch.randn(2, 30, 3)
    with torch.no_grad():
        together = wide(windows)[0].reconstruction
        alone = [nets[30](windows[..., [c]])[0].reconstruction for c in range(3)]
    torch.testing.assert_close(together, torch.cat(alone, 2))


def test_the_longest_window_that_fits_is_used(path):
    found = read_weights(str(path))
    assert [found.window(most) for most in (10, 15, 29, 30, 500)] == [15, 15, 15, 30, 30]


def test_short_windows_have_narrow_nets():
    shape = Shape((3, 5), 32, 3)
    assert [shape.config(1, window).d_model for window in (15, 30, 60, 120)] == [8, 8, 16, 32]


def test_a_file_that_changed_is_read_again(nets, path):
    before = read_weights(str(path)).digest
    write_weights(path, SHAPE, nets, {"seed": 4})
    assert read_weights(str(path)).digest != before


def _damaged(content: bytes, damage: str) -> bytes:
    arrays, length = load(content), int.from_bytes(content[:8], "little")
    card = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["card"])
    if damage == "cut off":
        return content[:-8]
    if damage == "no card":
        return save(arrays)
    if damage == "an array less":
        arrays.popitem()
    if damage == "an array more":
        arrays["15.more"] = np.zeros(1)
    if damage == "another shape":
        arrays["30.scales.0.weights_inter"] = np.zeros(7)
    if damage == "another width":
        card["d_model"] = 6
    if damage == "a width of millions":
        card["d_model"] = 10**8
    if damage == "layers by the million":
        card["layers"] = 10**8
    return save(arrays, {"card": json.dumps(card)})


DAMAGES = (
    *("cut off", "no card", "an array less", "an array more", "another shape", "another width"),
    *("a width of millions", "layers by the million"),
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(path, damage):
    path.write_bytes(_damaged(path.read_bytes(), damage))
    with pytest.raises(ModelFileError, match="holds no pretrained weights"):
        read_weights(str(path))


def test_unknown_weights_are_refused(tmp_path):
    with pytest.raises(InputError, match="there are no weights"):
        read_weights(str(tmp_path / "absent"))


def test_the_weights_of_the_package_are_small_and_name_what_they_have_seen():
    weights = read_weights("pretrained")
    assert FILE.stat().st_size < 1_000_000
    assert list(weights.nets) == [15, 30, 60, 120]
    assert set(weights.card["families"]) == set(LICENSED)
    assert weights.card["left_out"] is None
    page = (Path(__file__).parents[2] / "docs" / "pretrained.md").read_text()
    assert weights.digest in page
    assert all(name in page and DATASETS[name].licence == licence for name, licence in weights.card["families"].items())
