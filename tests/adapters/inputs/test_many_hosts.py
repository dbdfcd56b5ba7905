"""What one command printed on many hosts is read host by host, however a parallel shell writes their names."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs import many_hosts
from skewscope.adapters.inputs.many_hosts import READER, split_hosts
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.kb.problems import InputError

OFFSET = "System time     : {} seconds slow of NTP time"
BEFORE = "{host}: {text}\n"


def dump(form, hosts=("gpu01", "gpu02")):
    return "".join(form.format(host=host, text=OFFSET.format(f"0.{n}")) for n, host in enumerate(hosts, 1))


FORMS = {
    "pdsh": BEFORE,
    "dshbak": "----------------\n{host}\n----------------\n{text}\n",
    "clush": "---------------\n{host} (1)\n---------------\n{text}\n",
    "ansible": "{host} | CHANGED | rc=0 >>\n{text}\n",
    "loop": "== {host}\n{text}\n",
    "boxed loop": "=== {host} ===\n{text}\n",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("hosts", [("gpu01", "gpu02"), ("n7.rack2.lab", "n8.rack2.lab"), ("h100-a-3", "h100-a-4")])
def test_each_host_has_its_own_series(form, hosts, tmp_path):
    text = dump(form, hosts)
    (tmp_path / "t.txt").write_text(text)
    assert find_kind(tmp_path / "t.txt") == "many-hosts"
    series = READER.read_series(io.BytesIO(text.encode()), "t.txt", {})
    assert {dict(one.labels)["node"]: one.values.tolist() for one in series} == {hosts[0]: [0.1], hosts[1]: [0.2]}


@pytest.mark.parametrize(
    "text",
    [
        dump(BEFORE, ("gpu01",)),
        dump(BEFORE, ("eth0", "eth1")),
        dump(BEFORE, ("GPU0", "GPU1")),
        dump(BEFORE, ("Name", "State")),
        dump(BEFORE) + "what else stands here\n" * 9,
        # The log of one job, with headings.
        *(
            "".join(
                f"=== {part}{k} ===\n"
                + "".join(f"iter {n}: loss 3.1, time 10{n % 9}.45ms, mfu 30.12%\n" for n in range(30 * k, 30 * k + 30))
                for k in (1, 2)
            )
            for part in ("epoch", "run")
        ),
        "gpu01: said by no known program\ngpu02: said by no known program\n",
    ],
)
def test_what_is_not_of_several_hosts_or_of_no_known_kind_is_left_to_others(text):
    assert not many_hosts.recognise(text.encode(), "t.txt")


def test_a_host_that_answered_with_an_error_is_named():
    text = dump(BEFORE) + "gpu03: bash: line 1: chronyc: command not found\n"
    series = READER.read_series(io.BytesIO(text.encode()), "t.txt", {})
    assert len(series) == 2
    assert "nothing is known of what gpu03 printed" in series[0].note


def test_more_hosts_than_the_bound_are_refused(monkeypatch):
    monkeypatch.setenv(many_hosts.INPUTS.variable, "2")
    with pytest.raises(InputError, match="at most 2"):
        READER.read_series(io.BytesIO(dump(BEFORE, ("n1", "n2", "n3")).encode()), "t.txt", {})


@given(st.lists(st.text(alphabet="ab1: -=\n|", max_size=30), max_size=12))
def test_no_line_is_of_two_hosts(lines):
    parts = split_hosts(lines)
    assert sum(len(text.splitlines()) for text in parts.values()) <= len(lines)
