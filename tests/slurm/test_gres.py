"""GRES strings and gres.conf give counts, indices and device files in every known writing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.gres import Gres, GresError, autodetect, gpu_count, gpu_files, minor, parse_gres, promised_gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ()),
        ("", ()),
        ("(null)", ()),
        ("N/A", ()),
        ("gpu", (Gres("gpu"),)),
        ("gpu:4", (Gres("gpu", count=4),)),
        ("gpu:h100:8(S:0-1)", (Gres("gpu", "h100", 8, sockets="0-1"),)),
        ("gpu:1(IDX:0)", (Gres("gpu", count=1, indices=(0,)),)),
        ("gpu:a100:3(IDX:0,2-3)", (Gres("gpu", "a100", 3, indices=(0, 2, 3)),)),
        ("gpu:0(IDX:N/A)", (Gres("gpu", count=0, indices=()),)),
        ("gpu:a100_1g.5gb:7,gpu:a100:1", (Gres("gpu", "a100_1g.5gb", 7), Gres("gpu", "a100", 1))),
        ("gres:gpu:2", (Gres("gpu", count=2),)),
        ("gres/gpu:4", (Gres("gpu", count=4),)),
        ("gpu:h100", (Gres("gpu", "h100", 1),)),
        (
            "nic:2,gpu:4(S:0,2),craynetwork:4",
            (Gres("nic", count=2), Gres("gpu", count=4, sockets="0,2"), Gres("craynetwork", count=4)),
        ),
        (
            "gpu:tesla:1,gpu:kepler:1,bandwidth:lustre:no_consume:4G",
            (Gres("gpu", "tesla", 1), Gres("gpu", "kepler", 1), Gres("bandwidth", "lustre", 4 * 2**30)),
        ),
        ("gpu:a100:4(S:0)(IDX:0-3)", (Gres("gpu", "a100", 4, (0, 1, 2, 3), "0"),)),
        ("gpu:nvidia_a100_80gb_pcie_1g.10gb+me:1", (Gres("gpu", "nvidia_a100_80gb_pcie_1g.10gb+me", 1),)),
        ("shard:h100:4K", (Gres("shard", "h100", 4096),)),
    ],
)
def test_reads_every_writing(text: str | None, expected: tuple[Gres, ...]) -> None:
    """E92: dots in MIG types, (IDX:..) and (S:..), lists of several entries, N/A."""
    assert parse_gres(text) == expected


def test_counts_all_gpu_types() -> None:
    """E92: not only the first entry of a list."""
    assert gpu_count("gpu:a100_1g.5gb:7,nic:2,gpu:a100:1") == 8
    assert gpu_count("(null)") == 0


@pytest.mark.parametrize("text", [":", "gpu:a:b:c:1", "gpu:(S:0", "gpu:1(IDX:x)", "gpu:9999(IDX:0-9999)", ",gpu:1"])
def test_refuses_what_is_no_gres(text: str) -> None:
    with pytest.raises(GresError):
        parse_gres(text)


CONF = """\
# comment
AutoDetect=off
NodeName=gpu[01-02] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-31
nodename=gpu[01-02] name=GPU Type=h100 \\
  File=/dev/nvidia[4-7] Cores=32-63
NodeName=gpu03 Name=gpu File=/dev/nvidia2,/dev/nvidia0,/dev/nvidia[5,7]
NodeName=gpu04 AutoDetect=nvml Name=gpu
NodeName=gpu01 Name=nic File=/dev/nic0
Name=shard Count=16
"""


@pytest.mark.parametrize(
    ("node", "files"),
    [
        ("gpu01", [f"/dev/nvidia{i}" for i in range(8)]),
        ("gpu03", ["/dev/nvidia2", "/dev/nvidia0", "/dev/nvidia5", "/dev/nvidia7"]),
        ("gpu04", []),
        ("cpu1", []),
    ],
)
def test_finds_the_files_by_index(node: str, files: list[str]) -> None:
    assert list(gpu_files(CONF, node)) == files


def test_a_line_without_node_name_is_for_all() -> None:
    assert gpu_files("Name=gpu File=/dev/nvidia[0-1]\n", "any") == ("/dev/nvidia0", "/dev/nvidia1")


SHUFFLED = "".join(f"NodeName=n1 Name=gpu Type=t{i} File=/dev/nvidia{i}\n" for i in (3, 1, 0, 2))


def test_slurm_conf_orders_the_types() -> None:
    """Index 0 is the first type of slurm.conf's Gres, wherever it stands in gres.conf."""
    assert gpu_files(SHUFFLED, "n1", gres="gpu:t0:1,gpu:t1:1,gpu:t2:1,gpu:t3:1(S:0)") == tuple(
        f"/dev/nvidia{i}" for i in range(4)
    )
    assert gpu_files(SHUFFLED, "n1", gres="gpu:t2:1,gpu:t3:1,gpu:t0:1,gpu:t1:1")[:2] == ("/dev/nvidia2", "/dev/nvidia3")


