"""Standard input, which is polled and never waited for."""

from __future__ import annotations

import os

from patchad.live.sources.registry import make_source


def test_a_pipe_gives_what_is_there(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        source = make_source("-")
        source.open(None)
        assert source.poll() == []
        os.write(writing, b"a\nb")
        assert (source.poll(), source.poll(), source.ended) == ([b"a"], [], False)
        os.close(writing)
        assert (source.poll(), source.poll(), source.ended) == ([b"b"], [], True)
        assert (source.position, source.resumed) == ({}, False)
        source.close()
