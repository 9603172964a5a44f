"""Ray gives what the processes of one machine give, whatever is killed. `make test-fleet` runs these."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import pandas as pd
import pytest
from tests.fleet.conftest import machine
from tests.fleet.dying import die, die_once

from patchad import load
from patchad.cli.main import run
from patchad.errors import InputError
from patchad.fleet.cluster import RayRunner
from patchad.fleet.detecting import Job, detect_fleet

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MACHINES = 200


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A file of 200 machines."""
    path = tmp_path_factory.mktemp("plant") / "plant.parquet"
    frames = [machine(number, rows=120 + number % 3 * 50).assign(machine=f"m{number}") for number in range(MACHINES)]
    pd.concat(frames).to_parquet(path, index=False)
    return path


@pytest.fixture(scope="module")
def cluster():
    """Ray in this process, once for all tests that lose nothing but workers."""
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def wanted(watched_file, plant, tmp_path_factory):
    """What one process writes."""
    out = tmp_path_factory.mktemp("wanted")
    assert command(watched_file, plant, out, "--workers", "1") == 0
    return contents(out)


def command(model, data, out, *options: str) -> int:
    return run(["fleet", "detect", str(model), str(data), "--by", "machine", "-o", str(out), *options])


def contents(out) -> dict[str, object]:
    """Give all that a run wrote, but for the seconds."""
    scores = {path.name: pd.read_parquet(path).to_csv() for path in sorted((out / "scores").glob("*"))}
    manifest = pd.read_csv(out / "manifest.csv").drop(columns="seconds").to_csv()
    return {"events": (out / "events.json").read_bytes(), "manifest": manifest} | scores


def test_ray_gives_the_same_files(cluster, watched_file, plant, wanted, tmp_path):
    assert len(wanted) == MACHINES + 2
    assert command(watched_file, plant, tmp_path / "out", "--engine", "ray", "--workers", "2") == 0
    assert contents(tmp_path / "out") == wanted


def test_a_killed_worker_costs_nothing(cluster, tmp_path):
    with RayRunner(2, None) as runner:
        found = dict(runner.run(die_once, [(number, str(tmp_path)) for number in range(6)]))
        assert sorted(found.values()) == [0, 1, 4, 9, 16, 25]
        assert (tmp_path / "died").exists()
        with pytest.raises(Exception, match="again and again"):
            list(runner.run(die, [1]))


def test_workers_are_as_many_as_the_cluster_has_cores(cluster):
    with RayRunner(None, None) as runner:
        assert runner.workers == 2


def test_shards_of_a_long_series_are_scored_by_ray(cluster, watched_file, tmp_path):
    machine(1, rows=5000).to_parquet(tmp_path / "long.parquet", index=False)
    job = Job(model=watched_file, data=(str(tmp_path / "long.parquet"),), out=tmp_path / "out", long_rows=1)
    with RayRunner(2, None) as runner:
        (found,) = detect_fleet(job, runner).results
    wanted = load(watched_file).detect(machine(1, rows=5000))
    scores = pd.read_parquet(tmp_path / "out" / "scores" / "long.parquet")
    assert (scores["score"] == wanted.scores).all()
    assert (scores["alarm"] == wanted.alarms).all()
    assert [event["id"] for event in found.events] == [event.id for event in wanted.events]


def test_an_address_where_nobody_answers_is_refused():
    import ray

    ray.shutdown()
    with pytest.raises(InputError, match="no Ray cluster answers"), RayRunner(1, "auto"):
        pass


def test_the_loss_of_a_machine_costs_nothing(watched_file, plant, wanted, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost = machines.add_node(num_cpus=1)
    try:
        with RayRunner(None, machines.address) as runner:
            assert runner.workers == 2
            seen = []

            def watch(result, _):
                seen.append(result)
                if len(seen) == MACHINES // 4:
                    machines.remove_node(lost, allow_graceful=False)

            job = Job(model=watched_file, data=(str(plant),), out=tmp_path / "out", by="machine")
            detect_fleet(job, runner, watch)
        assert len(seen) == MACHINES
        assert contents(tmp_path / "out") == wanted
    finally:
        ray.shutdown()
        machines.shutdown()


def settled(out) -> dict[str, int]:
    """Give the scores that are written, and when, once nobody has written for a while."""
    before: dict[str, int] | None = None
    while True:
        found = {path.name: path.stat().st_mtime_ns for path in (out / "scores").glob("m*.parquet")}
        if found == before:
            return found
        before = found
        time.sleep(5)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_driver_goes_on_where_it_was(watched_file, plant, wanted, tmp_path, engine):
    out = tmp_path / "out"
    words = ["fleet", "detect", str(watched_file), str(plant), "--by", "machine", "-o", str(out)]
    words += ["--engine", engine, "--workers", "2"]
    first = subprocess.Popen([sys.executable, "-m", "patchad", *words], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(list((out / "scores").glob("m*.parquet"))) < MACHINES // 10 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    finished = settled(out)  # workers see that their driver has gone
    assert 0 < len(finished) < MACHINES
    again = subprocess.run([sys.executable, "-m", "patchad", *words], capture_output=True, text=True, check=True)
    assert f"{len(finished)} of them finished before" in again.stderr
    assert contents(out) == wanted
    assert all((out / "scores" / name).stat().st_mtime_ns == at for name, at in finished.items())
