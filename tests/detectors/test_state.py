"""Learned values as arrays and JSON facts, and back."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.conftest import small, waves
from torch import Tensor, nn
from typing_extensions import TypeAliasType, TypeVar

from patchad import ModelFileError, load, make
from patchad.cli.main import run
from patchad.data.scaling import TailScale, ZScore
from patchad.data.table import FloatArray
from patchad.detectors import checkpoint
from patchad.detectors.state import State
from patchad.model.distances import DistanceName
from patchad.model.score import ScoreRule
from patchad.model.witnesses import Witness
from patchad.model.witnesses.discrepancy import Discrepancy
from patchad.model.witnesses.residual import Residual


@dataclass(frozen=True)
class Inner:
    pairs: NDArray[np.int64]
    scale: TailScale | None


@dataclass(frozen=True)
class Outer:
    count: int
    share: float
    kind: DistanceName
    bare: bool
    text: str | None
    weights: Tensor
    values: FloatArray
    parts: tuple[Inner, ...]
    sizes: tuple[int, ...]
    witnesses: tuple[Witness, ...]


Kind = TypeVar("Kind", bound=np.generic)
Alias = TypeAliasType("Alias", np.ndarray[tuple[int, ...], np.dtype[Kind]], type_params=(Kind,))


def test_arrays_are_known_where_their_type_is_an_alias():
    state = stored(np.ones(3))
    np.testing.assert_array_equal(state.take("value", Alias[np.floating]), np.ones(3))
    with pytest.raises(ModelFileError, match="float64, which does not fit"):
        state.take("value", Alias[np.integer])


def through_json(state: State) -> State:
    """Return what a file would hold of the state."""
    return State(dict(state.arrays), json.loads(json.dumps(state.facts)))


def stored(value: object) -> State:
    state = State()
    state.put("value", value)
    return through_json(state)


def assert_equal(one: object, other: object) -> None:
    """Compare two values of any kind that a state can hold."""
    assert type(one) is type(other)
    if is_dataclass(one):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    elif isinstance(one, Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


scales = st.integers(0, 3).map(lambda n: TailScale(np.arange(float(n)), np.ones(n)))
inners = st.builds(Inner, st.integers(0, 3).map(lambda n: np.zeros((n, 2), np.int64)), st.none() | scales)
witnesses = st.builds(Discrepancy, st.sampled_from(["kl", "l2"]), st.sampled_from([1, -1]), scales, scales) | st.builds(
    Residual, by_channel=scales, summary=scales
)
outers = st.builds(
    Outer,
    count=st.integers(),
    share=st.floats(allow_nan=False, allow_infinity=False),
    kind=st.sampled_from(["kl", "wasserstein"]),
    bare=st.booleans(),
    text=st.none() | st.text(),
    weights=st.integers(0, 4).map(lambda n: torch.arange(n, dtype=torch.float32)),
    values=st.just(np.array(0.5)) | st.just(np.eye(3, dtype=np.float32)),
    parts=st.lists(inners, max_size=3).map(tuple),
    sizes=st.lists(st.integers(), max_size=3).map(tuple),
    witnesses=st.lists(witnesses, max_size=3).map(tuple),
)


@given(outers)
def test_nested_values_come_back(value):
    assert_equal(stored(value).take("value", Outer), value)


def test_what_a_detector_learned_comes_back(fitted):
    again = stored(fitted.rule_).take("value", ScoreRule)
    assert_equal(again, fitted.rule_)
    assert [type(one) for one in again.witnesses] == [type(one) for one in fitted.rule_.witnesses]


def test_a_number_of_numpy_is_a_number():
    state = stored(np.float32(0.5))
    assert state.facts == {"value": 0.5}
    assert stored(np.int64(3)).take("value", int) == 3


def test_a_net_comes_back():
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    state = stored(net)
    state.check_shapes("value", other)
    state.load_into("value", other)
    assert_equal(tuple(other.state_dict().values()), tuple(net.state_dict().values()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(ModelFileError, match=r"'value.mean' holds values that are not finite"):
        stored(ZScore(np.array([0.0, bad]), np.ones(2), np.zeros(2))).take("value", ZScore)
    with pytest.raises(ModelFileError, match="'value' holds values"):
        stored(torch.tensor([bad])).take("value", Tensor)
    with pytest.raises(ModelFileError, match="'value' is"):
        stored(float(bad)).take("value", float)
    net = nn.Linear(2, 1)
    nn.init.constant_(net.bias, bad)
    with pytest.raises(ModelFileError, match=r"'value.bias' holds values"):
        stored(net).check_shapes("value", nn.Linear(2, 1))


def test_what_is_missing_is_named():
    scale = stored(ZScore(np.zeros(2), np.ones(2), np.zeros(2)))
    del scale.arrays["value.spread"]
    with pytest.raises(ModelFileError, match=r"array 'value.spread' is missing"):
        scale.take("value", ZScore)
    with pytest.raises(ModelFileError, match="value 'other' is missing"):
        scale.take("other", int)
    parts = stored((1, 2, 3))
    del parts.facts["value.1"]
    with pytest.raises(ModelFileError, match=r"value 'value.1' is missing"):
        parts.take("value", tuple[int, ...])
    net = stored(nn.Linear(2, 1))
    del net.arrays["value.bias"]
    with pytest.raises(ModelFileError, match=r"array 'value.bias' is missing"):
        net.check_shapes("value", nn.Linear(2, 1))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("text", int),
        (3, str),
        (True, int),
        ("cosine", DistanceName),
        ("text", tuple[int, ...]),
        (None, int),
        ([1], int | None),
        ({"a": 1}, TailScale),
        (np.zeros(2), NDArray[np.int64]),
        (np.zeros(2, np.int64), FloatArray),
    ],
)
def test_values_of_another_type_are_refused(value, kind):
    with pytest.raises(ModelFileError):
        stored(value).take("value", kind)


@pytest.mark.parametrize("variant", ["oracle", 3, None, ["residual"]])
def test_unknown_witnesses_are_refused(variant):
    state = stored(Residual())
    state.facts["value.variant"] = variant
    with pytest.raises(ModelFileError, match=r"variant|not known here"):
        state.take("value", Witness)


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ModelFileError, match=r"value.weight has shape \(1, 2\), expected \(1, 3\)"):
        stored(nn.Linear(2, 1)).check_shapes("value", nn.Linear(3, 1))
    with torch.device("meta"):
        huge = nn.Linear(100_000, 100_000)
    with pytest.raises(ModelFileError, match=r"expected \(100000, 100000\)"):
        stored(nn.Linear(2, 1)).check_shapes("value", huge)


# -- whole files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    detector = small(max_steps=2, d_model=4).fit(waves(200))
    return detector.save(tmp_path_factory.mktemp("model") / "model.safetensors")


def altered(model, tmp_path, change) -> object:
    """Write the model again after `change(header, arrays)`, with a good checksum."""
    header, arrays = checkpoint.read(model)
    facts = {name: header.pop(name) for name in ("format", "patchad_version", "checksum")}
    assert facts["format"] == str(checkpoint.FORMAT)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(header, arrays)
    path = tmp_path / "altered.safetensors"
    checkpoint.write(path, header, arrays)
    return path


def fill(name, value):
    def change(header, arrays):
        arrays[name].flat[0] = value

    return change


def cut(name):
    def change(header, arrays):
        arrays[name] = arrays[name][..., :-1]

    return change


def put(*path, value):
    """Return a change of the header at this path."""

    def change(header, arrays):
        for name in path[:-1]:
            header = header[name]
        header[path[-1]] = value

    return change


CHANGES = {
    "NaN weight": fill("net_.scales.0.embed_inter.weight", np.nan),
    "infinite scale": fill("scaler_.spread", np.inf),
    "NaN reference": fill("rule_.witnesses.2.subspaces.2.references", np.nan),
    "NaN train score": fill("train_scores", np.nan),
    "short weight": cut("net_.scales.0.embed_inter.weight"),
    "short scaler": cut("scaler_.mean"),
    "short memory": cut("rule_.witnesses.2.subspaces.2.components"),
    "short medians": cut("initial"),
    "short likeness": cut("likeness_.radius"),
    "flat pieces": lambda _, arrays: arrays.update({"likeness_.pieces": np.zeros((3, 3))}),
    "feedback without patterns": put("learned", "feedback_", value=1),
    "no array": lambda _, arrays: arrays.pop("rule_.relations.unit"),
    "partner out of range": lambda _, arrays: arrays.update({"rule_.relations.pairs": np.array([[0, 77]])}),
    "no header": lambda header, _: header.clear(),
    "learned is a list": put("learned", value=[]),
    "learned is a number": put("learned", value=3),
    "window is a text": put("learned", "window_", value="long"),
    "window is negative": put("learned", "window_", value=-30),
    "witnesses are many": put("learned", "rule_.witnesses", value=10**9),
    "unknown witness": put("learned", "rule_.witnesses.0.variant", value="oracle"),
    "orientation is a list": put("learned", "rule_.witnesses.0.orientation", value=[1]),
    "emphasis is not finite": put("learned", "rule_.emphasis", value=float("nan")),
    "parameters are a list": put("parameters", value=[1, 2]),
    "unknown parameter": put("parameters", "speed", value=3),
    "parameter of another type": put("parameters", "hop", value="often"),
    "parameter out of range": put("parameters", "merge_gap", value=-1),
    "unknown threshold": put("parameters", "threshold", value="atuo"),
    "threshold is not known": put("parameters", "threshold", value={"name": "mine"}),
    "channels are numbers": put("channels", value=[1, 2, 3]),
    "channels are one text": put("channels", value="abc"),
    "another channel": put("channels", value=["a", "b", "c", "d"]),
    "no channel": put("channels", value=[]),
    "named is a number": put("named", value=1),
    "notes are numbers": put("notes", value=[1]),
    "nothing held out": put("held_out", value=[]),
    "held out beyond the end": put("held_out", value=[[10**9, 10**9 + 5]]),
    "held out is no range": put("held_out", value=[[1]]),
    "held out is a text": put("held_out", value="all"),
    "detector is a list": put("detector", value=["patchad"]),
    "another detector": put("detector", value="sub_pca"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_do_not_fit_are_refused_with_one_line(model, tmp_path, capsys, name):
    path = altered(model, tmp_path, CHANGES[name])
    with pytest.raises(ModelFileError, match=r"altered\.safetensors"):
        load(path)
    assert run(["detect", str(path), str(path)]) == 2
    talk = capsys.readouterr().err.strip()
    assert talk.startswith("error: ")
    assert "\n" not in talk


@pytest.mark.parametrize(
    "metadata",
    [{"format": "²"}, {"format": "9" * 5000}, {"header": "[" * 100_000}, {"header": "[]"}, {"header": "{"}],
    ids=["superscript", "long", "deep", "list", "torn"],
)
def test_odd_metadata_are_refused(model, tmp_path, metadata):
    from tests.detectors.test_checkpoint import with_metadata

    path = tmp_path / "odd.safetensors"
    path.write_bytes(with_metadata(model.read_bytes(), **metadata))
    with pytest.raises(ModelFileError, match=r"odd\.safetensors"):
        load(path)


def test_an_unchanged_file_written_again_loads(model, tmp_path):
    """What `altered` makes must be refused for the change alone."""
    path = altered(model, tmp_path, lambda *_: None)
    np.testing.assert_array_equal(load(path).decision_function(waves(80)), load(model).decision_function(waves(80)))


@pytest.mark.parametrize(("name", "value"), [("d_model", 8_000), ("layers", 40)])
def test_a_file_that_claims_a_huge_net_is_refused_before_one_is_built(model, tmp_path, name, value):
    path = altered(model, tmp_path, put("parameters", name, value=value))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=r"expected|missing"):
        load(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 500_000  # KiB; a net of width 8,000 takes 4 GB


def test_files_of_baselines_are_checked_too(tmp_path):
    model = make("usad", window=10, max_steps=1).fit(waves(100)).save(tmp_path / "usad.safetensors")
    for change in (put("parameters", "latent", value=10**6), put("learned", "window_", value=10**6)):
        with pytest.raises(ModelFileError, match=r"expected|shape"):
            load(altered(model, tmp_path, change))
