"""What was copied along with a text is left out and counted; everything else stays as it is, byte for byte."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.stray_text import clean_text, count_strays, describe_strays

TABLE = b"time,host,gpu,x\n1,h,0,2\n2,h,0,3\n3,h,0,4\n"


def cut(data, size):
    return iter([data[begin : begin + size] for begin in range(0, len(data), size)])


def clean(data, size=1 << 16, **options):
    with count_strays() as counts:
        whole = b"".join(clean_text(cut(data, size), "a", **options))
    return whole, describe_strays(counts)


COPIES = {
    "quoted": (b"".join(b"> " + line for line in TABLE.splitlines(keepends=True)), "4 quote marks before a line"),
    "fenced": (b"```csv\n" + TABLE + b"```\n", "2 lines around a block of code"),
    "an issue": (b"We see this:\n\n```\n" + TABLE + b"```\nAny idea?\n", "4 lines around a block of code"),
    "cut fence": (TABLE + b"```\n", "1 line around a block of code"),
    "prompt": (b"root@n1:~# cat table.csv\n" + TABLE + b"root@n1:~# ", "2 lines that a shell wrote"),
    "dollar": (b"$ cat table.csv\n" + TABLE, "1 line that a shell wrote"),
    "zsh": (b"me@laptop runs % cat table.csv\n" + TABLE, "1 line that a shell wrote"),
    "PowerShell": (b"PS C:\\runs> type table.csv\r\n" + TABLE, "1 line that a shell wrote"),
    "environment": (b"(venv) (base) me@n1:/runs$ cat table.csv\n" + TABLE, "1 line that a shell wrote"),
    "colours": (TABLE.replace(b"1,", b"\x1b[1;31m1\x1b[0m,", 1), "2 sequences of colour"),
    "title": (b"\x1b]0;me@n1: ~\x07" + TABLE, "1 sequence of colour"),
    "Windows": (TABLE.replace(b"\n", b"\r\n"), ""),
    "web page": (TABLE.replace(b",x", b",x\xe2\x80\x8b"), ""),
    "indented": (b"".join(b"    " + line for line in TABLE.splitlines(keepends=True)), ""),
    "blank lines": (b"\n\r\n\n" + TABLE, ""),
    "all at once": (
        b"".join(b"> " + line for line in (b"```\n$ cat x\n\x1b[32m" + TABLE + b"```\n").splitlines(keepends=True)),
        "2 lines around a block of code, 1 line that a shell wrote, 7 quote marks before a line, 1 sequence of colour",
    ),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("size", [1 << 16, 7])
def test_what_was_copied_along_is_left_out_and_counted(name, size):
    copied, counts = COPIES[name]
    assert clean(copied, size) == (TABLE, f"left out {counts}" if counts else "")


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        b"# HELP a b\n# TYPE a gauge\na 1\n",
        b"# gpu   sm   mem\n    0    50   20\n",
        b"[rank0]: step 1\n[rank0]: step 2\n",
        b"> only one of many lines is a quote\n" + TABLE,
        b"job@node 10% done\njob@node 20% done\n",
        b'{\n  "a": [\n    1\n  ]\n}\n',
        b"a: 1\n  b: 2\n",
        b"\x00\x01\x1b[31m\xff\xfe```\n> x\n" * 9,
        b"",
    ],
)
def test_texts_without_it_stay_as_they_are(text):
    assert clean(text) == (text, "")


def test_what_an_engine_logs_of_its_requests_is_no_block_of_code():
    log = b"INFO step 1\n" * 40
    request = b"prompt: write code\n```\nx = 1\n```\n"
    assert clean(log + request + log)[0] == log + b"prompt: write code\nx = 1\n" + log


def test_readers_that_want_them_get_the_prompts():
    text = b"root@n1:~# rdma link\nlink mlx5_0/1 state ACTIVE\n"
    assert clean(text, keep_prompts=True) == (text, "")


@given(st.binary(max_size=300), st.integers(1, 40))
def test_no_bytes_fail_and_the_parts_do_not_matter(data, size):
    assert clean(data, size) == clean(data)


def test_long_lines_and_much_text_take_little_time():
    begin = time.process_time()
    clean(b"$ cat x\n" + b"user@" * 2_000_000)
    clean(b"\x1b[31m" + b"> a@b:" * 500_000 + b"\n")
    assert time.process_time() - begin < 10
