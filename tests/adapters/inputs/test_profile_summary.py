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
     {0}.0       {0}23456789       4096   1983265.8  ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)
     21.0       2123456789       4096    518421.1  sm90_xmma_gemm_bf16bf16
"""
COPIES = """Processing [r.sqlite] with [/opt/nsight-systems/reports/cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000000000,100,60000000.0,60000000.0,1,2,3,"void add<(int)4, std::array<char*, 2>>(int, T2)"
40.0,4000000000,100,40000000.0,40000000.0,1,2,3,gemm

Processing [r.sqlite] with [/opt/nsight-systems/reports/cuda_gpu_mem_time_sum.py]...
Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,{total},1000,{each},{each},1,{longest},3,[CUDA memcpy Host-to-Device]

Processing [r.sqlite] with [/opt/nsight-systems/reports/cuda_gpu_mem_size_sum.py]...
Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
20000.0,1000,20.0,20.0,20.0,20.0,0.0,[CUDA memcpy Host-to-Device]
"""
SLOW_COPIES = COPIES.format(total=10_000_000_000, each=10_000_000, longest=12_000_000)
FOUND = {
    "a loader": (lightning(2.7), "Waiting for data takes 40 %"),
    "a loader in a run": (lightning(3.0, 4.0), "Waiting for data takes 30 %"),
    "collectives of PyTorch": (torch("2.911s"), "Communication takes 88 %"),
    "copies of Nsight Systems": (SLOW_COPIES, "Copying to the GPU takes 50 % of the time at 2 GB/s"),
    "copies of PyTorch": (
        torch("0.01ms").replace("void at::native::copy", "Memcpy HtoD (Pageable -> Device)").replace("12.1us", "399ms"),
        "Copying to the GPU takes 50 %",
    ),
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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(COPIES.format(total=900_000_000, each=900_000, longest=1_000_000), id="copies of little time"),
        pytest.param(COPIES.format(total=9_000_000_000, each=9_000_000, longest=2_000_000_000), id="a model is loaded"),
        pytest.param(
            SLOW_COPIES[SLOW_COPIES.index("Processing", 9) :], id="copies alone, which are all of their table"
        ),
    ],
)
def test_copies_that_do_not_hold_up_a_gpu_are_too_little(text):
    with pytest.raises(NothingKnownError):
        messages(text)


def test_the_row_of_all_is_the_whole():
    (table,) = read_tables(lightning(2.0, outer="Total                   |  -                |  20.0").splitlines())
    assert [round(one.share, 2) for one in table.shares()] == [0.1]


def launches(*, call="cudaLaunchKernel", device="CUDA", count=518_400, taken="4.243s", busy="1.746s"):
    names = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", f"Self {device}"]
    names += [f"Self {device} %", f"{device} total", f"{device} time avg", "# of Calls"]
    rows = [(call, taken, "0.000us", count), ("aten::mul", "0.943s", "204.0ms", 115_200)]
    widths = [60 if name == "Name" else 14 for name in names]
    lines = [
        [name, "0.00%", cpu, "0.00%", cpu, "8.2us", gpu, "0.00%", gpu, "1us", str(n)] for name, cpu, gpu, n in rows
    ]
    table = ["  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) for row in (names, *lines)]
    return "\n".join([*table, RULE, "Self CPU time total: 9.621s", f"Self {device} time total: {busy}"])


@pytest.mark.parametrize(
    ("call", "device"),
    [("cudaLaunchKernel", "CUDA"), ("hipExtModuleLaunchKernel", "CUDA"), ("urEnqueueKernelLaunch", "XPU")],
)
def test_a_gpu_that_waits_for_small_kernels_is_named(call, device):
    (message,) = messages(launches(call=call, device=device))
    assert "Launching kernels takes 44 %" in message
    assert "the GPU works for 18 %" in message


@pytest.mark.parametrize(
    "what",
    [
        {"busy": "8.9s"},
        {"taken": "0.4s"},
        {"count": 40},
        {"count": 20_000},
    ],
    ids=["the GPU is busy", "launches take little", "modules are loaded", "a full queue is waited for"],
)
def test_launches_without_harm_are_too_little(what):
    with pytest.raises(NothingKnownError, match="too little to judge"):
        messages(launches(**what))
