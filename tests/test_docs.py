"""README.md says what the declarations say: every check, every verb, and no table that has grown old."""

from __future__ import annotations

from checks.catalog import load
from deploy.docs import README, SCHEMA, rendered, schema
from deploy.manpage import PAGE, page


def test_the_tables_are_those_of_the_declarations() -> None:
    text = README.read_text(encoding="utf-8")
    assert rendered(text) == text, "run: python -m deploy.docs"


def test_every_check_is_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    assert [name for name in load() if f"| `{name}` |" not in text] == []


def test_a_table_that_has_grown_old_is_noticed() -> None:
    text = README.read_text(encoding="utf-8")
    old = text.replace("| `gpu_count` |", "| `gpu_number` |")
    assert old != text and rendered(old) != old


def test_every_check_and_code_explains_itself() -> None:
    for check in load().values():
        assert "onfirm" in check.explain, f"{check.name}: no way to confirm by hand"
        for code in check.codes:
            assert code.explain or check.explain, code.name


def test_the_manual_page_is_that_of_the_command() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m deploy.docs"


def test_the_schema_is_that_of_the_declarations() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), "run: python -m deploy.docs"
