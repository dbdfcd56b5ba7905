"""Every way to damage the catalogue that a machine can know is told: file, line, what was found, what was expected."""

from contextlib import ExitStack
from functools import cache

import pytest

from skewscope.kb.lint import all_lints, lint_folder
from skewscope.kb.loader import load
from tests.support.kb_damage import (
    CLEAN,
    FLAP,
    ISOLATE,
    LAG,
    LOSS,
    STRAGGLER,
    THROTTLE,
    WANG,
    Damage,
    block,
    copied,
    replaced,
    written,
)

EGRESS = "conditions/egress-loss.yaml"
RELAY_IN = "conditions/pfc-storm.yaml"
TENTH = "findings/straggling-from-one-tenth.yaml"
GAP = "findings/nvlink-degradation-one-case.yaml"
PAUSES = "findings/pause-frames-are-sensitive.yaml"
CLOCK = "signals/gpu.sm_clock.yaml"
BYTES = "signals/port.rx_bytes.yaml"
DOWN = "symptoms/link-down.yaml"
UNUSED = "signals/port.ib_vl15_dropped.yaml"
BACK = "{condition: fabric-loss, why: For the sake of this test it does.}"
SAME = "{condition: fabric-loss, separate_by: For the sake of this test they differ.}"
COST = "cost: The bandwidth of that link; the remaining paths carry more."
FRONT = "Collectives do not cross the front-end port; only slower streams do.,"
RAILS = "needs: [wire.onset_lag, wire.last_sender_share]"
JUDGED = block(ISOLATE, "basis").rstrip("\n")
FRONT_NEEDS = "needs: [wire.retransmit_ratio, wire.peer_retransmit_ratio]"
CLAIMS, BASIS = block(EGRESS, "impacts"), block(EGRESS, "signature_basis")
RELAY = "- deployment: dpu-relayed" + block(EGRESS, "observability").split("- deployment: dpu-relayed")[1]
ROW = block(EGRESS, "paper_row")
FIRST_ITEM = block(LOSS, "signature").splitlines(keepends=True)[1]

SHAPE = {
    "a required field gone": Damage(LOSS, "kind: cause\n", "", "id:", "no value", "'kind'"),
    "a required field inside a list gone": Damage(
        LOSS, "  source: wang2019gbn\n", "", "- text: With go-back-N", "no value", "'source'"
    ),
    "a misspelt field": Damage(LOSS, "\nwhy:\n", "\nwyh:\n", "wyh", "'wyh'", "what, why", "'why'"),
    "a misspelt field inside a list": Damage(LOSS, "  scale: FP", "  scael: FP", "scael", "'scael'", "seen", "'scale'"),
    "a field nobody knows": Damage(ISOLATE, "risk:", "weather: fine\nrisk:", "weather", "'weather'", "one of actor"),
    "a number for a text": Damage(LOSS, "name: Loss and", "name: 5 #", "name: 5", "(5)", "text", "quotes"),
    "a yes for a word": Damage(ISOLATE, "risk: medium", "risk: yes", "risk", "True", "low, medium, high"),
    "nothing for a word": Damage(ISOLATE, "risk: medium", "risk:", "risk", "nothing", "low, medium, high"),
    "a day without quotes": Damage(
        LOSS, "grade: B", "grade: B\nwithdrawn: 2025-01-01", "withdrawn", "date", "text", "quotes"
    ),
    "a text for a list": Damage(LOSS, "aliases: [", "aliases: RDMA #", "aliases", "'RDMA'", "a list"),
    "a list for a mapping": Damage(LOSS, "paper_row: {", "paper_row: [] #", "paper_row", "a list", "a mapping"),
    "an empty text": Damage(ISOLATE, COST, "cost: ''", "cost", "0 characters", "at least 10"),
    "a text without end": Damage(ISOLATE, "cost: The", f"cost: {'x' * 800} The", "cost", "characters", "at most 700"),
    "a line break in a text": Damage(ISOLATE, COST, 'cost: "One line\\nand another."', "cost", "a line break", "plain"),
    "a text that steers a terminal": Damage(
        ISOLATE, COST, 'cost: "Turns all \\e[31mred."', "cost", "does not print", "plain text"
    ),
    "a word that is no choice": Damage(
        LOSS, "group: east-west", "group: east-wset", "group", "'east-wset'", "north-south", "'east-west'"
    ),
    "a type nobody knows": Damage(LAG, "type: gauge", "type: guage", "type", "'guage'", "counter", "'gauge'"),
    "a list without items": Damage(LAG, "[east-west]", "[]", "vantage", "0 items", "at least 1"),
    "an item told twice": Damage(LAG, "[east-west]", "[east-west, east-west]", "vantage", "second time", "once"),
    "an id that is none": Damage(ISOLATE, "id: isolate-link", "id: Isolate_Link", "id", "Isolate_Link", "text like"),
    "a year far away": Damage(WANG, "year: 2019", "year: 20190", "year", "20190", "maximum 2100"),
    "a number that is none": Damage(LAG, "fold:", "window: .nan\nfold:", "window", "nan", "a finite number"),
    "a number without end": Damage(LAG, "fold:", "window: .inf\nfold:", "window", "inf", "a finite number"),
    "no time at all": Damage(LAG, "fold:", "window: 0\nfold:", "window", "(0)", "exclusiveMinimum 0"),
    "a bit of no register": Damage(THROTTLE, "256}", f"1{'0' * 70}}}", "hw_power_brake", "whole number", "maximum"),
    "a source without a locator": Damage(
        WANG, "locator: doi:10.1109/ICCCN.2019.8846946\n", "", "id:", "no value", "the field 'locator'"
    ),
    "a mitigation without an undo": Damage(ISOLATE, "undo:", "ondo:", "ondo", "'ondo'", "undo", "Did you mean 'undo'?"),
}

