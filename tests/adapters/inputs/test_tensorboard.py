"""Event files of TensorBoard, written here record by record."""

import contextlib
import io
import struct

import pytest

from skewscope.adapters.inputs import tensorboard
from skewscope.kb.problems import InputError

T = 1789372800
NAME = "runs/exp-7/events.out.tfevents.1789372800.node-a.77.0"


def varint(number):
    data = b""
    while number > 127:
        data, number = data + bytes([number & 127 | 128]), number >> 7
    return data + bytes([number])


def part(number, data):
    """Returns a field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(data):
    return struct.pack("<QI", len(data), 0) + data + b"\0\0\0\0"


def simple(value):
    return varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(value):
    """Returns a value as TensorFlow 2 and PyTorch Lightning may write it."""
    return part(8, varint(1 << 3) + varint(1) + part(2, b"") + part(4, struct.pack("<f", value)))


def event(time, step, values, form=simple):
    summary = b"".join(part(1, part(1, tag.encode()) + form(value)) for tag, value in values.items())
    return record(varint(1 << 3 | 1) + struct.pack("<d", time) + varint(2 << 3) + varint(step) + part(5, summary))


def run(form=simple, **seconds):
    """Returns an event file with steps whose duration is logged under each tag, in the units given."""
    begin = record(varint(1 << 3 | 1) + struct.pack("<d", T) + part(3, b"brain.Event:2"))
    tags = {tag.replace("__", "/"): scale for tag, scale in seconds.items()}
    steps = [event(T + 2 * n, n, {tag: 2 * scale for tag, scale in tags.items()}, form) for n in range(1, 5)]
    return begin + b"".join(steps)


def read(data, name=NAME):
    return tensorboard.read_series(io.BytesIO(data), name, {})


@pytest.mark.parametrize("form", [simple, tensor])
@pytest.mark.parametrize(("tag", "scale"), [("perf__step_time_ms", 1000), ("iteration_time", 1), ("step_time", 1000)])
def test_steps_are_read_in_the_unit_that_is_named_or_fits(form, tag, scale):
    data = run(form, **{tag: scale})
    assert tensorboard.recognise(data, "f")
    (one,) = read(data)
    assert (one.metric, one.labels) == ("skewscope_step_duration", (("group", "exp-7"),))
    assert one.values == pytest.approx([2.0] * 4)
    assert one.times.tolist() == [T + 2, T + 4, T + 6, T + 8]


def test_gpus_are_of_the_host_in_the_name_of_the_file():
    (one,) = read(run(system__gpu_0_power_watts=150))
    assert (one.metric, one.labels) == ("skewscope_gpu_power", (("gpu", "0"), ("node", "node-a")))


def test_a_file_that_is_cut_anywhere_gives_samples_or_a_clear_error():
    data = run(step_time=1)
    for end in range(len(data)):
        with contextlib.suppress(InputError):
            assert read(data[:end])
    assert read(data[:-3])[0].note.endswith("ends inside an event, which is left out")


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, record(b"\xff" * 9), record(part(5, part(1, b"\xff")))])
def test_what_is_no_event_file_is_refused(data):
    with pytest.raises(InputError, match="node-a"):
        read(data)
    assert not tensorboard.recognise(data, "f")
