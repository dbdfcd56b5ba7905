"""Tables of profilers: what the time of a run went to, where that is a finding by itself."""

import io

import pytest

from skewscope.adapters.inputs.profile_summary import READER, read_tables
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.kb.problems import NothingKnownError

RULE = "-" * 40


def lightning(wait, forward=1.0, outer=""):
    rows = [("get_train_batch", wait), ("model_forward", forward), ("model_backward", 2.0), ("optimizer_step", 1.0)]
    lines = [f"{name:24}|  {time / 5:<17.4g}|  {time:<.5g}" for name, time in rows]
    return "\n".join(["Profiler Report", "", "Action\t|  Mean duration (s)\t|  Total time (s)", RULE, outer, *lines])


def torch(nccl, gemm="399.140ms"):
    columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self CUDA", "Self CUDA %"]
    rows = [("ncclDevKernel_AllReduce_Sum_bf16_RING", nccl), ("aten::mm", gemm), ("void at::native::copy", "12.1us")]
    lines = [
        f"{name:>45}  {'0.00%':>12}  {'0.000us':>12}  " * 1
        + "  ".join(f"{text:>12}" for text in ("0.00%", "0.000us", "0.000us", time, "1.00%"))
        for name, time in rows
    ]
    return "\n".join(["  ".join(f"{name:>{45 if name == 'Name' else 12}}" for name in columns), RULE, *lines])


NSYS = """ Time (%)  Total Time (ns)  Instances   Avg (ns)   Name
 --------  ---------------  ---------  ----------  ----------------------------------
     {}.0       8123456789       4096   1983265.8  ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)
     21.0       2123456789       4096    518421.1  sm90_xmma_gemm_bf16bf16
"""
FOUND = {
    "a loader": (lightning(2.7), "Waiting for data takes 40 %"),
    "a loader in a run": (lightning(3.0, 4.0), "Waiting for data takes 30 %"),
    "collectives of PyTorch": (torch("2.911s"), "Communication takes 88 %"),
    "collectives of Nsight Systems": (NSYS.format(62), "Communication takes 75 %"),
}


def messages(text):
    return [dict(one.labels)["message"] for one in READER.read_series(io.BytesIO(text.encode()), "p.txt", {})]


@pytest.mark.parametrize(("text", "wanted"), FOUND.values(), ids=FOUND)
def test_a_part_of_the_time_that_is_too_large_is_named(text, wanted, tmp_path):
    (tmp_path / "p.txt").write_text(text)
    assert find_kind(tmp_path / "p.txt") == "profile-summary"
    (message,) = messages(text)
    assert wanted in message


@pytest.mark.parametrize("text", [lightning(1.2), torch("301.2ms"), NSYS.format(12)], ids=["data", "torch", "nsys"])
def test_a_table_without_one_is_too_little_and_says_the_parts(text):
    with pytest.raises(NothingKnownError, match=r"takes|waiting for data|communication \d+ %"):
        messages(text)


def test_the_row_of_all_is_the_whole():
    (table,) = read_tables(lightning(2.0, outer="Total                   |  -                |  20.0").splitlines())
    assert [round(one.share, 2) for one in table.shares()] == [0.1]