YAML = {
    "a key told twice": Damage(
        ISOLATE, "risk: medium", "risk: medium\nrisk: low", "risk: low", "'risk' for the second", "one YAML"
    ),
    "a tab": Damage(ISOLATE, "risk: medium", "risk: medium\n\tx: 1", "\tx", "tab", "one YAML", "never tabs"),
    "a bracket left open": Damage(ISOLATE, "actor: fabric", "actor: [fabric", "dpu", "no YAML", "one YAML", "brackets"),
    "a tag that makes an object": Damage(
        ISOLATE, "risk: medium", "risk: !!python/object/apply:os.getcwd []", "risk", "tag", "one YAML"
    ),
    "a tag on the wrong text": Damage(ISOLATE, "risk: medium", 'risk: !!int ""', "risk", "tag", "one YAML"),
    "an alias": Damage(LOSS, "aliases: [RDMA", "x: &a [one]\ny: *a\naliases: [RDMA", "y:", "an alias", "one YAML"),
    "a bomb of aliases": Damage(
        ISOLATE, "risk: medium", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nrisk: low", "b: &b", "an alias", "one YAML"
    ),
    "an alias of nothing": Damage(ISOLATE, "risk: medium", "risk: *nobody", "risk", "alias", "one YAML"),
    "a nest too deep": Damage(ISOLATE, "risk: medium", f"risk: {'[' * 99}{']' * 99}", "risk", "deeper", "one YAML"),
    "a second document": Damage(ISOLATE, "risk: medium", "---\nrisk: medium", "---", "a second document", "one YAML"),
    "a key that is no text": Damage(ISOLATE, "risk: medium", "5: medium", "5:", "no plain text", "one YAML"),
    "a number of a thousand digits": Damage(
        ISOLATE, "risk: medium", f"risk: 0x{'f' * 999}", "risk", "digits", "one YAML"
    ),
    "a day that is none": Damage(ISOLATE, "risk: medium", "risk: 2001-99-99", "risk", "month", "one YAML"),
    "a control character": Damage(ISOLATE, "risk: medium", "risk: \x07", "risk", "does not print", "one YAML"),
}

