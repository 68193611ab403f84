"""A conversation with slurmrestd is bounded in time and size, and its token is a token."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm import errors
from slurm.rest.backend import Rest
from slurm.rest.door import Address, parse_address
from slurm.rest.token import TokenCommand, TokenFile
from slurm.run import Ended
from tests.slurm.fake import FakeSlurm
from tests.slurm.fake_rest import TOKEN, FakeRest, serving


@pytest.mark.parametrize(
    ("text", "address", "private"),
    [
        ("http://127.0.0.1:6820", Address("127.0.0.1", 6820), True),
        ("http://[::1]:1", Address("::1", 1), True),
        ("http://login", Address("login", 6820), False),
        ("https://login/slurm-api/", Address("login", 443, tls=True, prefix="/slurm-api"), True),
        ("unix:/run/slurmrestd.sock", Address(path="/run/slurmrestd.sock"), True),
        ("unix:///run/r", Address(path="/run/r"), True),
        ("/run/r", Address(path="/run/r"), True),
    ],
)
def test_reads_an_address(text: str, address: Address, private: bool) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address
    assert address.private is private


@pytest.mark.parametrize(
    "text",
    [
        "",
        "login:6820",
        "ftp://x",
        "http://",
        "http://u@h",
        "http://h?x",
        "unix:",
        "/" + "x" * 107,
        "http://h:x",
        "http://h/a b",
    ],
)
def test_refuses_another_address(text: str) -> None:
    with pytest.raises(ValueError):
        parse_address(text)


@contextmanager
def _server(*pieces: bytes, pause: float = 0.0, hold: bool = False) -> Iterator[str]:
    """A server that sends bytes, slowly where asked for, and then closes or holds the connection."""
    ended = threading.Event()

    def talk() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    ended.wait(pause)
            except OSError:
                return  # the client has given up, as it should
            if hold:
                ended.wait(20)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join(20)


def _rest(url: str, **options: object) -> Rest:
    return Rest(url, token=lambda: TOKEN, version="v0.0.45", **options)  # type: ignore[arg-type]


def test_the_deadline_holds_for_a_server_that_drips() -> None:
    """Every byte comes in time and the answer never: the total counts."""
    with _server(b"HTTP/1.1 200 OK\r\n", *[b"x"] * 300, pause=0.1) as url:
        start = time.monotonic()
        with pytest.raises(errors.Timeout, match=r"slurmrestd node did not end within 0\.5 s"):
            _rest(url, timeout=0.5).node("n1")
        assert time.monotonic() - start < 10


def test_a_server_that_says_nothing() -> None:
    with _server(hold=True) as url, pytest.raises(errors.Timeout):
        _rest(url, timeout=0.3).node("n1")


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",), (b"SSH-2.0-x\r\n\r\n",)])
def test_an_answer_that_breaks_off_or_is_none(pieces: tuple[bytes, ...]) -> None:
    with _server(*pieces) as url, pytest.raises((errors.BadAnswer, errors.Unreachable)):
        _rest(url).node("n1")


def test_an_answer_that_does_not_end_is_bounded() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    with _server(head, *[b"x" * 60000] * 40, hold=True) as url, pytest.raises(errors.BadAnswer, match="longer than"):
        _rest(url, max_body=1_000_000).node("n1")
    with _server(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20000, hold=True) as url, pytest.raises(errors.BadAnswer):
        _rest(url).node("n1")


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", f"unix:{tmp_path}/none"):
        with pytest.raises(errors.Unreachable):
            _rest(url).ping()


def test_a_name_that_is_not_resolved_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that hangs holds one thread and not one more at each call."""
    asked, release = [], threading.Event()

    def hang(*words: object, **_: object) -> list[object]:
        asked.append(words)
        release.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    backend = _rest("http://login.invalid:6820", timeout=0.2)
    for _ in range(3):
        with pytest.raises(errors.Timeout):
            backend.node("n1")
    assert len(asked) == 1
    release.set()


def test_a_certificate_is_proved(tmp_path: Path) -> None:
    fake = FakeRest(FakeSlurm("26.05"), ("v0.0.45",))
    folder = Path(__file__).parents[1] / "api/data"
    certificate = folder / "test-cert.pem"
    with serving(fake, tls=(certificate, folder / "test-key.pem")) as url:
        assert sorted(_rest(url, user="root", ca_file=str(certificate)).nodes()) == ["n1", "n2", "n3"]
        with pytest.raises(errors.SlurmError, match="certificate is not accepted"):
            _rest(url, user="root").nodes()
    assert len(fake.asked) == 1


def test_a_user_that_would_be_another_header_is_refused() -> None:
    for name in ("root\r\nX-SLURM-USER-TOKEN: x", "a b", "ü"):
        with pytest.raises(ValueError, match="is not the name of a user"):
            _rest("unix:/run/r", user=name)


# The token.


def test_a_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """Whoever renews it, such as a timer, does not tell us."""
    path = tmp_path / "token"
    source = TokenFile(path)
    for text in (f"{TOKEN}\n", f"SLURM_JWT={TOKEN}x\n"):
        path.write_text(text)
        assert source() == text.strip().removeprefix("SLURM_JWT=")


@pytest.mark.parametrize(
    "text", ["", "x", "a.b", "a.b.c\r\nX-SLURM-USER-NAME: root", "a.b.c d", "a.b.\u00fc", "a.b." + "c" * 20000]
)
def test_a_token_that_is_none_is_not_sent(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(text.encode())
    with pytest.raises(errors.BadAnswer, match="holds no JSON web token"):
        TokenFile(path)()


def test_a_token_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o666)
    for file in (path, tmp_path, tmp_path / "none"):
        with pytest.raises(errors.PermissionDenied):
            TokenFile(file)()


def test_the_command_is_asked_again_in_time() -> None:
    now = [0.0]
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        asked.append(argv)
        return Ended(0, f"SLURM_JWT=a.b.{len(asked)}\n".encode(), b"")

    source = TokenCommand("slurm", lifespan=600, run=run, clock=lambda: now[0])
    assert [source(), source()] == ["a.b.1", "a.b.1"]
    now[0] = 301.0
    assert source() == "a.b.2"
    assert asked[0] == ("scontrol", "token", "username=slurm", "lifespan=600")


def test_the_command_that_fails() -> None:
    def run(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        return Ended(1, b"", b"scontrol: error: Access/permission denied")

    with pytest.raises(errors.PermissionDenied):
        TokenCommand("slurm", run=run)()
    source = TokenCommand("slurm", run=run, timeout=0.1)
    with source._lock, pytest.raises(errors.Busy, match="another request waited"):
        source()
