"""CloudEvents, NVSentinel and chat: what arrives is what their contracts ask for."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pytest

from skewscope.adapters.config.secret import Secret
from skewscope.adapters.notify import chat, cloudevents, nvsentinel
from skewscope.adapters.notify.alert_text import AlertContext
from skewscope.adapters.notify.base import (
    CHANGED,
    OPENED,
    RESOLVED,
    WITHDRAWN,
    DeliveryError,
    IncidentUpdate,
    Notification,
    NotificationScope,
)
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.engine.model.incident import Advice, CompetingCondition
from skewscope.kb.loader import catalogue
from tests.adapters.notify.incidents import fleet, incident, over, symptom
from tests.adapters.notify.servers import free_port, listening

TOKEN = "very-secret-0123456789"


def letter(what=OPENED, number=7, why="", **other):
    one = incident(3, **other)
    return Notification(number, 1000.25, IncidentUpdate(what, why, over(one, 1000.0) if what == RESOLVED else one))


# --- CloudEvents


def events(ear, **more):
    wish = FetchOptions(2.0, bearer=Secret(TOKEN))
    (teller,) = cloudevents.build(
        cloudevents.CloudEventsSettings("ce", (f"http://127.0.0.1:{ear.port}/in",), wish, NotificationScope(), **more),
        fleet(),
    )
    return teller


def test_a_structured_event_has_what_the_specification_wants():
    with listening() as ear:
        asyncio.run(events(ear).send(letter()))
    (post,) = ear.posts
    assert post.path == "/in"
    assert post.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert post.headers["authorization"] == f"Bearer {TOKEN}"
    event = post.json
    assert {name: event[name] for name in ("specversion", "id", "source", "type", "subject", "time")} == {
        "specversion": "1.0",
        "id": "i-3/opened/1000250/7",
        "source": "/skewscope",
        "type": "io.skewscope.incident.opened",
        "subject": "rank/n3",
        "time": "1970-01-01T00:16:40.250Z",
    }
    # Names of attributes: lower-case letters and digits only.
    assert all(name.isascii() and name.isalnum() and name.islower() for name in event)
    assert event["data"]["condition"] == "tp-straggler"
    assert event["data"]["fleet"] == "fleet"


def test_a_binary_event_has_its_attributes_in_headers():
    with listening() as ear:
        asyncio.run(events(ear, mode="binary", source="/a%b").send(letter(RESOLVED, name='n"3 é')))
    (post,) = ear.posts
    assert post.headers["content-type"] == "application/json"
    assert "ce-datacontenttype" not in post.headers
    assert post.headers["ce-type"] == "io.skewscope.incident.resolved"
    assert unquote(post.headers["ce-source"]) == "/a%b"
    assert unquote(post.headers["ce-subject"]) == 'rank/n"3 é'
    assert post.json["state"] == "resolved"


def test_an_event_comes_again_as_the_same():
    with listening() as ear:
        ear.answers = [(503, {"Retry-After": "17"})]
        with pytest.raises(DeliveryError) as error:
            asyncio.run(events(ear).send(letter()))
        assert (error.value.refused, error.value.after) == (False, 17.0)
        asyncio.run(events(ear).send(letter()))
    assert ear.posts[0].body == ear.posts[1].body


def test_two_controllers_with_equal_numbers_send_different_events():
    """Both report the incident under one id, and each counts its own notifications."""
    sent = [letter(), letter(RESOLVED), letter()._replace(t=1007.5), letter()._replace(session="b")]
    with listening() as ear:
        for one in sent:
            asyncio.run(events(ear).send(one))
    assert len({post.json["id"] for post in ear.posts}) == len(sent)


@pytest.mark.parametrize(
    ("status", "refused"), [(400, True), (422, True), (401, False), (404, False), (429, False), (500, False)]
)
def test_what_would_be_refused_again_is_not_sent_again(status, refused):
    with listening() as ear:
        ear.answers = [(status, {})]
        with pytest.raises(DeliveryError) as error:
            asyncio.run(events(ear).send(letter()))
    assert error.value.refused is refused
    assert TOKEN not in str(error.value)


def test_who_does_not_answer_is_left():
    with listening() as ear:
        ear.hangs = True
        (teller,) = cloudevents.build(
            cloudevents.CloudEventsSettings(
                "ce", (f"http://127.0.0.1:{ear.port}/",), FetchOptions(0.2), NotificationScope()
            ),
            fleet(),
        )
        with pytest.raises(DeliveryError, match=r"no answer within 0\.2 s"):
            asyncio.run(teller.send(letter()))


# --- NVSentinel


def numbers(data):
    """The fields of a message, by number: an independent reader of the wire format."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            assert key & 7 == 2
            size = varint()
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def healths(told):
    whole = numbers(nvsentinel.encode_health_events(told, fleet()))
    assert whole[1] == [1]
    return [numbers(event) for event in whole[2]]