@pytest.mark.parametrize("gres", [None, "gpu:4", "gpu:t0:1,gpu:t1:1", "(null)"])
def test_several_types_without_their_order_are_not_guessed(gres: str | None) -> None:
    """E61: a wrong map would judge another job's GPU."""
    with pytest.raises(GresError, match="is not known"):
        gpu_files(SHUFFLED, "n1", gres=gres)


def test_untyped_lines_do_not_tell_typed_gpus_apart() -> None:
    with pytest.raises(GresError, match="is not known"):
        gpu_files("Name=gpu File=/dev/nvidia[0-3]\n", "n1", gres="gpu:a:2,gpu:b:2")
    assert len(gpu_files("Name=gpu File=/dev/nvidia[0-3]\n", "n1", gres="gpu:h100:4")) == 4


def test_a_file_given_twice_is_refused() -> None:
    with pytest.raises(GresError, match="twice"):
        gpu_files("Name=gpu File=/dev/nvidia[0-3]\nName=gpu File=/dev/nvidia3\n", "n1")


def test_reads_autodetect() -> None:
    assert autodetect(CONF, "gpu01") == "off"
    assert autodetect(CONF, "gpu04") == "nvml"
    assert autodetect("Name=gpu File=/dev/nvidia0\n", "n1") is None


def test_reads_the_minor() -> None:
    assert (minor("/dev/nvidia12"), minor("/srv/dev/fakegpu3"), minor("/dev/null")) == (12, 3, None)


@pytest.mark.parametrize(
    "conf",
    [
        "NodeName=n[1- Name=gpu File=/dev/nvidia0",
        "Name=gpu File=/dev/nvidia[0-9999999]",
        "Name=gpu File=nvidia0",
        "Name=gpu File=/dev/$(reboot)",
    ],
)
def test_refuses_a_broken_file(conf: str) -> None:
    with pytest.raises(GresError, match=r"gres\.conf"):
        gpu_files(conf, "n1")


@given(st.text(alphabet="gpu:0123()IDX,-S.[]/=\n ", max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_gres, lambda conf: gpu_files("Name=gpu File=/dev/" + conf, "n1")):
        try:
            read(text)
        except GresError:
            continue


CAPS = "/dev/nvidia-caps/nvidia-cap"


@pytest.mark.parametrize(
    ("conf", "promised"),
    [
        ("Name=gpu File=/dev/nvidia[0-7]\nName=shard Count=80\nName=mps Count=800\n", 8),
        ("Name=gpu Type=a File=/dev/nvidia[0-3]\nName=gpu Type=b File=/dev/nvidia[4-7]\n", 8),
        (f"Name=gpu Type=1g.5gb File={CAPS}[30,39,48,57,66,75,84]\nName=gpu Type=a100 File=/dev/nvidia1\n", 1),
        (
            f"Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,{CAPS}21,{CAPS}22\n"
            f"Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,{CAPS}30,{CAPS}31\n"
            "Name=gpu Type=a100 File=/dev/nvidia1\n",
            2,
        ),
        (f"Name=gpu File={CAPS}[3,4]\n", None),
        ("Name=gpu Type=mi300x File=/dev/dri/renderD[128-135]\n", None),
        ("AutoDetect=nvml\n", None),
        ("Name=gpu Type=h100 Count=8\n", None),
    ],
)
def test_the_promise_is_of_whole_gpus(conf: str, promised: int | None) -> None:
    """E48: fourteen MIG devices are no fourteen GPUs, and another maker's are not NVIDIA's."""
    assert promised_gpus(conf, "n1") == promised


@pytest.mark.parametrize("file", [f"{CAPS}3", "/dev/dri/renderD128", "/dev/dri/card1"])
def test_a_capability_is_no_device_minor(file: str) -> None:
    """E48, rule 6: nvidia-cap3 is not the GPU with minor 3, which may be another job's."""
    assert minor(file) is None


def test_a_mig_device_is_one_index_of_its_parent() -> None:
    """E48, rule 6: the whole GPU behind two MIG devices has index 2, not 6."""
    conf = (
        f"Name=gpu MultipleFiles=/dev/nvidia0,{CAPS}21,{CAPS}22\n"
        f"Name=gpu MultipleFiles=/dev/nvidia0,{CAPS}30,{CAPS}31\n"
        "Name=gpu File=/dev/nvidia1\n"
    )
    assert gpu_files(conf, "n1") == ("/dev/nvidia0", "/dev/nvidia0", "/dev/nvidia1")
