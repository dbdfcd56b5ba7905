"""Lines of logs as stores of logs give them out are read as the logs of their hosts and pods."""

import json

import pytest
from click.testing import CliRunner

from skewscope.adapters.inputs import log_export
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.tui.cli.main import cli

START = 1795341600
XID = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
CALM = "systemd[1]: Started session 4 of user root."


def loki(lines):
    """Returns an answer of Loki with the newest line first, a stream for each host."""
    streams = [
        {
            "stream": {"host": host, "job": "journal"},
            "values": [[f"{time}000000000", text] for time, text in each[::-1]],
        }
        for host, each in lines.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}}, indent=2)


def hits(lines):
    """Returns an answer of Elasticsearch."""
    found = [
        {
            "_source": {
                "@timestamp": f"2026-11-22T10:00:{time - START:02d}.000Z",
                "message": text,
                "host": {"name": host},
            }
        }
        for host, each in lines.items()
        for time, text in each
    ]
    return json.dumps({"took": 3, "hits": {"total": {"value": len(found)}, "hits": found}})


def table(lines):
    """Returns what Kibana exports of a search."""
    rows = [
        f'"Nov 22, 2026 @ 10:00:{time - START:02d}.000","{host}","{text}"'
        for host, each in lines.items()
        for time, text in each[::-1]
    ]
    return "\n".join(('"@timestamp","host.name",message', *rows, ""))


@pytest.mark.parametrize("write", [loki, hits, table])
def test_a_message_is_of_the_host_that_wrote_it_at_its_time(tmp_path, write):
    lines = {
        "n1": [(START + 1, CALM), (START + 2, CALM)],
        "n2": [(START + 1, CALM), (START + 5, XID)],
    }
    path = tmp_path / "export"
    path.write_text(write(lines))
    assert find_kind(path) == "log-export"
    output = CliRunner().invoke(cli, ["diagnose", str(path)]).output
    assert "n2" in output
    assert "10:00:05 UTC" in output
    assert "79" in output
    assert "n1" not in output


def test_statistics_of_the_log_of_a_pod_are_of_its_engine(tmp_path):
    line = (
        "INFO 11-22 10:00:{0:02d} [loggers.py:111] Engine 000: Avg prompt throughput: 19.0 tokens/s, Avg generation"
        " throughput: 0.0 tokens/s, Running: 12 reqs, Waiting: 40 reqs, GPU KV cache usage: 99.8%, Prefix cache hit"
        " rate: 1.0%"
    )
    rows = [f'"2026-11-22T10:00:{n:02d}Z","chat-7d9f-abcde","{line.format(n)}"' for n in range(0, 60, 10)]
    path = tmp_path / "pod.csv"
    path.write_text("\n".join(("@timestamp,kubernetes.pod.name,message", *rows, "")))
    output = CliRunner().invoke(cli, ["diagnose", str(path)]).output
    assert "chat-7d9f-abcde" in output


@pytest.mark.parametrize(
    "text",
    [
        "time,host,value\n2026-11-22T10:00:00Z,n0,1\n",
        "timestamp,message\n2026-11-22T10:00:00Z,ok\n",
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}),
        "\x00\x01",
    ],
)
def test_other_tables_and_answers_are_not_taken(text):
    assert not log_export.recognise(text.encode(), "a")


@pytest.mark.parametrize("cell", ["x" * 200_000, "a b\0c d"])
def test_a_table_with_a_damaged_cell_gives_no_fault(tmp_path, cell):
    path = tmp_path / "big.csv"
    path.write_text(table({"n1": [(START + 1, CALM), (START + 2, cell), (START + 5, XID)]}))
    result = CliRunner().invoke(cli, ["diagnose", str(path)])
    assert result.exit_code in (1, 2, 3)
    assert isinstance(result.exception, SystemExit)


def test_an_answer_without_lines_is_refused(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text(loki({"n0": []}))
    result = CliRunner().invoke(cli, ["diagnose", str(path)])
    assert result.exit_code == 2
    assert "no line of a log with a time" in result.output
