"""The files of deploy/: what Prometheus says of them, and the dashboard's queries against a service it scrapes."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def find(program: str) -> str:
    """Return where a program is, or skip."""
    import shutil

    places = [DEPLOY.parent / ".venv" / "live" / "usr" / "bin" / program]
    found = shutil.which(program) or next((str(place) for place in places if place.exists()), None)
    if found is None:
        pytest.skip(f"{program} is not installed; scripts/install-live installs it")
    return found


def ask(base: str, query: str) -> list:
    """Let a Prometheus answer a query."""
    with urllib.request.urlopen(f"{base}/api/v1/query?query={urllib.parse.quote(query)}") as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]["result"]


def test_files_name_what_is_there():
    for name in ("compose.yaml", "prometheus.yml", "patchad.rules.yml", "alertmanager.yml", "grafana/datasource.yml"):
        assert yaml.safe_load((DEPLOY / name).read_text())
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounted = [one.split(":")[0] for service in services.values() for one in service.get("volumes", ())]
    for path in mounted:
        if path.startswith("./") and path != "./data":
            assert (DEPLOY / path).exists(), path
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    assert len(board["panels"]) >= 8


def test_every_metric_that_is_asked_for_exists(watched_model):
    from tests.serve.conftest import service

    with service(watched_model) as client:
        told = client.get("/metrics").text
    asked = (DEPLOY / "grafana" / "dashboard.json").read_text() + (DEPLOY / "patchad.rules.yml").read_text()
    names = set(re.findall(r"patchad_[a-z0-9_]+", asked))
    assert len(names) > 10
    for name in names:
        assert f"# TYPE {name.removesuffix('_bucket')} " in told, name


def test_the_tables_of_the_dashboard_have_what_the_service_answers(watched_model, watched):
    from tests.serve.conftest import push, service

    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    targets = [one for panel in board["panels"] for one in panel["targets"] if "url" in one]
    sources = yaml.safe_load((DEPLOY / "grafana" / "datasource.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {one["uid"] for one in sources}
    with service(watched_model) as client:
        rows = json.loads(watched.drop(columns="time").to_json(orient="records"))
        push(client, "pump", rows, watched["time"].tolist())
        for target in targets:
            found = client.get(target["url"].removeprefix("http://patchad:8000")).json()[target["root_selector"]]
            assert found, target["url"]
            for column in target["columns"]:
                value = found[0]
                for part in column["selector"].split("."):
                    value = value[int(part) if part.isdigit() else part]
                kinds = {"string": str, "number": int | float, "boolean": bool}
                assert isinstance(value, kinds[column["type"]]), column
    assert len(targets) == 2


@pytest.mark.live
def test_promtool_accepts_configuration_and_rules(tmp_path):
    promtool = find("promtool")
    rules = str(DEPLOY / "patchad.rules.yml")
    subprocess.run([promtool, "check", "rules", rules], check=True, capture_output=True)
    subprocess.run([promtool, "test", "rules", str(DEPLOY / "patchad.rules.test.yml")], check=True, capture_output=True)
    text = (DEPLOY / "prometheus.yml").read_text().replace("/etc/prometheus/patchad.rules.yml", rules)
    (tmp_path / "token").write_text("t" * 20)
    text = text.replace("/run/secrets/patchad_read_token", str(tmp_path / "token"))
    (tmp_path / "prometheus.yml").write_text(text)
    subprocess.run([promtool, "check", "config", str(tmp_path / "prometheus.yml")], check=True, capture_output=True)


@pytest.mark.live
def test_a_prometheus_answers_the_queries_of_the_dashboard(watched_model, tmp_path):
    from tests.conftest import waves
    from tests.serve.test_page import running, send

    prometheus = find("prometheus")
    with running(watched_model) as (address, station):
        send(station, "pump", waves(200), 0)
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: patchad, static_configs: [{{targets: ['{address.removeprefix('http://')}']}}]}}]\n"
        )
        process = subprocess.Popen(
            [
                prometheus,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            base = ""
            for line in process.stderr:
                if found := re.search(r"Listening on.*address=(\S+)", line):
                    base = f"http://{found[1]}"
                    break
            until = time.monotonic() + 300
            rows: list = []
            while not rows and time.monotonic() < until:
                time.sleep(0.5)
                with contextlib.suppress(urllib.error.HTTPError):  # it is not ready at once
                    rows = ask(base, "patchad_rows_total")
            assert rows[0]["value"][1] == "200"
            board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
            for panel in board["panels"]:
                for target in (one for one in panel["targets"] if "expr" in one):
                    ask(base, target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m"))
        finally:
            process.terminate()
            process.communicate(timeout=120)
