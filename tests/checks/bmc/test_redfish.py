"""A BMC is read over TLS that is proved, gives its password to nobody else, and none of its words drain a node."""

from __future__ import annotations

import hashlib
import socket
import ssl
from pathlib import Path

import pytest

from checks import Finding, Host
from checks.bmc import redfish_client
from checks.bmc.redfish_client import ANSWER_LIMIT, Redfish, RedfishError, Service, credentials
from checks.catalog import load
from checks.runner import run_check
from tests.checks.bmc.service import CERTIFICATE, PASSWORD, USER, V1, Bmc, links, logged, newer, older, part, serving
from tests.fakes import Plant

FILE = "/etc/nodevet/redfish.toml"
FINGERPRINT = hashlib.sha256(ssl.PEM_cert_to_DER_cert(CERTIFICATE.read_text())).hexdigest()


def secret(host: Host, text: str = f'user = "{USER}"\npassword = "{PASSWORD}"\n', mode: int = 0o600) -> Host:
    path = host.path(FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return host


def found(host: Host, bmc: Bmc, **options: object) -> list[Finding]:
    trust = {} if "fingerprint" in options else {"cafile": str(CERTIFICATE)}
    seen = list(run_check(load()["redfish"], secret(host), {"url": bmc.url, **trust, **options}).findings)
    assert "fail" not in {f.status for f in seen}, "a BMC takes no node out of service"
    assert all(PASSWORD not in f"{f.message}{f.evidence}" for f in seen)
    return seen


def briefly(seen: list[Finding]) -> list[tuple[str, str]]:
    return [(f.code, f.target) for f in seen]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (older(part("PSU 1"), part("PSU 2"), fans=(part("Fan 1"),)), [("ok", "bmc")]),
        (older(part("PSU 1"), part("PSU 2", "Critical")), [("bmc_part_unwell", "1/PSU 2")]),
        (older(part("PSU 1", None, "Absent")), [("ok", "bmc")]),
        (older(part("PSU 1", "Critical", "Absent")), [("ok", "bmc")]),
        (older(fans=(part("Fan 1", "Warning"), part("Fan 2", "Sunny"))), [("bmc_part_unwell", "1/Fan 1")]),
        (newer(part("PSU 1"), part("PSU 2")), [("ok", "bmc")]),
        (newer(part("PSU 1", "Critical"), part("PSU 2")), [("bmc_part_unwell", "DGX/PSU 1")]),
        ({f"{V1}/Chassis": links(f"{V1}/Chassis/1")}, [("bmc_unasked", "bmc")]),
        ({f"{V1}/Chassis": {"Members": "many"}}, [("bmc_unasked", "bmc")]),
        ({f"{V1}/Chassis": b"<html>"}, [("bmc_unasked", "bmc")]),
        ({f"{V1}/Chassis": b"[" * 100_000}, [("bmc_unasked", "bmc")]),
        ({f"{V1}/Chassis": 503}, [("bmc_unasked", "bmc")]),
        ({f"{V1}/Chassis": b" " * (ANSWER_LIMIT + 1)}, [("bmc_unasked", "bmc")]),
    ],
)
def test_judges_parts_of_old_and_new_services(
    plant: Plant, resources: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    with serving(resources) as bmc:
        assert briefly(found(plant(), bmc)) == expected


def test_a_redirect_is_refused(plant: Plant) -> None:
    """The password goes to the BMC that is configured and to no other address, whatever it says."""
    with serving(older(part("PSU 1"))) as other, serving({f"{V1}/Chassis": f"-> {other.url}{V1}/Chassis"}) as bmc:
        (seen,) = found(plant(), bmc)
        assert "status 302, expected 200" in seen.message
        assert other.asked == []


def test_a_link_to_another_host_is_not_followed(plant: Plant) -> None:
    with serving(older(part("PSU 1"))) as other:
        elsewhere = links(f"{other.url}{V1}/Chassis/1", "//evil/redfish/v1/x", f"{V1}/a b", f"{V1}/a\r\nHost: x")
        with serving({f"{V1}/Chassis": elsewhere}) as bmc:
            assert briefly(found(plant(), bmc)) == [("bmc_unasked", "bmc")]
            assert (other.asked, bmc.asked[0]) == ([], f"{V1}/Chassis")
            assert not [path for path in bmc.asked if "Chassis/" in path or "evil" in path or " " in path]


def test_a_certificate_that_is_not_proved_gets_no_password(plant: Plant) -> None:
    with serving(older(part("PSU 1"))) as bmc:
        assert briefly(found(plant(), bmc, cafile="")) == [("bmc_unasked", "bmc")]
        assert briefly(found(plant(), bmc, fingerprint="00" * 32)) == [("bmc_unasked", "bmc")]
        assert bmc.asked == []
        assert briefly(found(plant(), bmc, fingerprint=FINGERPRINT.upper())) == [("ok", "bmc")]


def test_a_wrong_password_is_our_trouble(plant: Plant) -> None:
    host = secret(plant(), f'user = "{USER}"\npassword = "other"\n')
    with serving(older(part("PSU 1"))) as bmc:
        options = {"url": bmc.url, "cafile": str(CERTIFICATE)}
        (seen,) = run_check(load()["redfish"], host, options).findings
    assert (seen.code, seen.blame) == ("bmc_unasked", "self")
    assert "status 401" in seen.message


def test_one_that_never_answers_is_left_after_its_time(plant: Plant) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        options = {"url": url, "cafile": str(CERTIFICATE), "seconds": 0.3}
        (seen,) = run_check(load()["redfish"], secret(plant()), options).findings
    assert (seen.code, seen.status, seen.blame) == ("bmc_unasked", "unknown", "self")


def test_without_an_address_nobody_is_asked(plant: Plant) -> None:
    (seen,) = run_check(load()["redfish"], plant(), {}).findings
    assert seen.status == "skipped"
    host = secret(plant())
    host.simulated = False
    (seen,) = run_check(load()["redfish"], host, {"url": "https://127.0.0.1:1"}).findings
    assert seen.status == "skipped", "a copied tree has no BMC"


# ---- the log

OLD = ("2026-11-30T10:00:00+00:00", "Critical", "PSU 1 lost AC")
BOOT = ("2026-12-01T08:00:00Z", "OK", "System boot")
LATER = ("2026-12-01T09:00:00+00:00", "Critical", "DIMM A1 uncorrectable")
ODD = ("yesterday", "Critical", "no time")


@pytest.mark.parametrize(
    ("entries", "memory", "expected"),
    [
        ((OLD, BOOT, LATER), {}, [("ok", "bmc")]),
        ((OLD, BOOT, LATER), {"redfish": "2026-12-01T08:00:00+00:00"}, [("bmc_entry", "bmc")]),
        ((OLD, BOOT, ODD), {"redfish": "2026-12-01T07:00:00+00:00"}, [("ok", "bmc")]),
        ((OLD, BOOT, LATER), {"redfish": "garbage"}, [("ok", "bmc")]),
        ((OLD, BOOT, LATER), {"redfish": ["x"]}, [("ok", "bmc")]),
    ],
)
def test_only_what_came_since_our_first_look_is_told(
    plant: Plant,
    entries: tuple[tuple[str, str, str], ...],
    memory: dict[str, object],
    expected: list[tuple[str, str]],
) -> None:
    """Like E103, with the BMC's own log: what is older than our first look is history, page by page."""
    host = plant()
    host.memory = memory
    with serving({**older(part("PSU 1")), **logged(*entries)}) as bmc:
        seen = found(host, bmc)
        assert briefly(seen) == expected
        assert not [path for path in bmc.asked if path.endswith("Dumps")]
    assert str(host.keeps["redfish"]).startswith("2026-12-01T")


# ---- the client


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1", "https://", "https://u:p@bmc", "ftp://bmc", "https://bmc?x", "bmc", "https://[::1"]
)
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"url|IPv6"):
        Redfish(Service(url), "u", "p", 1.0)