LINKS = {
    "an id that is not the file's name": Damage(
        LOSS,
        "id: fabric-loss",
        "id: fabric-lost",
        "id",
        "'fabric-lost'",
        "'fabric-loss', the name of the file",
        "Rename",
    ),
    "a mitigation that is not there": Damage(
        LOSS, "[isolate-link,", "[isolate-lnk,", "mitigations", "'isolate-lnk'", "the mitigations", "'isolate-link'"
    ),
    "a signal that is not there": Damage(
        LOSS,
        "{signal: wire.retransmit_ratio,",
        "{signal: wire.retransmt_ratio,",
        "signal: wire",
        "retransmt",
        "the signals",
        "retransmit",
    ),
    "a signal it is seen by that is not there": Damage(
        STRAGGLER, RAILS, "needs: [wire.onset_lagg]", "[wire.onset_lagg]", "lagg", "signals", "'wire.onset_lag'"
    ),
    "a claim's source that is not there": Damage(
        LOSS,
        "  source: wang2019gbn",
        "  source: wang2019gbm",
        "  source: wang",
        "wang2019gbm",
        "the sources",
        "'wang2019gbn'",
    ),
    "a mitigation's source that is not there": Damage(
        CLEAN,
        "source: wan2025byterobust",
        "source: wan2025bytrobust",
        "  source",
        "byt",
        "sources",
        "'wan2025byterobust'",
    ),
    "a basis' source that is not there": Damage(
        LOSS, '"source: li2025dcp;', '"source: li2025dpc;', "li2025dpc", "li2025dpc", "the sources", "'li2025dcp'"
    ),
    "an effect that is not there": Damage(
        LOSS, "- condition: tp-straggler", "- condition: tp-stragler", "tp-stragler", "", "conditions", "'tp-straggler'"
    ),
    "a cause that is not there": Damage(
        LOSS,
        "effects:\n",
        "causes:\n- {condition: link-flop, why: It does.}\neffects:\n",
        "link-flop",
        "",
        "",
        "'link-flap'",
    ),
    "a look-alike that is not there": Damage(
        LOSS, "- condition: link-flap", "- condition: link-flop", "link-flop", "", "conditions", "'link-flap'"
    ),
    "a symptom that is not there": Damage(
        LAG, "symptom: late-member", "symptom: late-membr", "symptom:", "'late-membr'", "the symptoms", "'late-member'"
    ),
    "a load that is not there": Damage(
        CLOCK, "given: gpu.util", "given: gpu.utl", "given:", "'gpu.utl'", "the signals", "'gpu.util'"
    ),
    "a symptom in its place that is not there": Damage(
        DOWN, "repeats: flapping", "repeats: flaping", "instead:", "'flaping'", "the symptoms", "'flapping'"
    ),
    "a symptom in its own place": Damage(
        DOWN, "repeats: flapping", "repeats: link-down", "instead:", "'link-down'", "another symptom", "Name another"
    ),
    "an effect of itself": Damage(
        LOSS, "effects:\n", f"effects:\n- {BACK}\n", BACK, "'fabric-loss'", "another condition", "not its own"
    ),
    "a circle of causes": Damage(
        STRAGGLER, "effects:\n", f"effects:\n- {BACK}\n", "effects", "the circle fabric-loss -> tp-straggler", "without"
    ),
    "an edge told at both ends": Damage(
        STRAGGLER, "effects:\n", f"causes:\n- {BACK}\neffects:\n", BACK, "for the second time", "each link once"
    ),
    "a look-alike told at both ends": Damage(
        FLAP,
        "lookalikes:\n",
        f"lookalikes:\n- {SAME}\n",
        SAME,
        "already",
        "once",
        "one end",
    ),
}

