"""The way to Slurm that the configuration names is checked when it is read and opened when the server starts."""

from __future__ import annotations

import os
import pwd
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

from slurm.backend import Backend
from slurm.commands import Commands
from slurm.pyslurm.backend import PySlurm
from slurm.rest.backend import Rest
from slurm.rest.door import parse_address
from slurm.rest.token import TokenCommand, TokenFile, TokenSource, checked_user

Kind = Literal["commands", "rest", "pyslurm"]


class SlurmSettings(Protocol):
    """What [server] says about Slurm.

    ``rest_url``: ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH`` of slurmrestd, or a list of them: the
    next is asked while one is away. ``rest_token_file``: a
    JSON web token, read for every request; without it ``scontrol token`` is asked, as ``rest_user`` or as ourselves.
    ``rest_plain``: send the token unencrypted to another machine. ``pyslurm_python``: the interpreter with pyslurm.
    """

    @property
    def backend(self) -> Kind: ...
    @property
    def slurm_conf(self) -> str: ...
    @property
    def rest_url(self) -> str | tuple[str, ...]: ...
    @property
    def rest_token_file(self) -> str: ...
    @property
    def rest_user(self) -> str: ...
    @property
    def rest_ca_file(self) -> str: ...
    @property
    def rest_plain(self) -> bool: ...
    @property
    def pyslurm_python(self) -> str: ...


def problem(settings: SlurmSettings) -> str | None:
    """Say why these settings cannot be meant, or None."""
    rest = {name: getattr(settings, name) for name in ("rest_url", "rest_token_file", "rest_user", "rest_ca_file")}
    if settings.backend != "rest":
        given = [name for name, value in rest.items() if value] + (["rest_plain"] if settings.rest_plain else [])
        if given:
            return f"{given[0]} is given and backend is {settings.backend!r}, expected 'rest'"
    if settings.backend != "pyslurm" and settings.pyslurm_python:
        return f"pyslurm_python is given and backend is {settings.backend!r}, expected 'pyslurm'"
    return _rest_problem(settings) if settings.backend == "rest" else None


def _rest_problem(settings: SlurmSettings) -> str | None:
    if not settings.rest_url:
        return "backend is 'rest': rest_url is missing"
    try:
        addresses = [parse_address(url) for url in _urls(settings)]
    except ValueError as error:
        return f"rest_url {error}"
    if settings.rest_user:
        try:
            checked_user(settings.rest_user)
        except ValueError as error:
            return f"rest_user {error}"
    if settings.rest_ca_file and not any(address.tls for address in addresses):
        return f"rest_ca_file is given and rest_url {addresses[0]} does not use https"
    open_ = next((address for address in addresses if not address.private), None)
    if open_ is not None and not settings.rest_plain:
        return (
            f"rest_url {open_} would send the token unencrypted to another machine: use https or a unix socket, "
            "or rest_plain where the network between is trusted"
        )
    return None


def open_backend(settings: SlurmSettings, stack: ExitStack) -> Backend:
    """Return the backend; what it keeps open is closed with ``stack``. OSError where a file of it cannot be read."""
    conf = Path(settings.slurm_conf) if settings.slurm_conf else None
    commands = Commands(conf=conf)
    if settings.backend == "rest":
        return Rest(
            _urls(settings),
            token=_token(settings, conf),
            user=settings.rest_user,
            ca_file=settings.rest_ca_file,
            beside=commands,
        )
    if settings.backend == "pyslurm":
        pyslurm = PySlurm(beside=commands, conf=conf, python=settings.pyslurm_python or sys.executable)
        stack.callback(pyslurm.close)
        return pyslurm
    return commands


def _urls(settings: SlurmSettings) -> tuple[str, ...]:
    return (settings.rest_url,) if isinstance(settings.rest_url, str) else settings.rest_url


def _token(settings: SlurmSettings, conf: Path | None) -> TokenSource:
    if settings.rest_token_file:
        return TokenFile(Path(settings.rest_token_file))
    return TokenCommand(settings.rest_user or pwd.getpwuid(os.geteuid()).pw_name, conf=conf)
