"""The central service answers, works, and takes the token of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.central import Central, CentralError, NotAllowed
from slurm.doctor import Advice

NOT_READ = "not read yet"
_WHY = "without it no permit is given and nothing is drained: bad nodes are admitted"


def central_rules(url: str, token: str, ca_file: str | None) -> Iterator[Advice]:
    """Three questions: is it alive, is it ready, are we let in."""
    if not url:
        yield Advice(
            "warning",
            "central service",
            "no [central] url configured",
            _WHY,
            'nodevet.toml: [central] url = "https://…"',
        )
        return
    client = None
    try:
        client = Central(url, token, ca_file)
        client.get("health", dict[str, object])
        yield Advice("ok", "central service", f"{url} answers")
        yield from _ready(client, url)
        yield from _token(client, bool(token))
    except CentralError as error:
        yield Advice("problem", "central service", str(error), _WHY, "systemctl status nodevet-server")
    finally:
        if client is not None:
            client.close()


def _ready(client: Central, url: str) -> Iterator[Advice]:
    try:
        seen = client.get("ready", dict[str, object])
    except CentralError as error:
        why = "its database or its controller does not work: nothing is stored or drained"
        yield Advice("problem", "central service", f"not ready: {error}", why, f"curl {url}/api/v1/ready")
        return
    if seen.get("slurm") == NOT_READ:
        why = "it has not reached slurmctld since it started: it drains nothing and keeps default limits"
        yield Advice(
            "problem", "central service", "Slurm not read yet", why, "nodevet doctor, as the service's account"
        )


def _token(client: Central, given: bool) -> Iterator[Advice]:
    try:
        client.get("nodes", dict[str, object], limit=1)
    except NotAllowed as error:
        if given:
            yield Advice("problem", "token", str(error), "this machine's reports are refused", "nodevet token create")
        else:
            why = "reading needs one; reports of an agent do, too"
            yield Advice("warning", "token", "none that this user can read", why, "NODEVET_TOKEN, or run as root")
    except CentralError as error:
        yield Advice("warning", "token", str(error), "whether it is accepted is not known")
    else:
        yield Advice("ok", "token", "accepted" if given else "not needed here")
