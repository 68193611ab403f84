"""README.md and docs/ say what the declarations say: every check, every verb, and no table that has grown old."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

import api.settings
import daemon.config
from checks.catalog import load
from checks.profile import GENERIC
from daemon.plan import plan
from deploy import settings_page
from deploy.docs import CHECKS, README, SCHEMA, rendered, schema
from deploy.manpage import PAGE, page
from deploy.settings_words import NODE, SERVER


def test_the_tables_are_those_of_the_declarations() -> None:
    for path in (README, CHECKS):
        text = path.read_text(encoding="utf-8")
        assert "<!-- made: " in text
        assert rendered(text) == text, "run: python -m deploy.docs"


def test_every_check_is_on_its_page() -> None:
    text = CHECKS.read_text(encoding="utf-8")
    assert [name for name in load() if f"| `{name}` |" not in text] == []


def test_a_table_that_has_grown_old_is_noticed() -> None:
    text = CHECKS.read_text(encoding="utf-8")
    old = text.replace("| `gpu_count` |", "| `gpu_number` |")
    assert old != text and rendered(old) != old


def test_what_a_site_is_told_to_write_is_understood() -> None:
    example = CHECKS.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    config = daemon.config.parse_config(example, Path("example.toml"), {})
    assert len(config.checks) > 15
    asked = {i.name: i for i in plan(config, GENERIC)}
    assert asked["clock"].options["source"] == "chrony"
    assert asked["redfish"].lane == "redfish", "with an address it has a worker of its own"


def test_what_a_site_writes_first_is_understood() -> None:
    page = CHECKS.with_name("first-settings.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    config = daemon.config.parse_config(example, Path("example.toml"), {})
    asked = {i.name for i in plan(config, GENERIC)}
    assert len(config.checks) >= 7
    assert {c for c in config.checks if not any(name.partition(":")[0] == c for name in asked)} == set()


def test_every_check_and_code_explains_itself() -> None:
    for check in load().values():
        assert "onfirm" in check.explain, f"{check.name}: no way to confirm by hand"
        for code in check.codes:
            assert code.explain or check.explain, code.name


def test_the_manual_page_is_that_of_the_command() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m deploy.docs"


def test_the_schema_is_that_of_the_declarations() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), "run: python -m deploy.docs"


def test_the_settings_page_is_that_of_the_declarations() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), "run: python -m deploy.docs"


def test_every_setting_has_its_words_and_no_word_is_about_a_setting_that_is_gone() -> None:
    for sections, words in ((settings_page.SERVER_SECTIONS, SERVER), (settings_page.NODE_SECTIONS, NODE)):
        assert sorted(name for name, _ in settings_page.keys(sections)) == sorted(words)


def test_every_section_that_is_read_is_on_the_page() -> None:
    assert set(api.settings._SECTIONS) == set(settings_page.SERVER_SECTIONS)
    assert {*daemon.config._SECTIONS, "checks.NAME"} == set(settings_page.NODE_SECTIONS)


def test_every_default_on_the_page_is_taken_by_the_file() -> None:
    """What the page shows can be copied into a file, and the file then says what was true without it."""
    text = _file(settings_page.NODE_SECTIONS)
    read, plain = daemon.config.parse_config(text, None, {}), daemon.config.parse_config("", None, {})
    assert (read.agent, read.central, read.host, read.remedy) == (plain.agent, plain.central, plain.host, plain.remedy)


def test_every_default_of_the_server_is_taken_by_its_file(tmp_path: Path) -> None:
    """A remedy's NAME is a name like any other; all else is as without the file."""
    path = tmp_path / "server.toml"
    path.write_text(_file(settings_page.SERVER_SECTIONS), encoding="utf-8")
    read, plain = api.settings.load_settings(path, {}), api.settings.Settings(server=api.settings.ServerSettings())
    assert (read.server, read.guard, read.alerts) == (plain.server, plain.guard, plain.alerts)
    assert msgspec.structs.replace(read.remedy, run={}) == plain.remedy
    assert read.controller_settings() == plain.controller_settings()


def _file(sections: Mapping[str, type]) -> str:
    lines: dict[str, list[str]] = {}
    for name, default in settings_page.keys(sections):
        section, _, key = name.rpartition(".")
        if default is not None and not section.startswith("checks"):
            lines.setdefault(section, []).append(f"{key} = {settings_page.value(default)}")
    return "\n".join("\n".join((f"[{section}]", *keys)) for section, keys in lines.items())


def test_every_page_of_docs_is_in_its_index() -> None:
    docs = settings_page.PAGE.parent
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in docs.iterdir() if path.is_file() and path.name != "README.md"]
    assert len(pages) > 5
    assert [name for name in pages if f"]({name})" not in index] == []


def test_links_between_the_pages_lead_somewhere() -> None:
    docs = settings_page.PAGE.parent
    pages = [*docs.glob("*.md"), README]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
