"""The server reaches Slurm the way its configuration says."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from api.settings import ServerSettings, load_settings
from api.slurm_door import open_backend
from slurm import errors
from slurm.commands import Commands
from slurm.pyslurm.backend import PySlurm
from slurm.rest.backend import Rest
from slurm.rest.door import Address
from tests.slurm.fake import FakeSlurm
from tests.slurm.fake_rest import TOKEN, FakeRest, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(TOKEN)
    return tmp_path


def settings(folder: Path, text: str) -> ServerSettings:
    path = folder / "server.toml"
    path.write_text(f"[server]\n{text}")
    path.chmod(0o644)
    return load_settings(path, {}).server


def test_the_commands_are_the_default(folder: Path) -> None:
    with ExitStack() as stack:
        assert type(open_backend(settings(folder, ""), stack)) is Commands


def test_slurmrestd_is_asked_with_the_token_of_the_file(folder: Path) -> None:
    with ExitStack() as stack:
        rest = FakeRest(FakeSlurm("26.05"), ("v0.0.45",))
        url = stack.enter_context(serving(rest))
        text = f'backend = "rest"\nrest_url = "{url}"\nrest_token_file = "{folder}/token"\n'
        backend = open_backend(settings(folder, text), stack)
        assert sorted(backend.nodes()) == ["n1", "n2", "n3"]
        (folder / "token").write_text("a.b.c")
        with pytest.raises(errors.PermissionDenied):
            open_backend(settings(folder, text + 'rest_user = "slurm"\n'), stack).nodes()


def test_another_machine_only_in_the_clear_when_told_so(folder: Path) -> None:
    text = 'backend = "rest"\nrest_url = "http://login"\nrest_plain = true\n'
    with ExitStack() as stack:
        backend = open_backend(settings(folder, text), stack)
        assert isinstance(backend, Rest)
        assert backend._door.address == Address("login", 6820)


def test_a_certificate_file_that_is_not_there(folder: Path) -> None:
    text = f'backend = "rest"\nrest_url = "https://login"\nrest_ca_file = "{folder}/none"\n'
    with ExitStack() as stack, pytest.raises(OSError):
        open_backend(settings(folder, text), stack)


def test_pyslurm_has_an_interpreter_of_its_own(folder: Path) -> None:
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\nprintf '\\0\\0\\0\\016{\"ready\":true}'\nprintf '\\0\\0\\0\\014{\"nodes\":[]}'\nread x\n"
    )
    python.chmod(0o755)
    with ExitStack() as stack:
        backend = open_backend(settings(folder, f'backend = "pyslurm"\npyslurm_python = "{python}"\n'), stack)
        assert isinstance(backend, PySlurm)
        with pytest.raises(errors.BadAnswer, match="no node in the answer"):
            backend.nodes()
        running = backend._worker._running
        assert running is not None
    assert running.process.poll() is not None
