"""Wheels made from what is installed here, so that set-up and installer can be tried without a package index."""

from __future__ import annotations

import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag, parse_tag, sys_tags
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def base_requirements() -> set[str]:
    """The names of what a base installation needs, with what those need in turn."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = list(tomllib.load(file)["project"]["dependencies"])
    found: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(requirement.name)
            wanted += metadata.requires(requirement.name) or []
    return found


def repack(name: str, directory: Path) -> Path:
    """Write the wheel of an installed distribution into ``directory``; its scripts and data files are left out."""
    dist = metadata.distribution(name)
    own_name = re.sub(r"[-_.]+", "_", canonicalize_name(name))
    wheel = directory / f"{own_name}-{dist.version}-{_tag(dist)}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in dist.files or []:
            if ".." in file.parts or file.suffix == ".pyc" or file.name in LEFT_OUT:
                continue
            archive.write(str(file.locate()), file.as_posix())
            record.append(f"{file.as_posix()},,")
        info = next(file.parent.as_posix() for file in dist.files or [] if file.name == "METADATA")
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return wheel


def _tag(dist: metadata.Distribution) -> Tag:
    lines = (dist.read_text("WHEEL") or "").splitlines()
    tags = {tag for line in lines if line.startswith("Tag: ") for tag in parse_tag(line.removeprefix("Tag: "))}
    return next(tag for tag in sys_tags() if tag in tags)
