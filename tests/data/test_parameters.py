from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from patchad import PatchAD
from patchad.data.parameters import fits, parse_assignments
from patchad.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("window=60", 60),
        ("patch_sizes=2,3", (2, 3)),
        ("patch_sizes=(2, 3)", (2, 3)),
        ("patch_sizes=5", (5,)),
        ("threshold=quantile:0.99", "quantile:0.99"),
        ("threshold=3.5", 3.5),
        ("epochs=None", None),
        ("learning_rate=1e-4", 1e-4),
        ("channel_mixer=False", False),
        ("orientation=-1", -1),
        ("device=cpu", "cpu"),
    ],
)
def test_texts_become_what_the_constructor_takes(text, value):
    assert parse_assignments([text], PatchAD) == {text.partition("=")[0]: value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window", "write it as name=value"),
        ("windoww=3", "did you mean 'window'"),
        ("zzz=3", "use one of 'threshold'"),
        ("window=3.5", "an integer is needed"),
        ("window=True", "an integer is needed"),
        ("channel_mixer=1", "True or False is needed"),
        ("patch_sizes=a,b", "a tuple of integers"),
        ("fold=oldest", "'newest' or 'mean' is needed"),
    ],
)
def test_wrong_texts_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_assignments([text], PatchAD)


def test_numbers_of_numpy_fit():
    assert fits(np.int64(3), int)
    assert fits(np.float32(3), float)
    assert not fits(1, Literal["a"])
    assert not fits(True, Literal[1, -1] | None)