RDMA_LINK, XID = "formats/rdma-link.yaml", "events/nvidia-xid.yaml"
SENSE = {
    "a pattern of a format that is cut off": Damage(
        RDMA_LINK, "netdev <netdev>}", "netdev <netdev>", "- pattern:", "an opening brace", "text with fields"
    ),
    "a sample that gives something else": Damage(
        RDMA_LINK, "value: 1, labels", "value: 0, labels", "- lines: link mlx5_0", "value: 1", "what `gives` says"
    ),
    "a field of an event that nothing describes": Damage(
        XID, '<pci>): <code>"', '<pc>): <code>"', "patterns:", "the field <pc>", "text with fields"
    ),
    "a line that an event does not match": Damage(
        XID, 'samples:\n- "NVRM: Xid', 'samples:\n- "NVRM: Sid', '- "NVRM: Sid', "'NVRM: Sid", "a line that matches"
    ),
    "a code with two meanings": Damage(
        XID, '    "14": ', '    "13": "a test"\n    "14": ', '"13": "a test"', "'13' again", "each code once"
    ),
    "a pattern of an event without words": Damage(
        XID, "patterns:\n", 'patterns:\n- "<code>: <pci>"\n', '- "<code>', "no text between fields", "3 characters"
    ),
    "neither commands nor a reason for none": Damage(
        "mitigations/dual-home.yaml", block("mitigations/dual-home.yaml", "no_command"), "", "id:", "neither", "one of"
    ),
    "commands beside a reason for none": Damage(
        ISOLATE, "\nbasis:", "\nno_command: A matter of cables.\nbasis:", "id:", "beside no_command", "one of the two"
    ),
    "a tool that is not known": Damage(
        ISOLATE, "tool: sonic", "tool: sonik", "tool: sonik", "'sonik'", "a known tool", "'sonic'"
    ),
    "a command of another tool": Damage(
        ISOLATE, "do: ip link", "do: ifconfig link", "do: ifconfig", "'ifconfig link", "begins with 'ip'"
    ),
    "a check with an unknown program": Damage(
        ISOLATE, "check: ip -st", "check: gtop -st", "check: gtop", "'gtop'", "of a known tool"
    ),
    "an undo with a value that nothing prints": Damage(
        "mitigations/resize-parallel-group.yaml",
        "  former: pgrep -af 'vllm serve'\n",
        "",
        "undo: 'curl",
        "{former}, which nothing prints",
        "`former` or `check`",
    ),
    "a placeholder that is not known": Damage(
        ISOLATE, "set dev {device} up", "set dev {devise} up", "undo: ip", "{devise}", "a known placeholder", "'device'"
    ),
    "a placeholder like no other": Damage(
        ISOLATE, "set dev {device} up", "set dev {qqqqqqqq} up", "undo: ip", "{qqqqqqqq}", "a known placeholder", "kb/"
    ),
    "a value to begin with of no placeholder": Damage(
        "mitigations/chunk-prefill.yaml",
        '{placeholder: number, value: "4096"',
        '{placeholder: node, value: "4096"',
        "start: [{placeholder: node",
        "'node'",
        "one of ['number']",
    ),
    "two commands in one": Damage(
        ISOLATE, "{device} down", "{device} down; reboot", "do: ip", "the operator ';'", "one plain command line"
    ),
    "a placeholder inside quotes": Damage(
        ISOLATE, "dev {device} down", "dev '{device}' down", "do: ip", "inside quotes", "one plain command line"
    ),
    "a command without a way back": Damage(
        ISOLATE, "  undo: ip link set dev {device} up\n", "", "do: ip", "no way back", "one of undo"
    ),
    "a way back of what only reads": Damage(
        ISOLATE, "  undo: ip link", "  reads: true\n  undo: ip link", "do: ip", "undo", "none, since it only reads"
    ),
    "a unit nobody knows": Damage(LAG, "unit: s\n", "unit: parsec\n", "unit", "'parsec'", "a known unit"),
    "a unit misspelt": Damage(LAG, "unit: s\n", "unit: MiBs\n", "unit", "'MiBs'", "a known unit", "'MiBy'"),
    "a width of what is no counter": Damage(LAG, "fold:", "width_bits: 32\nfold:", "width", "of a gauge", "none"),
    "a range the wrong way round": Damage(LAG, "fold:", "range: [5, 1]\nfold:", "range", "from 5 to 1", "smaller one"),
    "a scale of an exporter without a name": Damage(
        LAG, "fold:", "scale: {skewscope_agnt: 2}\nfold:", "scale", "agnt", "its sources", "'skewscope_agent'"
    ),
    "a doubt about an exporter without a name": Damage(
        LAG, "fold:", "unverified: [ethtool]\nfold:", "unverified", "'ethtool'", "one of its sources"
    ),
    "a name of our own that is not made from the id": Damage(
        LAG,
        "[skewscope_wire_onset_lag]",
        "[skewscope_lag]",
        "skewscope_agent:",
        "skewscope_lag",
        "skewscope_wire_onset_lag",
    ),
    "a locator that leads nowhere": Damage(
        WANG, "doi:10.1109/ICCCN.2019.8846946", "somewhere", "locator", "'somewhere'", "can be found", "doi:"
    ),
    "a basis without a reason": Damage(
        ISOLATE, JUDGED, "basis: judgement", "\nbasis: judgement"[1:], "'judgement'", "'judgement: reason'"
    ),
    "a claim seen better than its source": Damage(
        LOSS,
        "  seen: abstract",
        "  seen: full text",
        "  seen: full text",
        "'full text' of a source",
        "no more than",
        "how the claim",
    ),
    "a sentence that asks for more than place and group": Damage(
        EGRESS, "from {where} are", "from {where} to {peer} are", "sentence", "where, peer", "group at most", "{where}"
    ),
    "a grade without claims": Damage(
        EGRESS, CLAIMS, "", "grade", "B without impacts", "claims with their sources", "grade D"
    ),
    "a signature that rests on nothing": Damage(
        EGRESS, BASIS, "", "signature:", "no signature_basis", "what the choice", "judgement"
    ),
    "a condition with rules that shows in nothing": Damage(
        EGRESS, block(EGRESS, "signature"), "", "id:", "no signature", "the signals in which it shows", "without_rule"
    ),
    "an item of a signature told twice": Damage(
        LOSS,
        FIRST_ITEM,
        FIRST_ITEM.replace("always", "usually") + FIRST_ITEM,
        "past, shows: always",
        "second time",
        "once",
    ),
    "a signature that nothing can show": Damage(
        EGRESS,
        block(EGRESS, "signature"),
        "signature:\n- {signal: flow.packets, direction: up, against: past, shows: always}\n",
        "signature:",
        "1 items that no signal is judged by",
        "can show",
        "judgement",
    ),
    "an uneven series among its own past": Damage(
        LOSS, FIRST_ITEM, FIRST_ITEM.replace("up", "uneven"), "retransmit_ratio", "uneven against past", "peers"
    ),
    "a gauge whose events begin": Damage(
        LOSS, FIRST_ITEM, FIRST_ITEM.replace("up", "begins"), "retransmit_ratio", "a gauge", "counter", "direction"
    ),
    "a doubt without words": Damage(
        EGRESS, ROW, "paper_row: {status: unverified}\n", "paper_row", "no note", "what has to be checked"
    ),
    "a deployment left out": Damage(EGRESS, RELAY, "", "observability", "dpu-relayed told 0 times", "once"),
    "a deployment told twice": Damage(
        EGRESS, "deployment: dpu-relayed", "deployment: dpu-front-end", "observability", "front-end told 2", "once"
    ),
    "a sight without signals": Damage(
        EGRESS, "needs: [flow.tcp_retrans]", "needs: []", "needs: []", "visible with 0 signals", "signals where"
    ),
    "signals of what is not seen": Damage(
        STRAGGLER, FRONT, f"{FRONT} needs: [wire.active_flows],", "needs", "not_visible with 1 signals", "only there"
    ),
    "a signal of the host without a relay": Damage(
        STRAGGLER,
        RAILS,
        "needs: [gpu.sm_clock]",
        "needs: [gpu",
        "'gpu.sm_clock', which is host-only",
        "every-rail",
        "relayed",
    ),
    "a signal of the rails at the front end": Damage(
        EGRESS, FRONT_NEEDS, "needs: [wire.onset_lag]", "[wire.onset_lag]", "which is on the rails", "dpu-front-end can"
    ),
    "a signal of the front end on the rails": Damage(
        STRAGGLER, RAILS, "needs: [wire.requests]", "[wire.requests]", "at the front end", "dpu-every-rail can"
    ),
    "a withdrawal without a day": Damage(
        RELAY_IN, "maturity: sandbox", "maturity: withdrawn", "maturity", "withdrawn, no day", "with its day"
    ),
    "a day of withdrawal without one": Damage(
        RELAY_IN,
        "maturity: sandbox",
        'maturity: sandbox\nwithdrawn: "2026-01-01"',
        "maturity",
        "given up on",
        "neither",
    ),
    "an undo of one word": Damage(
        ISOLATE,
        "undo: Let the link carry traffic again after it ran clean for a while.",
        "undo: Reconnecting.",
        "undo",
        "'Reconnecting.'",
        "a sentence",
    ),
    "a threshold without a number": Damage(
        TENTH, "value: slow-down S >= 1.1\n", "", "kind", "threshold without a value", "there"
    ),
    "a number of what is no threshold": Damage(
        GAP, "consequence:", "value: 5 %\nconsequence:", "kind", "gap with", "there"
    ),
    "a finding from nowhere": Damage(TENTH, "sources: [lin2025whatif]\n", "", "id:", "no value", "works that say so"),
    "a finding seen better than its source": Damage(
        PAUSES, "seen: secondary notes only", "seen: full text", "seen", "'full text'", "no more"
    ),
    "a text that is no sentence": Damage(
        ISOLATE, "ran clean for a while.", "ran clean for a while", "undo", "for a while'", "full stop"
    ),
    "a number told without a source": Damage(
        EGRESS, "\nwhat: ", "\nwhat: In 30 % of cases, ", "what", "'30 %'", "no measured number"
    ),
    "a signal that nothing needs and that gives no reason": Damage(
        UNUSED, block(UNUSED, "unused"), "", "id", "which no condition names", "a use for it"
    ),
    "a reason for a signal that is used": Damage(
        LAG, "fold:", "unused: For the sake of this test.\nfold:", "unused", "", ""
    ),
    "a signal that is not judged": Damage(LAG, block(LAG, "judged"), "", "id:", "no value", "the field 'judged'"),
    "a judgement without a symptom": Damage(
        LAG, "  symptom: late-member\n", "", "judged:", "no value", "the field 'symptom'"
    ),
    "a judgement without a size": Damage(
        LAG, "  least: 0.5\n  floor: 0.005\n", "", "judged:", "no size", "the field 'least', 'floor' or 'nominal'"
    ),
    "a symptom of what is not judged": Damage(
        LAG, "bad: up", "bad: none", "  symptom:", "the field 'symptom' beside `bad: none`", "none"
    ),
    "a gauge that stops": Damage(
        LAG, "bad: up", "bad: stops", "bad:", "'stops' of a gauge of role 'time-per-work'", "a counter of progress"
    ),
    "a wait that begins": Damage(
        LAG, "bad: up", "bad: begins", "bad:", "'begins' of a gauge", "a signal of errors or of a state"
    ),
    "a shape of which something is bad": Damage(
        LAG, "role: time-per-work", "role: identity", "bad: up", "'up' of a gauge of role 'identity'", "`bad: none`"
    ),
    "siblings of a rank": Damage(
        LAG, "[past, peers]", "[past, siblings]", "against:", "'siblings' of a rank", "of ports only"
    ),
    "a nominal value that nothing is compared with": Damage(
        LAG, "  symptom:", "  nominal: 1\n  symptom:", "against:", "one of 'nominal' and its value", "both or neither"
    ),
    "traffic judged by its past": Damage(
        BYTES, "against: [siblings]", "against: [past]", "against:", "'past' of role 'share'", "'peers'"
    ),
    "a load that is the signal itself": Damage(
        CLOCK, "given: gpu.util", "given: gpu.sm_clock", "given:", "'gpu.sm_clock'", "another signal"
    ),
    "a symptom of another role": Damage(
        LAG, "symptom: late-member", "symptom: link-down", "symptom:", "'link-down' of role", "state, errors"
    ),
    "a title with a field that nothing fills": Damage(
        DOWN, "{since}", "{sinse}", "title:", "{sinse}", "since", "'since'"
    ),
    "a title with a format": Damage(DOWN, "{since}", "{since:>5}", "title:", "a field with a format", "plain fields"),
    "a title with an open brace": Damage(DOWN, "{since}", "{since", "title:", "no template", "fields in braces"),
    "a title of nothing": Damage(DOWN, "{entity} is", "It is", "title:", "no {entity}", "the entity"),
    "what another entry says already": Damage(
        ISOLATE,
        block(ISOLATE, "name") + block(ISOLATE, "what"),
        block(CLEAN, "name") + block(CLEAN, "what"),
        "what",
        "the words of",
        "an entry of its own",
    ),
    "a relay that takes something away": Damage(
        RELAY_IN,
        "deployment: dpu-relayed\n  verdict: visible",
        "deployment: dpu-relayed\n  verdict: partial",
        "verdict: partial",
        "where visible is seen",
        "at least visible",
    ),
    "a relay where there is none": Damage(
        RELAY_IN, "verdict: not_visible", "verdict: relayed", "verdict: relayed", "for a dpu-front-end", "by itself"
    ),
    "filler": Damage(
        ISOLATE, COST, "cost: It may potentially take some bandwidth.", "cost", "may potentially", "plain"
    ),
}

