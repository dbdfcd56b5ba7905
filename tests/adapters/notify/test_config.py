"""`tell:` in a controller's config: every fault at once, and what is known of each entry."""

import pytest

from skewscope.adapters.controller.config import read
from skewscope.adapters.inputs.recording import demo_path
from skewscope.kb.problems import InputError

SECRET = "0123456789abcdef-very-secret"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a config beside the demo's topology and some secrets."""
    (tmp_path / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())
    (tmp_path / "chat").write_text(f"# ours\njson://u:{SECRET}@host/\n\nslack://a/b/c\n")
    (tmp_path / "empty").write_text("# nobody\n")
    monkeypatch.setenv("SECRET", SECRET)

    def write(text):
        path = tmp_path / "skewscope.yaml"
        path.write_text(f"version: 1\ntopology: topology.yaml\ntell:\n{text}")
        return path

    return write


def test_everything_can_be_said(written):
    pytest.importorskip("apprise")
    pytest.importorskip("grpc")
    config = read(
        written(
            """
  - kind: alertmanager
    name: ops
    urls: ["am0:9093", "https://am1/prefix/", "am0:9093"]
    period: 20
    labels: {cluster: a}
    severity_label: true
    least: warning
    after: 3
    explained: true
    link: https://skewscope.example/
    bearer: {token: "${SECRET}"}
  - {kind: cloudevents, urls: ["https://events.example/in"], source: urn:a, mode: binary, timeout: 2, symptoms: false}
  - {kind: nvsentinel, name: nv, target: "unix:///run/nv.sock", least: critical}
  - {kind: chat, name: room, file: chat, per_hour: 10}
"""
        )
    )
    assert SECRET not in repr(config)
    ops, events, nv, room = (wanted.settings for wanted in config.notifiers)
    assert [wish.scope.symptoms for wish in (ops, events, nv, room)] == [True, False, False, True]
    assert ops.urls == ("http://am0:9093/api/v2/alerts", "https://am1/prefix/api/v2/alerts")
    assert (ops.period, ops.labels, ops.severity_label, ops.link) == (
        20.0,
        (("cluster", "a"),),
        True,
        "https://skewscope.example",
    )
    assert (ops.scope.min_severity, ops.scope.min_age, ops.scope.roots_only) == ("warning", 3.0, False)
    assert (events.name, events.urls, events.mode) == ("teller 1", ("https://events.example/in",), "binary")
    assert (nv.target, nv.scope.min_severity) == ("unix:///run/nv.sock", "critical")
    assert [each.text for each in room.addresses] == [f"json://u:{SECRET}@host/", "slack://a/b/c"]
    assert room.scope.min_age == 5.0


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("{kind: alertmanger, urls: [a]}", "Did you mean 'alertmanager'?"),
        ("{urls: [a]}", "the field 'kind'"),
        ("{kind: alertmanager}", "the field 'urls'"),
        ("{kind: alertmanager, urls: []}", "no address"),
        ('{kind: alertmanager, urls: ["ftp://a"]}', "HOST:PORT"),
        ('{kind: alertmanager, urls: ["http://u:p@a"]}', "Put the secret into the field `bearer`."),
        ('{kind: alertmanager, urls: ["a:1"], labels: {entity: x}}', "a label that Skewscope does not set itself"),
        ('{kind: alertmanager, urls: ["a:1"], least: bad}', "one of info, warning, critical"),
        ('{kind: alertmanager, urls: ["a:1"], bearer: {token: plain}}', "a secret in plain text"),
        ('{kind: alertmanager, urls: ["a:1"], period: 0}', "a number from 1"),
        ('{kind: alertmanager, urls: ["a:1"], perod: 1}', "Did you mean 'period'?"),
        ('{kind: cloudevents, urls: ["a:1", "b:1"]}', "Write an entry for each."),
        ('{kind: cloudevents, urls: ["a:1"], source: "a b"}', "a URI or a path"),
        ('{kind: cloudevents, urls: ["a:1"], mode: batch}', "one of structured, binary"),
        ("{kind: nvsentinel, target: /run/nv.sock}", "unix:///var/run/nvsentinel.sock"),
        ('{kind: nvsentinel, target: "pc:50051", token_file: chat}', "a token without TLS"),
        ("{kind: nvsentinel, symptoms: true}", "unknown field 'symptoms'"),
        ("{kind: nvsentinel, processing_strategy: EXECUTE_REMEDIATION}", "unknown field 'processing_strategy'"),
        ("{kind: chat, file: none}", "no readable file 'none'"),
        ("{kind: chat, file: empty}", "0 addresses"),
    ],
)
def test_each_fault_is_told(written, entry, part):
    with pytest.raises(InputError) as error:
        read(written(f"  - {entry}\n"))
    assert part in str(error.value)
    assert "u:p@" not in str(error.value)


def test_names_are_their_own(written):
    with pytest.raises(InputError, match="'x' for the second time"):
        read(
            written(
                '  - {kind: alertmanager, name: x, urls: ["a:1"]}\n  - {kind: alertmanager, name: x, urls: ["b:1"]}\n'
            )
        )
