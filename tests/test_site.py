"""What `scripts/check-site` finds wrong with a site: nothing comes from elsewhere, links are well formed."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

LOADER = SourceFileLoader("check_site", str(Path(__file__).parents[1] / "scripts" / "check-site"))
check_site = module_from_spec(spec_from_loader("check_site", LOADER))
LOADER.exec_module(check_site)


def test_links_to_other_sites_are_listed(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "index.html").write_text('<a class="x" href="https://example.org/a">a</a> <a href="deep/b.html">b</a>')
    (tmp_path / "deep" / "b.html").write_text('<a href="https://example.org:8080/c?d=e#f">c</a><img src="../x.png">')
    links = check_site.external_links(tmp_path)
    assert links == {"https://example.org/a": "index.html", "https://example.org:8080/c?d=e#f": "b.html"}


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ('<a href="https://example">a</a>', "not well formed"),
        ('<a href="https://example.org/a b">a</a>', "not well formed"),
        ('<script src="https://example.org/a.js"></script>', "loads https://example.org/a.js"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "loads https://example.org/a.css"),
        ('<img alt="x" src=https://example.org/a.png>', "loads https://example.org/a.png"),
    ],
)
def test_bad_links_and_what_comes_from_elsewhere_end_the_build(html, message, tmp_path):
    (tmp_path / "index.html").write_text(html)
    with pytest.raises(SystemExit, match=message):
        check_site.external_links(tmp_path)
