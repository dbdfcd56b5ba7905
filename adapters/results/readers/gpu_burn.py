"""Results of gpu-burn: the speed of each GPU of a host in each interval of the test."""

import re
from itertools import zip_longest

from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.result import FLOPS, BandwidthResult, to_number
from skewscope.adapters.results.result_format import ResultFormat

LINE = re.compile(
    r"^[ \t]*\d[\d.]{0,9}%[ \t]+proc'd: (?P<speeds>[^\n:]{0,60000})errors: (?P<errors>[^\n:]{0,9000})temps:",
    re.MULTILINE,
)
SPEED = re.compile(r"\((?P<speed>\d+) Gflop/s\)")
ERRORS = re.compile(r"(?P<errors>\d+)")
MAX_LINES, MAX_GPUS = 200_000, 1024


def _recognise(text: str) -> bool:
    return LINE.search(text) is not None


def _read(text: str, file: str) -> list[BandwidthResult]:
    """Returns the speed of each GPU at the end of the test, and in each interval; and how many values were wrong."""
    host = next(iter(host_of_name(file)), file_stem(file.rpartition("/")[2]))
    matches = [*LINE.finditer(text.replace("\r", "\n"))][:MAX_LINES]
    rows = [[to_number(one["speed"]) or 0.0 for one in SPEED.finditer(match["speeds"])] for match in matches]
    by_gpu = [*zip_longest(*rows, fillvalue=0.0)][:MAX_GPUS]
    wrong = [int(one["errors"][:9]) for one in ERRORS.finditer(matches[-1]["errors"])] if matches else []
    return [
        BandwidthResult(
            file,
            "gpu-burn",
            "gpu-burn",
            (f"{host}/gpu{gpu}",),
            1,
            {1: speeds[-1]},
            wrong=wrong[gpu] if gpu < len(wrong) else 0,
            measure=FLOPS,
            rates=speeds,
        )
        for gpu, speeds in enumerate(by_gpu)
        if speeds[-1]
    ]


FORMAT = ResultFormat("gpu-burn", _recognise, _read)