@pytest.mark.parametrize("what", [OPENED, CHANGED, RESOLVED, WITHDRAWN])
@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_no_health_event_lets_anybody_act(what, severity):
    for event in healths(letter(what, severity=severity, also=("n4",))):
        assert event[16] == [2]  # STORE_ONLY
        assert 5 not in event  # isFatal
        assert 8 not in event  # recommendedAction NONE
        for overrides in (14, 15):
            assert numbers(event[overrides][0]) == {2: [1]}  # skip
        assert (6 in event) == (what == RESOLVED)  # isHealthy


def test_a_health_event_names_node_check_and_time():
    first, second = healths(letter(also=("n4",)))
    assert (first[13], second[13]) == ([b"n3"], [b"n4"])
    assert (first[1], first[2], first[3], first[4]) == ([1], [b"skewscope"], [b"Node"], [b"tp-straggler"])
    assert numbers(first[12][0]) == {1: [1000], 2: [250_000_000]}
    assert numbers(first[10][0]) == {1: [b"rank"], 2: [b"n3"]}
    kept = {numbers(item)[1][0]: numbers(item)[2][0] for item in first[11]}
    assert kept[b"incident"] == b"i-3"


def test_what_is_on_no_node_is_not_sent():
    assert nvsentinel.encode_health_events(letter(kind="pool", name="chat"), fleet()) == b""


@pytest.fixture
def connector(tmp_path):
    """A gRPC server on a socket, with the only method of a platform connector; what it was sent."""
    grpc = pytest.importorskip("grpc")
    calls = []

    def happened(request, context):
        calls.append((request, dict(context.invocation_metadata())))
        return b""

    service, method = nvsentinel.METHOD[1:].split("/")
    handler = grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(happened)})
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler,))
    target = f"unix://{tmp_path}/nv.sock"
    server.add_insecure_port(target)
    server.start()
    yield target, calls
    server.stop(0)


def test_health_events_arrive_over_grpc_on_a_socket(connector, tmp_path):
    target, calls = connector
    (tmp_path / "token").write_text(TOKEN + "\n")

    async def send():
        (teller,) = nvsentinel.build(
            nvsentinel.NvSentinelSettings("nv", NotificationScope(), target, token_file=str(tmp_path / "token")),
            fleet(),
        )
        await teller.send(letter())
        (nobody,) = nvsentinel.build(
            nvsentinel.NvSentinelSettings("nv", NotificationScope(), f"unix://{tmp_path}/none", 0.5), fleet()
        )
        with pytest.raises(DeliveryError) as error:
            await nobody.send(letter())
        assert not error.value.refused

    asyncio.run(send())
    ((request, metadata),) = calls
    assert request == nvsentinel.encode_health_events(letter(), fleet())
    assert metadata["authorization"] == f"Bearer {TOKEN}"


# --- chat

CONTEXT = AlertContext(catalogue(), fleet(), "https://ops.example")


def test_a_message_about_a_symptom_has_its_causes():
    title, body = chat.build_message(Notification(1, 5.0, IncidentUpdate(OPENED, "", symptom(3))), CONTEXT)
    assert title == "~ Work takes longer on n3 (cause unknown)"
    assert "Steps take 1.9 times as long.\nLikely causes: Tensor-parallel straggler 46 %, Congestion" in body
    assert "would tell the causes apart." in body
    assert body.endswith("https://ops.example/incidents/i-3")


