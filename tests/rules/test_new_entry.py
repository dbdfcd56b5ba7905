"""A condition, its signal, its rule with cases and its policy are new files only: nothing else has to change."""

import shutil

import pytest

from skewscope.engine.casetest.case_runner import run_cases
from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.lint import lint_folder as lint_catalogue
from skewscope.kb.loader import load_cached
from skewscope.rules import case_file
from skewscope.rules.lint import lint_folder as lint_rules
from skewscope.rules.loader import RULES_FOLDER, load_strict

RULE = "extra-stage-refusal-at-a-port"
FILES = {
    "kb/signals/port.extra_refusals.yaml": """\
id: port.extra_refusals
name: Packets that the extra stage of a port refused
unit: '{packet}'
type: counter
entity: port
vantage: [east-west]
dpu_access: direct
sources:
  skewscope_agent: [skewscope_port_extra_refusals]
fold: sum
judged:
  role: loss
  bad: up
  against: [past, peers]
  least: 1
  floor: 1
  symptom: packet-loss
  basis: "judgement: one refusal in each second is more than chance"
""",
    "kb/conditions/extra-stage-refusal.yaml": """\
id: extra-stage-refusal
name: Refusal by an extra stage
group: fabric
scope: [inference]
phases: [collective]
parallelism: [any]
kind: cause
what: An additional stage inside the adapter refuses packets that it cannot classify, and senders repeat them later.
why:
- A table of the stage is full.
signature:
- {signal: port.extra_refusals, direction: begins, against: past, shows: always}
signature_basis: "judgement: the stage counts its refusals"
prevalence: rare
prevalence_basis: "judgement: the stage is seldom installed"
impacts:
- text: Throughput of a port fell while its table was full.
  source: wang2019gbn
  seen: abstract
mitigations: [isolate-link]
observability:
- {deployment: dpu-front-end, verdict: not_visible, reason: It is on the rails.,
  basis: "judgement: by its place"}
- {deployment: dpu-every-rail, verdict: visible, reason: The port counts refusals.,
  basis: "judgement: it has a counter", needs: [port.extra_refusals]}
- {deployment: dpu-pcie-root, same_as: dpu-every-rail}
- {deployment: dpu-relayed, same_as: dpu-every-rail}
grade: C
maturity: incubating
paper_row: {status: additional}
""",
    f"rules/{RULE}.yaml": f"""\
id: {RULE}
title: An extra stage of a port refuses packets
description: Looks at the refusals that a port counts, and concludes that its extra stage is full.
condition: extra-stage-refusal
maturity: incubating
vantage: dpu
scope: port
where: {{network: east-west}}
warm_up: 3*s
evidence:
  - name: stage_refuses_packets
    for: 3
    required: true
    when: rate(port.extra_refusals, 3*s) > 5*packets/s
    why: A stage with room refuses no packets.
fire: {{score: 3, hold: 2*s}}
clear: {{score: 1, hold: 3*s}}
impact: {{metric: packets that are refused, change: 10*percent}}
severity: {{warning: 5*percent, critical: 50*percent}}
""",
    f"rules/cases/{RULE}.yaml": f"""\
rule: {RULE}
topology: {{groups: {{A: tensor-parallel 2}}}}
lasts: 30*s
given:
  port.extra_refusals: {{"*/ew": 0*packets/s}}
cases:
  - name: one port refuses
    kind: fires
    given: {{port.extra_refusals: {{"n1/ew": {{value: 50*packets/s, from: 10*s}}}}}}
    expect: [{{at: n1/ew, by: 18*s}}]
  - name: none refuses
    kind: quiet
    expect: []
  - name: a few packets are refused
    kind: boundary
    given: {{port.extra_refusals: {{"n1/ew": 4*packets/s}}}}
    expect: []
  - name: the counter is missing
    kind: missing
    given: {{port.extra_refusals: {{"*": missing}}}}
    expect: unknown
  - name: packets are lost in the fabric
    kind: look-alike
    like: fabric-loss
    expect: []
""",
    "rules/policies/isolate-a-link-that-refuses.yaml": """\
id: isolate-a-link-that-refuses
when:
  - {fact: diagnosis, condition: extra-stage-refusal}
unless: {fact: maintenance, entity: same}
advise: {mitigation: isolate-link, why: "{entity} refuses packets; its other rails can carry the traffic."}
work: inference
""",
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of catalogue and rules with the new files."""
    root = tmp_path_factory.mktemp("copy")
    for source, name in ((builtin_folder(), "kb"), (RULES_FOLDER, "rules")):
        shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    for name, text in FILES.items():
        assert not (root / name).exists()
        (root / name).write_text(text)
    return root


def test_lints_accept_a_new_entry(copy):
    assert lint_catalogue(copy / "kb") == ()
    assert lint_rules(load_cached(copy / "kb"), copy / "rules") == []


def test_the_cases_of_a_new_rule_hold(copy):
    known = load_cached(copy / "kb")
    files, problems = case_file.load(known, copy / "rules/cases", (RULE,))
    assert not problems
    results = run_cases(load_strict(known, copy / "rules"), [files[RULE]], known)
    assert len(results) == 5
    assert all(result.is_ok for result in results), results
