"""Only a whole, well-formed refusal of a prolog exits 1."""

from __future__ import annotations

import pytest

from tests.slurm.hook.agent import answer, says, serving
from tests.slurm.hook.rig import Hook

OK = b"HTTP/1.1 200 OK\r\n"
LONG = b"X-Long: "


def ask(hook: Hook, data: bytes, kind: str = "prolog") -> tuple[int, bytes, list[str]]:
    """Run the hook against an agent that says ``data``, twice if need be."""
    with serving(hook.socket, says(data), says(data)):
        result = hook.run(kind)
    return result.code, result.out, hook.causes()


@pytest.mark.parametrize(
    ("kind", "exit_code", "expected"),
    [
        ("prolog", "0", 0),
        ("prolog", "1", 1),
        ("epilog", "0", 0),
        ("epilog", "1", 0),
        ("health", "0", 0),
        ("health", "1", 0),
        ("unkillable", "0", 0),
        ("unkillable", "1", 0),
    ],
)
def test_only_a_prolog_can_be_refused(hook: Hook, kind: str, exit_code: str, expected: int) -> None:
    with serving(hook.socket, says(answer(exit_code, b"gpu 3 lost\n"))) as agent:
        result = hook.run(kind)
    assert (result.code, result.out, hook.causes()) == (expected, b"gpu 3 lost\n", [])
    assert agent.requests[0].line == f"POST /v1/{kind} HTTP/1.1"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(answer("1", status="500 Internal Server Error"), id="status 500"),
        pytest.param(answer("1", status="2000 OK"), id="status 2000"),
        pytest.param(answer("1", status="503"), id="status without text"),
        pytest.param(OK + b"Content-Length: 0\r\n\r\n", id="exit missing"),
        pytest.param(OK + b"Nodevet-Exit: 1\r\n\r\n", id="length missing"),
        pytest.param(answer("2"), id="exit 2"),
        pytest.param(answer("11"), id="exit 11"),
        pytest.param(answer("-1"), id="exit -1"),
        pytest.param(answer(""), id="exit empty"),
        pytest.param(answer("1", extra=b"Nodevet-Exit: 0\r\n"), id="exit twice"),
        pytest.param(answer("1", extra=b"Content-Length: 0\r\n"), id="length twice"),
        pytest.param(OK + b"Nodevet-Exit: 1\r\nContent-Length: -1\r\n\r\n", id="length negative"),
        pytest.param(OK + b"Nodevet-Exit : 1\r\nContent-Length: 0\r\n\r\n", id="blank before the colon"),
        pytest.param(OK + b"X: y\nNodevet-Exit: 1\nContent-Length: 0\r\n\r\n", id="bare newlines"),
        pytest.param(OK + b"X: \0\r\nNodevet-Exit: 1\r\nContent-Length: 0\r\n\r\n", id="nul in the header"),
        pytest.param(b"HTTP/2 200 OK\r\nNodevet-Exit: 1\r\nContent-Length: 0\r\n\r\n", id="http 2"),
        pytest.param(b"\r\n\r\n", id="no status line"),
        pytest.param(b"HTTP/1.\r\n\r\n", id="short status line"),
        pytest.param(b"Nodevet-Exit: 1\r\n\r\n", id="no status"),
        pytest.param(b"\x00\xff\x1b garbage \x7f" * 50, id="garbage"),
        pytest.param(answer("1", extra=LONG + b"a" * 9000 + b"\r\n"), id="header over 8192 bytes"),
        pytest.param(answer("1", extra=LONG + b"a" * 8128 + b"\r\n"), id="header of 8193 bytes"),
        pytest.param(OK + b"a" * 100_000, id="header without end"),
    ],
)
def test_anything_else_is_no_answer(hook: Hook, data: bytes) -> None:
    assert ask(hook, data) == (0, b"", ["bad_answer"])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="closed at once"),
        pytest.param(b"HTT", id="three bytes"),
        pytest.param(OK + b"Nodevet-Exit: 1\r\n", id="half a header"),
        pytest.param(OK + b"Nodevet-Exit: 1\r\nContent-Length: 11\r\n\r\ngpu", id="half a line"),
    ],
)
def test_an_answer_counts_only_whole(hook: Hook, data: bytes) -> None:
    assert ask(hook, data) == (0, b"", ["lost"])


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (b"", b""),
        (b"\n\n", b""),
        (b"gpu 3 lost", b"gpu 3 lost\n"),
        (b"gpu\n3\r\nlost\n", b"gpu 3  lost\n"),
        (b"\x1b[31mred\x07\x00\x7f!\n", b" [31mred   !\n"),
        ("bad \x9b31m csi\n".encode(), b"bad  31m csi\n"),
        ("$(reboot) `x` 'q' \"d\" grün 節点\n".encode(), "$(reboot) `x` 'q' \"d\" grün 節点\n".encode()),
        (b"x" * 5000, b"x" * 512 + b"\n"),
        (b"x" * 511 + "ü and more".encode(), b"x" * 511 + b"\n"),
    ],
)
def test_line_is_printed_without_control_characters(hook: Hook, line: bytes, printed: bytes) -> None:
    assert ask(hook, answer("1", line)) == (1, printed, [])


def test_header_names_and_blanks_may_vary(hook: Hook) -> None:
    data = b"HTTP/1.1 200\r\nserver: x\r\nNODEVET-EXIT:1 \r\ncontent-length:\t3\r\n\r\nbad"
    assert ask(hook, data) == (1, b"bad\n", [])


def test_header_of_exactly_the_bound(hook: Hook) -> None:
    data = answer("1", b"gpu lost", extra=LONG + b"a" * 8127 + b"\r\n")
    assert data.index(b"\r\n\r\n") + 4 == 8192
    assert ask(hook, data) == (1, b"gpu lost\n", [])


def test_nobody_reads_the_line(hook: Hook) -> None:
    """The agent refused and has drained the node: a reader that has gone away does not turn that into an admission."""
    with serving(hook.socket, says(answer("1"))):
        process = hook.start()
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(6) == 1
        assert process.stderr is not None
        process.stderr.close()