def test_no_more_than_so_many_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish_client, "QUESTIONS_LIMIT", 2)
    with serving({f"{V1}/x": {}}) as bmc, Redfish(Service(bmc.url, str(CERTIFICATE)), USER, PASSWORD, 60.0) as client:
        for _ in range(2):
            client.get(f"{V1}/x")
        with pytest.raises(RedfishError, match="more than 2"):
            client.get(f"{V1}/x")
        assert len(bmc.asked) == 2


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (f'user = "a"\npassword = "{PASSWORD}"\n', 0o640),
        (f'user = "a"\npassword = "{PASSWORD}"\n', 0o604),
        (f'user = "a"\npassword = {PASSWORD}\n', 0o600),
        (f'user = "a:b"\npassword = "{PASSWORD}"\n', 0o600),
        (f'user = 7\npassword = "{PASSWORD}"\n', 0o600),
    ],
)
def test_a_file_that_others_may_read_or_that_is_none_is_refused(plant: Plant, text: str, mode: int) -> None:
    with pytest.raises(ValueError) as told:
        credentials(secret(plant(), text, mode), FILE)
    assert PASSWORD not in str(told.value)


def test_a_link_in_place_of_the_file_is_refused(plant: Plant, tmp_path: Path) -> None:
    host = secret(plant())
    host.path(FILE).rename(tmp_path / "other")
    host.path(FILE).symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        credentials(host, FILE)
