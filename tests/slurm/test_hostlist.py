"""Host lists expand in Slurm's order and within bounds, whatever is in them."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from slurm.hostlist import HostlistError, count, expand, first, fold, node_rank


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-4]", ["n1", "n2", "n3", "n4"]),
        ("gpu[01-03,07,10]", ["gpu01", "gpu02", "gpu03", "gpu07", "gpu10"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[3,1-2]", ["n3", "n1", "n2"]),
        ("b2,a1", ["b2", "a1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("rack[1-2]-gpu[08-09]-ib", ["rack1-gpu08-ib", "rack1-gpu09-ib", "rack2-gpu08-ib", "rack2-gpu09-ib"]),
        ("n[1-2],login1,m[5]", ["n1", "n2", "login1", "m5"]),
        ("n[1-2],n2,n1", ["n1", "n2"]),
        ("[1-2]a", ["1a", "2a"]),
    ],
)
def test_expands_in_the_order_given(hostlist: str, names: list[str]) -> None:
    """E91: zero padding, commas in brackets, several brackets, mixed lists."""
    assert list(expand(hostlist)) == names
    assert first(hostlist) == names[0]
    assert [node_rank(hostlist, name) for name in names] == list(range(len(names)))
    assert set(NodeSet(hostlist, resolver=RESOLVER_NOGROUP)) == set(names)


@pytest.mark.parametrize(
    "hostlist",
    [
        "",
        ",",
        "n1,",
        "n[1-2",
        "n1-2]",
        "n[[1]]",
        "n[]",
        "n[2-1]",
        "n[1-]",
        "n[a-b]",
        "n[1-9/2]",
        "@all",
        "n1!n2",
        "n1&n2",
        "n*",
        "n1 n2",
        "n1\nn2",
        "$(reboot)",
        "../../etc",
        "n[١-٢]",
        "n[0-9999999999999999999]",
    ],
)
def test_refuses_what_is_no_host_list(hostlist: str) -> None:
    """E91: group names and set operations of other tools are not names of nodes."""
    with pytest.raises(HostlistError):
        expand(hostlist)


@pytest.mark.parametrize(
    ("hostlist", "message"),
    [
        ("n[1-100001]", "host list names 100001 nodes, limit is 100000"),
        ("n[0-999999999999999999]", "host list names 1000000000000000000 nodes, limit is 100000"),
        ("a[1-1000]b[1-1000]c[1-1000]", "host list names 1000000000 nodes, limit is 100000"),
        ("n" * 1_000_001, "host list has 1000001 characters, limit is 1000000"),
    ],
)
def test_refuses_too_many_names_before_expanding(hostlist: str, message: str) -> None:
    with pytest.raises(HostlistError, match=message):
        expand(hostlist)


def test_bears_a_hundred_thousand_names() -> None:
    names = expand("n[000001-100000]")
    assert (len(names), names[0], names[-1]) == (100_000, "n000001", "n100000")
    assert count("n[1-100000],m[1-7]") == 100_007


def test_names_the_node_that_is_missing() -> None:
    with pytest.raises(HostlistError, match="node n9 is not in the host list"):
        node_rank("n[1-4]", "n9")


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["n2", "n1", "n3"], "n[1-3]"),
        (["gpu01", "gpu02", "gpu10", "login"], "gpu[01-02,10],login"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]"),
        (["n[1-2]", "n3"], "n[1-3]"),
        ([], ""),
    ],
)
def test_folds(names: list[str], folded: str) -> None:
    assert fold(names) == folded


def test_refuses_to_fold_hostile_names() -> None:
    with pytest.raises(HostlistError):
        fold(["n1", "@all"])


_NAME = st.from_regex(r"[a-z]{1,4}[0-9]{1,3}(-[a-z]{1,2}[0-9]{1,2})?", fullmatch=True)


@given(st.lists(_NAME, min_size=1, max_size=30))
def test_folding_and_expanding_is_loss_free(names: list[str]) -> None:
    assert set(expand(fold(names))) == set(names)


@given(st.text(alphabet="n1-2,[]0@ \n", max_size=60) | st.text(max_size=60))
def test_any_text_is_a_list_or_refused(text: str) -> None:
    try:
        names = expand(text, limit=1000)
    except HostlistError:
        return
    assert 0 < len(names) <= 1000
