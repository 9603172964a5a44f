"""Downloads from a local server with small archives of every dataset."""

from __future__ import annotations

import functools
import http.server
import io
import logging
import re
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import native

from patchad.datasets import DATASETS, get, load
from patchad.datasets.dataset import Recipe, Source
from patchad.datasets.download import Limit, _extract, _unpack
from patchad.errors import InputError, MissingExtraError

RECIPES = {name: dataset.recipe for name, dataset in DATASETS.items() if dataset.recipe is not None}


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        if self.path.endswith("TSB-AD-U.zip"):  # a connection that breaks halfway
            whole = (Path(self.directory) / "TSB-AD-U.zip").read_bytes()
            if self.server.breaks:  # type: ignore[attr-defined]
                self.send_response(200)
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                self.wfile.write(whole[: len(whole) // 2])
                return
        super().do_GET()


def zipped(folder: Path, inside: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{inside}/{path.relative_to(folder).as_posix()}")
        archive.writestr(f"{inside}/README.md", "not needed")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all recipes, packed as their publishers pack them."""
    made, out = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("mirror")
    native.telemanom(made / "TranAD/data/SMAP_MSL")
    native.smd(made / "OmniAnomaly/ServerMachineDataset")
    native.triple(made / "InterFusion/data/processed", "omi-1", 19, "pkl")
    native.triple(made / "InterFusion/data/processed", "machine-1-6", 38, "pkl")
    native.skab(made / "SKAB/data")
    native.nab(made / "NAB")
    for repository in ("TranAD", "OmniAnomaly", "InterFusion", "SKAB", "NAB"):
        (out / f"{repository}.zip").write_bytes(zipped(made / repository, f"{repository}-0123abcd"))
    native.tsb_ad(made / "TSB-AD-U")
    (out / "TSB-AD-U.zip").write_bytes(zipped(made / "TSB-AD-U", "TSB-AD-U"))
    native.ucr(made / "UCR")
    inner = "AnomalyDatasets_2021/UCR_TimeSeriesAnomalyDatasets2021/FilesAreInHere/UCR_Anomaly_FullData"
    (out / "UCR_TimeSeriesAnomalyDatasets2021.zip").write_bytes(zipped(made / "UCR", inner))
    native.swan_slices(made / "SWAN")
    (out / "petdataset_01.zip").write_bytes(zipped(made / "SWAN/petdataset_01", "petdataset_01"))
    native.psm(out)
    native.water(out)
    return out


@pytest.fixture
def server(mirror: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(mirror))) as made:
        made.requests, made.breaks = [], False  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def address(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/"


@pytest.mark.parametrize("name", RECIPES)
def test_a_downloaded_dataset_can_be_loaded(
    tmp_path: Path, server: http.server.ThreadingHTTPServer, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = get(name.lower(), tmp_path / "data", address(server))
    assert (done.name, done.fetched, done.folder) == (name, True, tmp_path / "data" / RECIPES[name].folder)
    assert done.files == sum(path.is_file() for path in done.folder.rglob("*")) > 0
    assert set(done.sha256) == {source.file for source in RECIPES[name].sources}
    assert load(name, tmp_path / "data")
    assert not list((tmp_path / "data").rglob("README.md"))
    assert not list((tmp_path / "data").rglob(".patchad-get-*"))
    assert capfd.readouterr() == ("", "")


def test_an_existing_folder_is_not_downloaded_again(tmp_path: Path, server: http.server.ThreadingHTTPServer) -> None:
    get("MSL", tmp_path, address(server))
    requests = list(server.requests)  # type: ignore[attr-defined]
    again = get("SMAP", tmp_path, address(server))  # one archive has both
    assert (again.fetched, again.files) == (False, 9)
    assert server.requests == requests  # type: ignore[attr-defined]


def test_an_empty_folder_is_filled(tmp_path: Path, server: http.server.ThreadingHTTPServer) -> None:
    (tmp_path / "PSM").mkdir()
    assert get("PSM", tmp_path, address(server)).files == 3


def test_a_broken_connection_leaves_nothing(tmp_path: Path, server: http.server.ThreadingHTTPServer) -> None:
    server.breaks = True  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"TSB-AD-U\.zip could not be downloaded: .*; try again later"):
        get("IOPS", tmp_path, address(server))
    assert [path for path in tmp_path.rglob("*") if path.name != "TSB-AD-U"] == []
    server.breaks = False  # type: ignore[attr-defined]
    assert get("IOPS", tmp_path, address(server)).files == 1


def test_a_missing_second_file_leaves_nothing(
    tmp_path: Path, mirror: Path, server: http.server.ThreadingHTTPServer
) -> None:
    (mirror / "test.csv").rename(mirror / "away.csv")
    try:
        with pytest.raises(InputError, match="404"):
            get("PSM", tmp_path, address(server))
    finally:
        (mirror / "away.csv").rename(mirror / "test.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_named(tmp_path: Path, server: http.server.ThreadingHTTPServer) -> None:
    closed = address(server)
    server.server_close()
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:\d+/SKAB\.zip could not be downloaded"):
        get("SKAB", tmp_path, closed)


def test_a_wrong_hash_is_refused(
    tmp_path: Path, server: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = replace(RECIPES["SKAB"].sources[0], sha256="0" * 64)
    monkeypatch.setitem(DATASETS, "SKAB", replace(DATASETS["SKAB"], recipe=Recipe("SKAB", (source,))))
    with pytest.raises(InputError, match="hash"):
        get("SKAB", tmp_path, address(server))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["SWaT", "WADI", "GECCO-challenge"])
def test_the_error_says_how_to_get_what_cannot_be_downloaded(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} cannot be downloaded; .*{DATASETS[name].home}"):
        get(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_dataset_has_either_a_recipe_or_manual_instructions() -> None:
    assert {name for name, dataset in DATASETS.items() if dataset.manual} == set(DATASETS) - set(RECIPES)
    assert set(DATASETS) - set(RECIPES) == {"SWaT", "WADI", "GECCO-challenge"}
    assert all(source.url.startswith("https://") for recipe in RECIPES.values() for source in recipe.sources)


def test_without_pooch_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"patchad\[data\]"):
        get("PSM", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_stderr(
    tmp_path: Path, server: http.server.ThreadingHTTPServer, capfd: pytest.CaptureFixture[str]
) -> None:
    get("SKAB", tmp_path, address(server), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "SKAB.zip" in err


def test_the_hash_of_a_download_is_logged(
    tmp_path: Path, server: http.server.ThreadingHTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "patchad.datasets.download")
    done = get("SKAB", tmp_path, address(server))
    assert f"SKAB.zip has sha256 {done.sha256['SKAB.zip']}" in caplog.text


def archive(tmp_path: Path, members: dict[str, bytes]) -> Path:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def test_a_nested_archive_is_opened(tmp_path: Path) -> None:
    native.ucr(tmp_path / "UCR")
    path = archive(tmp_path, {"AnomalyDatasets_2021/UCR.zip": zipped(tmp_path / "UCR", "deep/FilesAreInHere")})
    _unpack(RECIPES["UCR"].sources[0], path, tmp_path / "stage")
    assert len(list((tmp_path / "stage").iterdir())) == 3


def test_members_outside_the_target_folder_are_not_written(tmp_path: Path) -> None:
    path = archive(tmp_path, {"a/../../evil.csv": b"x", "a/fine.csv": b"x"})
    _unpack(Source("archive.zip", "", r"a/(.*\.csv)"), path, tmp_path / "in" / "stage")
    assert [found.name for found in tmp_path.rglob("*.csv")] == ["fine.csv"]


@pytest.mark.parametrize(
    ("content", "message"), [(b"<html>moved</html>", "not a usable zip archive"), (None, "holds no file like")]
)
def test_an_archive_without_the_expected_members_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = archive(tmp_path, {"a.txt": b"x"})
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        _unpack(RECIPES["SMD"].sources[0], path, tmp_path / "stage")


def packed(**members: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("limit", [Limit(size=10_000), Limit(free=10_000)], ids=["size", "ratio"])
def test_an_archive_that_unpacks_to_far_more_than_it_is_stops_at_a_limit(tmp_path: Path, limit: Limit) -> None:
    bomb = packed(a=bytes(10**7))
    for archive in (bomb, packed(**{"inner.zip": bomb.getvalue()})):
        with pytest.raises(InputError, match="do not use it"):
            _extract(archive, re.compile("(.*)"), tmp_path / "stage", limit)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 10**7 / 2


def test_a_zip_in_a_zip_in_a_zip_is_not_unpacked_and_no_name_leaves_the_folder(tmp_path: Path) -> None:
    deep = packed(**{"b.zip": packed(**{"c.zip": packed(d=b"1").getvalue()}).getvalue()})
    assert _extract(deep, re.compile("(d)"), tmp_path / "stage", Limit()) == 0
    outside = packed(**{"/etc/a": b"1", "../b": b"1", "c": b"1"})
    assert _extract(outside, re.compile("(.*)"), tmp_path / "stage", Limit()) == 1
    assert [path.name for path in (tmp_path / "stage").iterdir()] == ["c"]
