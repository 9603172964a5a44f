"""Migrations: how the tables of a state came to be, format by format; an older file is brought up to date by them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from patchad.live.history import axis

Run = Callable[..., list[Any]]
"""Runs a statement with values, and returns what it found."""


def _state(run: Run) -> None:
    """Format 1: streams, positions, sinks and lines."""
    run("CREATE TABLE streams (key TEXT PRIMARY KEY, snapshot BLOB NOT NULL, waiting TEXT NOT NULL, newest TEXT)")
    run("CREATE TABLE sources (name TEXT PRIMARY KEY, position TEXT NOT NULL)")
    run("CREATE TABLE sinks (name TEXT PRIMARY KEY, written INTEGER NOT NULL, mark INTEGER NOT NULL)")
    run("CREATE TABLE lines (number INTEGER PRIMARY KEY AUTOINCREMENT, dead INTEGER NOT NULL, line TEXT NOT NULL)")


def _history(run: Run) -> None:
    """Format 2: rows, verdicts, events and remarks are kept; a line has a kind, and a sink the kinds that it wants."""
    run("ALTER TABLE lines RENAME COLUMN dead TO kind")
    run(
        """UPDATE lines SET kind = CASE WHEN kind THEN 'dead' WHEN line LIKE '{"type": "event"%' THEN 'event'
        ELSE 'verdict' END"""
    )
    run("ALTER TABLE sinks ADD COLUMN kinds TEXT NOT NULL DEFAULT 'event verdict dead'")
    run("ALTER TABLE streams ADD COLUMN extra TEXT NOT NULL DEFAULT '{}'")
    for key, waiting in run("SELECT key, waiting FROM streams"):
        placed = [(time, axis(time)) for time in json.loads(waiting)]
        run("UPDATE streams SET waiting = ? WHERE key = ?", json.dumps(placed), key)
    run("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    run("INSERT INTO meta VALUES ('id', ?)", secrets.token_hex(8))
    run(
        "CREATE TABLE events (key TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL, "
        "until REAL NOT NULL, fields TEXT NOT NULL, PRIMARY KEY (key, id))"
    )
    run("CREATE INDEX events_by_time ON events (since)")
    run(
        "CREATE TABLE history (key TEXT NOT NULL, kind TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, "
        "since REAL NOT NULL, until REAL NOT NULL, stored REAL NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (key, kind, first))"
    )
    run("CREATE INDEX history_by_age ON history (stored)")
    run(
        "CREATE TABLE remarks (number INTEGER PRIMARY KEY, key TEXT NOT NULL, event TEXT NOT NULL, kind TEXT NOT NULL, "
        "author TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL)"
    )
    run("CREATE INDEX remarks_by_event ON remarks (event)")


def _models(run: Run) -> None:
    """Format 3: the models that a service went on with after the one that it was given."""
    run(
        "CREATE TABLE models (number INTEGER PRIMARY KEY AUTOINCREMENT, checksum TEXT NOT NULL, given TEXT NOT NULL, "
        "why TEXT NOT NULL, at REAL NOT NULL, file BLOB NOT NULL)"
    )


MIGRATIONS: Sequence[Callable[[Run], None]] = (_state, _history, _models)
"""What makes each format of the one before; a later release adds to the end."""