ROOT = 'same_as: dpu-every-rail, basis: "judgement: a port knows its own link"'
SAME_AS = {
    "neither a reason nor same_as": Damage(
        FLAP, f", {ROOT}", "", "{deployment: dpu-pcie-root}", "no value", "'verdict', or 'same_as'"
    ),
    "same_as of a deployment that is none": Damage(
        FLAP, "same_as: dpu-every-rail", "same_as: dpu-each-rail", "same_as", "'dpu-each-rail'", "dpu-front-end"
    ),
    "same_as of itself": Damage(
        FLAP, "same_as: dpu-every-rail", "same_as: dpu-pcie-root", "same_as", "no reason of its own", "one of dpu-front"
    ),
    "same_as of one that has none of its own": Damage(
        FLAP,
        "- deployment: dpu-relayed\n",
        "- {deployment: dpu-relayed, same_as: dpu-pcie-root}\n- deployment: dpu-front-end\n",
        "dpu-relayed, same_as",
        "dpu-pcie-root, which has no reason of its own",
        "one of dpu-front-end, dpu-every-rail",
    ),
    "same_as with a reason": Damage(
        FLAP, ROOT, "same_as: dpu-every-rail, reason: It is the same link.", "same_as", "reason beside", "what differs"
    ),
    "same_as with an equal field": Damage(
        FLAP, ROOT, "same_as: dpu-every-rail, verdict: visible", "same_as", "verdict beside same_as", "what differs"
    ),
    "a reason that stands twice": Damage(
        EGRESS,
        "dpu-pcie-root, same_as: dpu-every-rail",
        "dpu-pcie-root, verdict: not_visible, reason: Tokens do not leave over the rails., basis: literature",
        "dpu-pcie-root",
        "the reason of dpu-every-rail",
        "same_as",
    ),
    "a reference in words": Damage(
        EGRESS,
        "dpu-pcie-root, same_as: dpu-every-rail",
        'dpu-pcie-root, verdict: not_visible, reason: As on every rail., basis: "judgement: it is so"',
        "dpu-pcie-root",
        "'As on every rail.'",
        "same_as",
    ),
}

