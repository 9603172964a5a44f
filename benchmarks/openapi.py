"""Let Schemathesis ask `patchad serve` all that its OpenAPI description allows, and more. `make test-http` installs it.

python -m benchmarks.openapi --examples 40     exit 1 where an answer is an error of the service, or not as described
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.serve import Caller, Service, body_of, model_file

from patchad.datasets.plant import FAULTS, simulate_plant

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "allow_header_conformance",
)
INSTALLED = Path(__file__).parents[1] / ".venv-http" / "bin" / "schemathesis"


def main() -> None:
    """Run Schemathesis against a service that has a stream with events."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="a model of the plant; by default a small fit")
    parser.add_argument("--program", type=Path, default=INSTALLED, help="schemathesis")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"there is no {options.program}; make test-http installs it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = model_file(folder, options.model)
        service = Service("-m", "patchad", "serve", str(model), "--port", "0", "--state", str(folder / "state"))
        try:
            run, caller = simulate_plant(800, seed=2, kinds=tuple(FAULTS)[:2]), Caller(service.port)
            assert caller.post("/v1/streams/string/rows", body_of(run, 0, len(run.values)))[0] == 200
            call = [str(options.program), "run", f"http://127.0.0.1:{service.port}/openapi.json", "--no-color"]
            call += ["--checks", ",".join(CHECKS), "--exclude-path", "/v1/live", "--seed", str(options.seed)]
            call += ["--max-examples", str(options.examples), "--continue-on-failure", "--generation-database", "none"]
            done = subprocess.run(call, cwd=folder, check=False)  # leaves its traces there
            assert Caller(service.port).get("/readyz") == {"status": "ready"}
        finally:
            service.stop()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
