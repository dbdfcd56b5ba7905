"""Commands of mitigations in the terminal and in the HTML report."""

import shlex
from dataclasses import replace
from html import unescape

from skewscope.kb.command_template import fill_command
from skewscope.kb.loader import catalogue as builtin
from skewscope.kb.markdown.entry_pages import mitigation_page
from skewscope.kb.model import MitigationCommand
from skewscope.tui.render import catalogue, command_lines, detail, mitigation_plan
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.drilldown import DrilldownContext, drilldown_lines
from skewscope.tui.render.html_report import HtmlReportData, render_html
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.text import to_plain_text, wrap
from tests.engine.advice.test_command_values import TOPOLOGY
from tests.tui.samples import ROOT, film

ADVICE = tuple(replace(ROOT.mitigations[0], id=id_) for id_ in ("quarantine-node", "build-dual-plane"))
INCIDENT = replace(ROOT, kind="node", name="n1", mitigations=ADVICE)
NAMES = DisplayNames(builtin(), (INCIDENT,), topology=TOPOLOGY)
LONG = MitigationCommand("login", "kubectl", "kubectl drain n1 --timeout=600s --x 'two words' --end", "1", "literature")


def test_an_incident_shows_its_commands_with_real_names_and_the_way_back():
    shown = to_plain_text(detail.recipe_items(INCIDENT, NAMES))
    assert "on a login machine, scontrol; needs rights of an operator" in shown
    assert f"    scontrol update NodeName=n1 State=DRAIN Reason='{INCIDENT.id}'" in shown
    assert "to take it back:\n    scontrol update NodeName=n1 State=RESUME" in shown
    assert "to take it back: Not possible" in shown
    assert "to check:\n    scontrol show node n1" in shown
    assert "scontrol requeue JOB" in shown
    assert "no command: A matter of cables and switches." in shown


def test_a_plan_shows_the_commands_with_the_names_of_its_topology():
    shown = to_plain_text(mitigation_plan.plan_lines(INCIDENT, ADVICE[0], TOPOLOGY, replace(NAMES, topology=None)))
    assert "kubectl cordon n1" in shown


def test_the_catalogue_shows_commands_with_open_placeholders_and_where_they_were_seen():
    shown = to_plain_text(catalogue.entry_lines(builtin().mitigations["quarantine-node"], NAMES))
    assert "kubectl cordon NODE" in shown
    assert "kubectl: kubectl 1.32.4 (source: kubectl_reference)" in shown
    assert "no command: A matter of cables" in to_plain_text(
        catalogue.entry_lines(builtin().mitigations["build-dual-plane"], NAMES)
    )


def test_labels_of_facts_are_a_column_however_long_one_is():
    shown = to_plain_text(catalogue.entry_lines(builtin().mitigations["recover-gpu"], NAMES))
    assert "actor          operator\ncarried out as drain of a node\nbasis          judgement" in shown


def test_the_page_of_a_mitigation_has_its_commands_in_blocks():
    page = mitigation_page(builtin().mitigations["quarantine-node"], builtin(), {})
    assert "```text\nkubectl cordon NODE\n```" in page
    assert "To take it back:\n\n```text\nkubectl uncordon NODE\n```" in page
    assert "(sources/" in page or "sources/kubectl_reference.md" in page
    assert "A matter of cables" in mitigation_page(builtin().mitigations["build-dual-plane"], builtin(), {})


def test_the_html_report_has_the_commands_in_blocks_and_escaped():
    hostile = replace(INCIDENT, name="<b>n1</b>")
    last = film((hostile,)).snapshot(99)
    page = render_html(HtmlReportData("x", last, replace(NAMES, incidents=(hostile,)), (("1", "warn"),), "w", ()))
    assert "<b>n1" not in page
    assert "<pre>kubectl cordon '<b>n1</b>'</pre>" not in page
    assert "kubectl cordon '<b>n1" not in unescape(page)  # a slash: kubectl would read a kind and a name
    assert "<pre>kubectl cordon NODE</pre>" in page
    assert "what to do" in page


def test_a_command_too_long_for_the_screen_stays_one_command():
    shown = to_plain_text(wrap(command_lines.command_lines([LONG])[1], 40))
    assert all(len(row) <= 40 for row in shown.splitlines())
    assert len(shown.splitlines()) > 1
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(LONG.do)


def test_options_and_variables_say_where_they_belong():
    known = {one.tool: one for m in builtin().mitigations.values() for one in m.commands}
    shown = to_plain_text(
        command_lines.command_lines(fill_command(known[name], {}) for name in ("vllm", "environment", "opensm-config"))
    )
    assert "at the start of the engine of REPLICA, added to the start command of vllm" in shown
    assert ", variables in the script that starts the program" in shown
    assert ", a line of opensm.conf" in shown


def test_the_console_shows_an_incident_with_the_commands_of_its_topology():
    snapshot = film((INCIDENT,)).snapshot(99)
    context = DrilldownContext(INCIDENT, snapshot, NAMES, NodeLookup(snapshot.topology))
    assert "scontrol update NodeName=n1 State=DRAIN" in to_plain_text(drilldown_lines(context, 100))
