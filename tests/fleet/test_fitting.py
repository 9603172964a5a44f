"""A model for every series: trained alone, shared, or shared and tuned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.conftest import WATCHED, waves

from patchad import PatchAD, load
from patchad.cli.main import run

SET = [
    word for one in ("window=12", "patch_sizes=3", "max_steps=5", "d_model=4", "layers=1") for word in ("--set", one)
]
PARAMETERS = {"window": 12, "patch_sizes": (3,), "max_steps": 5, "d_model": 4, "layers": 1}


def normal(number: int, rows: int = 200) -> pd.DataFrame:
    frame = pd.DataFrame(10 * number + (number + 1) * waves(rows, seed=number).round(4), columns=WATCHED)
    frame.insert(0, "time", pd.date_range("2026-01-01", periods=rows, freq="min"))
    return frame.assign(site="north")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "train"
    path.mkdir()
    for number in range(3):
        normal(number).to_csv(path / f"m{number}.csv", index=False)
    return path


@pytest.fixture
def fit(folder, tmp_path):
    def call(*options: str, out: str = "models") -> int:
        words = ["fleet", "fit", str(folder), "-o", str(tmp_path / out), "--workers", "1", *SET, *options]
        return run(words)

    call.out = tmp_path / "models"
    return call


def manifest(out) -> pd.DataFrame:
    return pd.read_csv(out / "manifest.csv", keep_default_na=False)


def test_every_series_has_the_model_that_fit_makes_of_it(fit, folder, tmp_path, capsys):
    (folder / "broken.csv").write_text('a,b\n1,"2\n')
    normal(0, rows=10).to_csv(folder / "short.csv", index=False)
    assert fit() == 2
    assert list(manifest(fit.out)) == ["series", "rows", "channels", "seconds", "error"]
    found = manifest(fit.out).set_index("series")
    assert [name for name, error in found["error"].items() if error] == ["short", "broken"]
    assert (found.loc[["m0", "m1", "m2"], "channels"] == 3).all()
    model = load(fit.out / "m1.safetensors")
    wanted = PatchAD(**PARAMETERS).fit(normal(1).drop(columns="site"))
    np.testing.assert_array_equal(
        model.decision_function(normal(1)), wanted.decision_function(normal(1).drop(columns="site"))
    )
    assert "the results of the 3 other series are complete" in capsys.readouterr().err
    (folder / "broken.csv").unlink()
    (folder / "short.csv").unlink()
    words = ["fleet", "detect", str(fit.out), str(folder), "-o", str(tmp_path / "found"), "--workers", "1"]
    assert run(words) == 0
    scores = pd.read_parquet(tmp_path / "found" / "scores" / "m1.parquet")["score"]
    np.testing.assert_array_equal(scores, wanted.detect(normal(1).drop(columns="site")).scores)


@pytest.mark.parametrize("gpu", [False, True], ids=["by workers", "by this process"])
def test_nets_trained_together_give_the_models_of_one_by_one(fit, folder, tmp_path, monkeypatch, gpu):
    monkeypatch.setattr("patchad.fleet.fitting._on_gpu", lambda _: gpu)
    (folder / "broken.csv").write_text('a,b\n1,"2\n')
    normal(0, rows=10).to_csv(folder / "short.csv", index=False)
    assert fit("--together", *(("--workers", "2") if gpu else ())) == 2
    assert fit("--one-by-one", out="alone") == 2
    found, wanted = (manifest(path).set_index("series") for path in (fit.out, tmp_path / "alone"))
    assert found["error"].to_dict() == wanted["error"].to_dict()
    for number in range(3):
        models = [load(path / f"m{number}.safetensors") for path in (fit.out, tmp_path / "alone")]
        scores, expected = (model.decision_function(normal(number)) for model in models)
        np.testing.assert_allclose(scores, expected, rtol=1e-3)


def test_nets_that_cannot_be_trained_together_are_trained_one_by_one(fit, monkeypatch, capsys):
    monkeypatch.setattr("patchad.fleet.fitting.fit_together", None)
    assert fit("--together", "--set", "epochs=1") == 0
    assert fit("--together", "--set", "weights=nowhere.safetensors") == 2
    assert "nowhere.safetensors" in capsys.readouterr().err


def test_finished_models_stay_and_changed_ones_are_fitted_again(fit, folder, capsys):
    assert fit() == 0
    before = {path.name: path.stat().st_mtime_ns for path in fit.out.glob("*.safetensors")}
    normal(5).to_csv(folder / "m1.csv", index=False)
    (folder / "m2.csv").unlink()
    assert fit() == 0
    after = {path.name: path.stat().st_mtime_ns for path in fit.out.glob("*.safetensors")}
    assert after.keys() == {"m0.safetensors", "m1.safetensors"}
    assert after["m0.safetensors"] == before["m0.safetensors"]
    assert after["m1.safetensors"] != before["m1.safetensors"]
    assert "1 of them finished before" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["global", "tuned"])
def test_series_with_the_same_channels_share_a_net(fit, folder, mode):
    normal(3)[["time", "heat", "load", "flow"]].to_csv(folder / "m3.csv", index=False)  # in another order
    normal(4).rename(columns={"load": "other"}).to_csv(folder / "alone.csv", index=False)
    assert fit("--mode", mode) == 0
    models = [load(fit.out / f"m{number}.safetensors") for number in range(4)]
    assert {model.channels_ for model in models} == {tuple(WATCHED)}
    first, *others = (dict(model.net_.named_parameters()) for model in models)
    same = [all(torch.equal(first[name], one) for name, one in other.items()) for other in others]
    assert same == [mode == "global"] * 3
    assert models[2].scaler_.mean[0] == pytest.approx(normal(2)["flow"].mean(), abs=2)
    found = models[1].detect(normal(1).assign(flow=lambda f: f["flow"].where(f.index < 150, 100.0)))
    assert any(event.channels[0][0] == "flow" for event in found.events)
    assert not (fit.out / ".shared").exists()
    assert load(fit.out / "alone.safetensors").channels_ == ("flow", "heat", "other")
    before = (fit.out / "m0.safetensors").stat().st_mtime_ns
    assert fit("--mode", mode) == 0
    assert (fit.out / "m0.safetensors").stat().st_mtime_ns == before


def test_what_cannot_share_a_net_is_told(fit, folder, capsys):
    normal(3, rows=34).to_csv(folder / "m3.csv", index=False)
    (folder / "empty.csv").write_text("time,flow,heat,load\n")
    assert fit("--mode", "global", "--no-join", "--set", "window=18") == 2
    errors = manifest(fit.out).set_index("series")["error"]
    assert "net of another shape" in errors["m3"]
    assert "no row of values" in errors["empty"]
    assert fit("--mode", "global", "--set", "d_model=-1", "--no-join", out="none") == 2
    assert not (fit.out.parent / "none" / "manifest.csv").exists()
    capsys.readouterr()


@pytest.mark.parametrize("mode", ["global", "tuned"])
def test_a_series_that_cannot_be_fitted_costs_its_family_nothing(fit, folder, mode):
    assert fit("--mode", mode, out="wanted") == 0
    normal(5).assign(flow=np.inf).to_csv(folder / "infinite.csv", index=False)
    normal(6).iloc[::-1].to_csv(folder / "backwards.csv", index=False)
    normal(7, rows=1).to_csv(folder / "single.csv", index=False)
    assert fit("--mode", mode, "--no-join") == 2
    errors = manifest(fit.out).set_index("series")["error"]
    assert errors["m0"] == errors["m1"] == errors["m2"] == ""
    assert "infinite.csv: X has an infinite value (inf) in row 0, channel 'flow'" in errors["infinite"]
    assert "time goes back at row 1" in errors["backwards"]
    assert "at least 32 are needed" in errors["single"]
    models = [load(out / "m1.safetensors") for out in (fit.out, fit.out.parent / "wanted")]
    first, second = (model.decision_function(normal(1)) for model in models)
    np.testing.assert_array_equal(first, second)


def test_a_shared_net_does_not_see_excluded_periods(fit, folder, tmp_path):
    """What lies in such a period, and so the scale that it gives a series, changes nothing."""
    (tmp_path / "incidents.csv").write_text("from,to\n2026-01-01T01:00,2026-01-01T01:30\n")
    options = ("--mode", "global", "--exclude-periods", str(tmp_path / "incidents.csv"))
    assert fit(*options) == 0
    frame = normal(1)
    frame.loc[60:89, WATCHED] = 1e6
    frame.to_csv(folder / "m1.csv", index=False)
    assert fit(*options, out="again") == 0
    first, second = (load(out / "m0.safetensors").net_ for out in (fit.out, tmp_path / "again"))
    assert all(torch.equal(one, second.state_dict()[name]) for name, one in first.state_dict().items())


def test_a_column_names_series_and_periods_are_left_out(folder, tmp_path):
    rows = pd.concat([normal(number).assign(machine=number) for number in range(2)])
    rows.to_parquet(tmp_path / "plant.parquet", index=False)
    (tmp_path / "incidents.csv").write_text("from,to\n2026-01-01T01:00,2026-01-01T01:30\n")
    words = ["fleet", "fit", str(tmp_path / "plant.parquet"), "--by", "machine", "-o", str(tmp_path / "models")]
    words += ["--workers", "1", "--exclude-periods", str(tmp_path / "incidents.csv"), *SET]
    assert run(words) == 0
    assert load(tmp_path / "models" / "1.safetensors").channels_ == tuple(WATCHED)
    assert manifest(tmp_path / "models")["rows"].tolist() == [200, 200]