def test_a_message_has_names_cost_command_undo_and_test():
    one = incident(
        2,
        confidence=0.9,
        mitigations=(Advice("reshard", "scheduler", ""), Advice("quarantine-node", "scheduler", "it is late")),
        competing=(CompetingCondition("launch-latency", 0.2, "Its GPU is idle."),),
        history=((0.1, "evidence held"),),
        also=("n9",),
    )
    title, body = chat.build_message(Notification(1, 5.0, IncidentUpdate(OPENED, "", one)), CONTEXT)
    assert title == "! n2 +n9 holds up group A: every rank waits for it (90 %)"
    lines = body.splitlines()
    facts = ("Tensor-parallel straggler", "since 1970-01-01 00:00:00 UTC", "affects 1 node, 1 group", "rounds −25 %")
    assert lines[0] == " · ".join(facts)
    first = lines.index("Do: Drain n2 (medium risk)")
    assert lines[first + 1] == "  scontrol update NodeName=n2 State=DRAIN Reason=i-2"
    assert lines[lines.index("Undo:") + 1] == "  scontrol update NodeName=n2 State=RESUME"
    assert any(each.startswith("Worked if: ") for each in lines)
    assert "If wrong: Kernels that are launched late. Its GPU is idle." in lines


def talker(*addresses, per_hour=30):
    pytest.importorskip("apprise")
    settings = chat.ChatSettings("ops", tuple(Secret(each) for each in addresses), NotificationScope(), per_hour)
    return chat.build(settings, fleet())[0]


def test_a_message_for_each_opening_and_each_end():
    with listening() as ear:
        teller = talker(f"json://127.0.0.1:{ear.port}/hook")

        async def send():
            for what in (OPENED, CHANGED, RESOLVED):
                await teller.send(letter(what))

        asyncio.run(send())
    opened, resolved = (post.json for post in ear.posts)
    assert opened["title"] == "! n3 holds up group A: every rank waits for it (75 %)"
    assert "confidence" not in opened["message"]
    assert "Do: Compare the GPUs' clocks (only reads)" in opened["message"]
    assert resolved["title"] == "Resolved: n3 holds up group A: every rank waits for it"


def test_a_place_that_takes_nothing_hurts_no_other():
    pytest.importorskip("apprise")
    with listening() as ear:
        addresses = (f"json://127.0.0.1:{ear.port}/hook", f"json://127.0.0.1:{free_port()}/")
        tellers = chat.build(chat.ChatSettings("ops", tuple(map(Secret, addresses)), NotificationScope()), fleet())

        async def send():
            for teller in tellers:
                for _ in range(3):
                    try:
                        await teller.send(letter())
                        break
                    except DeliveryError:
                        continue

        asyncio.run(send())
    assert [teller.name for teller in tellers] == ["ops 1", "ops 2"]
    assert len(ear.posts) == 1


def test_too_many_messages_are_held_back_and_counted():
    with listening() as ear:
        teller = talker(f"json://127.0.0.1:{ear.port}/hook", per_hour=2)

        async def send():
            for number in range(5):
                await teller.send(letter(number=number))
            teller._sent_times.clear()
            await teller.send(letter(number=9))

        asyncio.run(send())
    assert len(ear.posts) == 3
    assert "3 messages before this one were held back" in ear.posts[-1].json["message"]


def test_a_place_that_cannot_be_reached_is_told_without_its_address(caplog):
    caplog.set_level("DEBUG", "apprise")
    teller = talker(f"json://user:{TOKEN}@127.0.0.1:1/hook")
    with pytest.raises(DeliveryError) as error:
        asyncio.run(teller.send(letter()))
    assert str(error.value) == "the message was not taken"
    assert TOKEN not in caplog.text


def test_a_message_that_hangs_is_not_followed_by_another():
    with listening() as ear:
        ear.hangs = True
        teller = talker(f"json://127.0.0.1:{ear.port}/hook")

        async def send():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(teller.send(letter()), 0.3)
            with pytest.raises(DeliveryError, match="still hangs"):
                await teller.send(letter())

        asyncio.run(send())


def test_messages_are_short_whatever_is_in_them():
    title, body = chat.build_message(letter(name="n3\x1b" * 5000), CONTEXT)
    assert len(title) <= 1000
    assert max(map(len, body.splitlines())) <= 1000
    assert "\x1b" not in title + body
    assert json.dumps(title)
