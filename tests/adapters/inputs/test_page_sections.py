"""Pages of several servers that were pasted one after another."""

import io

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.page_sections import split_page
from skewscope.adapters.runtime.replay import replay

PAGE = """(venv) ops@jump:~$ curl -s {server}/metrics | grep -v bucket
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="llama"}} {waiting}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="llama"}} 30
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{model_name="llama"}} 0.4
"""


def paste(*waiting):
    return "".join(PAGE.format(server=f"chat-{n}:8000", waiting=one) for n, one in enumerate(waiting))


def servers(text):
    return [one.server for one in split_page(io.BytesIO(text.encode()))]


def test_each_page_is_of_the_server_that_was_asked(tmp_path):
    path = tmp_path / "paste.txt"
    path.write_text(paste(0, 0, 0, 110, 0, 0, 0, 0))
    outcome = replay(draft_recording([path]).recording)
    assert {"vllm-chat-3"} == {one.name for one in outcome.incidents if one.explained_by is None}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a 1\n", [""]),
        (paste(1), [""]),
        (paste(1, 2), ["chat-0:8000", "chat-1:8000"]),
        ("a 1\n" + paste(1, 2), ["", "chat-0:8000", "chat-1:8000"]),
        ("$ curl http://a:80/metrics\nx 1\n$ curl 'http://b:80/m'\nx 2\n", ["a:80", "b:80"]),
        ('x{said="curl a:80/m"} 1\ny{said="curl b:80/m"} 1\n', [""]),
        ("$ " + "curl " * 100_000 + "\n$ curl b:80/m\n", [""]),
        ("", [""]),
    ],
)
def test_what_no_two_commands_divide_is_one_page(text, wanted):
    assert servers(text) == wanted
    joined = b"".join(one.stream.read() for one in split_page(io.BytesIO(text.encode())))
    assert joined.decode() == text