DAMAGE = {**SHAPE, **YAML, **LINKS, **SENSE, **SAME_AS}
ELSEWHERE = {"a circle of causes": LOSS}
"""Where the problem is told in another file than the damaged one."""
HARMLESS = {"an edge told at both ends", "a look-alike told at both ends"}
"""What is untidy, but no reason not to run."""
TOLD_OTHERWISE = {"unit-is-known", "entry-is-used", "metric-names-one-signal", "link-exists"}
"""Lints whose hint is not their fix, or which have a test of their own."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("lint"))


def test_what_comes_with_the_package_has_no_fault_and_no_stale_exception():
    assert lint_folder() == ()


def test_a_copy_is_as_sound_as_the_original(copy):
    assert lint_folder(copy) == ()


@cache
def damaged(copy, what):
    """What is told of a damage."""
    damage = DAMAGE[what]
    path = copy / damage.file
    with written(path, replaced(path, damage.old, damage.new)):
        return lint_folder(copy)


@pytest.mark.slow
@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_told_with_file_and_line_what_was_found_and_what_was_expected(copy, what):
    damage, problems = DAMAGE[what], damaged(copy, what)
    path = copy / damage.file
    with written(path, replaced(path, damage.old, damage.new)):
        told = damage.told(problems, copy / ELSEWHERE.get(what, damage.file))
    assert told, "\n".join(map(str, problems))
    assert all(p.file.startswith(str(copy)) for p in problems)
    # Damage to one file is no reproach to many; four formats name bits of one register.
    assert len({p.file for p in problems}) <= 5


@pytest.mark.parametrize("what", {**SHAPE, **YAML, **LINKS})
def test_what_makes_the_catalogue_unusable_is_told_when_it_is_loaded(copy, what):
    damage = DAMAGE[what]
    path = copy / damage.file
    with written(path, replaced(path, damage.old, damage.new)):
        _, problems = load(copy)
    assert bool(problems) == (what not in HARMLESS)


def test_faults_of_several_files_and_kinds_are_told_at_once(copy):
    some = [
        SHAPE["a misspelt field"],
        YAML["a key told twice"],
        SENSE["a locator that leads nowhere"],
        SENSE["a unit misspelt"],
    ]
    with ExitStack() as stack:
        for damage in some:
            stack.enter_context(written(copy / damage.file, replaced(copy / damage.file, damage.old, damage.new)))
        problems = lint_folder(copy)
        assert all(damage.told(problems, copy / damage.file) for damage in some)


def test_several_faults_of_one_file_are_told_at_once_in_the_order_of_their_lines(copy):
    text = replaced(copy / ISOLATE, "risk: medium", "risk: mediun")
    text = text.replace("actor: fabric", "actor: fabrik").replace(COST, "cost: ''").replace("\nundo:", "\nondo:")
    with written(copy / ISOLATE, text):
        problems = lint_folder(copy)
    fields = [p.field for p in problems if p.file.endswith(ISOLATE)]
    assert set(fields) == {"actor", "cost", "risk", "undo", "ondo"}
    assert [p.line for p in problems] == sorted(p.line for p in problems)


def test_a_mitigation_that_nothing_names_is_told_in_its_own_file(copy):
    with written(copy / "mitigations/one-more.yaml", replaced(copy / ISOLATE, "id: isolate-link", "id: one-more")):
        problems = lint_folder(copy)
    told = [(p.file, p.line, p.field) for p in problems if "nothing names" in p.found]
    assert told == [(f"{copy}/mitigations/one-more.yaml", 1, "id")]


def test_two_signals_with_one_metric_name_are_told(copy):
    text = replaced(copy / LAG, "id: wire.onset_lag", "id: wire.onset.lag")
    with written(copy / "signals/wire.onset.lag.yaml", text):
        problems = lint_folder(copy)
    found = [p for p in problems if "the metric name of 'wire.onset.lag'" in p.found]
    assert [(p.file, p.line, p.field) for p in found] == [(f"{copy}/signals/wire.onset_lag.yaml", 1, "id")]


def test_a_file_that_is_no_entry_is_told(copy):
    with written(copy / "signals/notes.txt", "x"), written(copy / "conditions/tp-straggler.yml", "x"):
        found = {p.file.rsplit("/", 1)[1] for p in lint_folder(copy)}
    assert found == {"notes.txt", "tp-straggler.yml"}


EXCEPTION = "exceptions:\n- {lint: source-has-locator, entry: wang2019gbn, reason: For the sake of this test.}\n"


def test_an_exception_excuses_the_entry_that_it_names_and_no_other(copy):
    damage = SENSE["a locator that leads nowhere"]
    with (
        written(copy / "exceptions.yaml", replaced(copy / "exceptions.yaml", "exceptions:\n", EXCEPTION)),
        written(copy / WANG, replaced(copy / WANG, damage.old, damage.new)),
    ):
        assert lint_folder(copy) == ()


@pytest.mark.parametrize(
    ("text", "found", "line", "hint"),
    [
        (EXCEPTION, "that nothing needs", 2, "Remove it"),
        ("exceptions:\n- {lint: source-has-lokator, entry: x, reason: y}\n", "lokator", 2, "'source-has-locator'"),
        ("exceptions:\n- {lint: source-has-locator, entry: wang2019gbn}\n", "no value", 2, ""),
        ("exceptions:\n- {lint: entry-is-used, entry: x, raeson: y}\n", "'raeson'", 2, "'reason'"),
        ("exceptions: 5\n", "a whole number", 1, ""),
        ("exemptions: []\n", "'exemptions'", 1, "'exceptions'"),
        ("a: b: c\n", "no YAML", 1, "brackets"),
    ],
)
def test_an_exception_that_is_stale_or_faulty_is_itself_a_fault(copy, text, found, line, hint):
    with written(copy / "exceptions.yaml", text):
        problems = [p for p in lint_folder(copy) if p.file.endswith("exceptions.yaml")]
    assert [p for p in problems if found in p.found and p.line == line and hint in p.hint], problems


def test_every_lint_says_what_it_is_about_and_how_to_mend_it():
    for one in all_lints():
        assert one.about.endswith((".", "once."))
        assert len(one.fix) > 10
        assert one.scope in ("entry", "set")


@pytest.mark.slow
def test_every_lint_has_damage_that_trips_it(copy):
    fixes = {one.fix for one in all_lints()}
    hints = {problem.hint for what in {**LINKS, **SENSE, **SAME_AS} for problem in damaged(copy, what)}
    quiet = {one.name for one in all_lints() if one.fix in fixes - hints}
    assert quiet <= TOLD_OTHERWISE
