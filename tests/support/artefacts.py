"""Small files in the formats of tools, made up, one for each kind of artefact that is a log or a dump."""

MEGATRON = """\
[before the start of training step] datetime: 2026-11-22 10:00:00
 [2026-11-22 10:00:19] iteration        1/     100 | consumed samples:          128 | \
elapsed time per iteration (ms): 19000.5 | throughput per GPU (TFLOP/s/GPU): 80.2 | global batch size:   128 |
 [2026-11-22 10:00:20.500000] iteration        2/     100 | consumed samples:          256 | \
elapsed time per iteration (ms): 1500.0 | throughput per GPU (TFLOP/s/GPU): 118.7 | global batch size:   128 |
times across ranks (ms):
  forward-backward:
     rank  0: 1400.00
  forward-compute:
     rank  0: 400.00
     rank  1: 410.00
  backward-compute:
     rank  0: 800.00
     rank  1: 900.00
 [2026-11-22 10:00:22.000000] iteration        3/     100 | consumed samples:          384 | \
elapsed time per iteration (ms): 1600.0 | global batch size:   128 | a field of a newer version: 7 |
"""

NEMO = """\
[NeMo I 2026-11-22 10:00:00 exp_manager:396] Experiments will be logged
Training epoch 0, iteration 0/99 | global_batch_size: 32 | global_step: 0 | train_step_timing in s: 23.52
Training epoch 0, iteration 1/99 | lr: 2e-05 | global_batch_size: 32 | global_step: 1 | reduced_train_loss: 1.31 | \
train_step_timing in s: 2.5 | TFLOPS_per_GPU: 1.2e+03 | consumed_samples: 64
Training epoch 0, iteration 2/99 | lr: 4e-05 | global_batch_size: 32 | global_step: 2 | reduced_train_loss: 1.3 | \
train_step_timing in s: 2.0 | consumed_samples: 96
"""

NEMO_BAR = (
    "[NeMo I 2026-11-22 10:00:40 nlp_overrides:480] begin\n"
    "Epoch 0: :   3%|▎     | 1/30 [00:30<10:00, loss=11.5, global_step=0.000, train_step_timing in s=30.00]\r"
    "Epoch 0: :   6%|▋     | 2/30 [00:40<09:50, loss=11.4, global_step=1.000, train_step_timing in s=10.00]\r"
    "Epoch 0: :   6%|▋     | 2/30 [00:40<09:50, loss=11.4, global_step=1.000, train_step_timing in s=10.00]\r"
    "Epoch 0: :  10%|█     | 3/30 [01:20<09:40, loss=11.3, global_step=2.000, train_step_timing in s=10.50]"
)

DEEPSPEED = """\
[2026-11-22 10:00:10,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.0003], mom=[(0.9, 0.999)]
[2026-11-22 10:00:10,004] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, \
RunningAvgSamplesPerSec=110.8, CurrSamplesPerSec=111.25, MemAllocated=1.87GB, MaxMemAllocated=6.12GB
[2026-11-22 10:00:10,005] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 100.25 | bwd: 300.00 | \
bwd_inner: 250.50 | bwd_allreduce: 49.50 | step: 20.00
[2026-11-22 10:00:15,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=0, lr=[0.0004], mom=[(0.9, 0.999)]
[2026-11-22 10:00:15,004] [INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=20, \
RunningAvgSamplesPerSec=111.2, CurrSamplesPerSec=112.5, MemAllocated=1.87GB, MaxMemAllocated=6.12GB
"""

MLPERF = """\
:::MLLOG {"namespace": "", "time_ms": 1795341600000, "event_type": "POINT_IN_TIME", "key": "global_batch_size", \
"value": 8, "metadata": {"file": "train.py", "lineno": 215}}
:::MLLOG {"namespace": "", "time_ms": 1795341610000, "event_type": "INTERVAL_START", "key": "block_start", \
"value": null, "metadata": {"file": "train.py", "lineno": 146, "samples_count": 0}}
0: :::MLLOG {"namespace": "", "time_ms": 1795341810000, "event_type": "POINT_IN_TIME", "key": "tracked_stats", \
"value": {"throughput": 2.5, "new": 1}, "metadata": {"file": "train.py", "lineno": 161, "step": 400}}
:::MLLOG {"namespace": "", "time_ms": 1795341810000, "event_type": "INTERVAL_END", "key": "block_stop", \
"value": null, "metadata": {"file": "train.py", "lineno": 112, "samples_count": 400}}
"""

LLAMAFACTORY = """\
{"current_steps": 10, "total_steps": 99, "loss": 1.2, "lr": 5e-05, "epoch": 0.1, "percentage": 10.1, \
"elapsed_time": "0:01:10", "remaining_time": "0:10:23"}
{"current_steps": 20, "total_steps": 99, "loss": 1.1, "lr": 4e-05, "epoch": 0.2, "percentage": 20.2, \
"elapsed_time": "0:01:50", "remaining_time": "0:07:14", "throughput": 889.63, "total_tokens": 98304}
{"current_steps": 20, "total_steps": 99, "eval_loss": 1.3, "epoch": 0.2, "percentage": 20.2, \
"elapsed_time": "0:03:00", "remaining_time": "0:11:51"}
{"current_steps": 30, "total_steps": 99, "loss": 1.0, "lr": 3e-05, "epoch": 0.3, "percentage": 30.3, \
"elapsed_time": "0:03:45", "remaining_time": "0:08:37"}
{"current_steps": 30, "total_steps": 99, "epoch": 0.3, "percentage": 30.3, "elapsed_time": "0:04:30", \
"remaining_time": "0:10:21"}
"""

SWIFT = """\
{"loss": 2.1, "grad_norm": 1.5, "learning_rate": 0.0001, "epoch": 0.01, "global_step/max_steps": "1/99", \
"percentage": "1.01%", "elapsed_time": "6s", "remaining_time": "9m 48s", "memory(GiB)": 15.9, \
"train_speed(iter/s)": 0.15}
{"loss": 1.9, "grad_norm": 1.4, "learning_rate": 0.0001, "epoch": 0.1, "global_step/max_steps": "10/99", \
"percentage": "10.10%", "elapsed_time": "51s", "remaining_time": "7m 38s", "memory(GiB)": 16.3, \
"train_speed(iter/s)": 0.195}
{"eval_loss": 1.8, "eval_runtime": 60.0, "epoch": 0.1, "global_step/max_steps": "10/99", \
"percentage": "10.10%", "elapsed_time": "1m 51s", "remaining_time": "16m 38s"}
{"loss": 1.7, "grad_norm": 1.3, "learning_rate": 0.0001, "epoch": 0.2, "global_step/max_steps": "20/99", \
"percentage": "20.20%", "elapsed_time": "2m 41s", "remaining_time": "10m 35s", "memory(GiB)": 16.4, \
"train_speed(iter/s)": 0.124}
"""

NANOGPT = """\
step 0: train loss 10.9, val loss 10.9
iter 0: loss 10.9000, time 9000.00ms, mfu -100.00%
iter 10: loss 9.9000, time 500.00ms, mfu -100.00%
iter 20: loss 9.1000, time 510.00ms, mfu 30.12%
"""

NVIDIA_SMI = """\
timestamp, index, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], memory.used [MiB], \
clocks_event_reasons.active, name, fan.speed [%]
2026/11/22 10:00:00.125, 0, 1980 MHz, 631.95 W, 100 %, 19818 MiB, 0x0000000000000004, NVIDIA H100 80GB HBM3, [N/A]
2026/11/22 10:00:00.250, 1, 345 MHz, [Not Supported], 0 %, 4 MiB, 0x0000000000000001, NVIDIA H100 80GB HBM3, [N/A]
timestamp, index, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], memory.used [MiB], \
clocks_event_reasons.active, name, fan.speed [%]
2026/11/22 10:00:01.125, 0, 1965 MHz, 640.00 W, 99 %, 19818 MiB, 0x0000000000000000, NVIDIA H100 80GB HBM3, [N/A]
"""

NVIDIA_SMI_DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz
 20261122   10:00:00      0    631     63     57    100     10   2619   1980
 20261122   10:00:00      1    630     63      -    100     10   2619   1980
 20261122   10:00:01      0    634     64     58     99     10   2619   1965
"""

NVIDIA_SMI_TABLE = """\
Sun Nov 22 10:00:00 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    0 |
| N/A   65C    P0   250W / 300W |  30000MiB / 32768MiB |     98%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:1C:00.0 Off |                    0 |
| N/A   ERR!   P0    N/A / 300W |      4MiB / 32768MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|=============================================================================|
|    0   N/A  N/A      1234      C   python                          29996MiB |
+-----------------------------------------------------------------------------+
Sun Nov 22 10:00:05 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  Tesla V100-SXM2-32GB           On  |   00000000:1A:00.0 Off |                    0 |
| 41%   66C    P0            245W /  300W |   30010MiB /  32768MiB |     97%      Default |
+-----------------------------------------+------------------------+----------------------+
"""

DCGMI_DMON = """\
#Entity   SMCLK             GPUTL             POWER             SMACT        NEWFD
ID                                             W
GPU 1     1410              100               385.500           0.932        7
GPU 0     1410              99                380.250           N/A          7
#Entity   SMCLK             GPUTL             POWER             SMACT        NEWFD
ID                                             W
GPU 1     1395              98                386.500           0.925        7
GPU 0     N/A               99                381.250           0.915        7
"""

ETHTOOL = """\
2026-11-22T10:00:00+00:00
NIC statistics:
     rx_bytes_phy: 1000
     rx_prio3_pause: 4
     a counter of a newer driver: 5
Sun Nov 22 10:00:10 UTC 2026
NIC statistics:
     rx_bytes_phy: 251000
     rx_prio3_pause: 9
     a counter of a newer driver: 5
"""

INFINIBAND = """\
1795341600
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:1000
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:3
/sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE
/sys/class/infiniband/mlx5_0/ports/1/phys_state:5: LinkUp
/sys/class/infiniband/mlx5_0/ports/1/rate:400 Gb/sec (4X NDR)
/sys/class/infiniband/mlx5_0/ports/1/counters/a_new_counter:7
/sys/class/infiniband/mlx5_0/ports/1/link_layer:InfiniBand
1795341610.5
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:2000
"""

VLLM = """\
(APIServer pid=1) INFO 11-22 09:59:50 [core.py:80] Initializing a V1 LLM engine (v0.11.0) with config: \
model='org/model-8b', served_model_name=chat-model, tensor_parallel_size=1
(APIServer pid=1) INFO 11-22 10:00:00 [loggers.py:273] Engine 000: Avg prompt throughput: 1254.4 tokens/s, \
Avg generation throughput: 29.2 tokens/s, Running: 10 reqs, Waiting: 4 reqs, GPU KV cache usage: 57.9%, \
Prefix cache hit rate: 40.5%, MM cache hit rate: 1.5%
INFO:     127.0.0.1:41000 - "POST /v1/completions HTTP/1.1" 200 OK
(APIServer pid=1) INFO 11-22 10:00:10 [loggers.py:273] Engine 001: Avg prompt throughput: 0.0 tokens/s, \
Avg generation throughput: 7.2 tokens/s, Running: 9 reqs, Waiting: 1 reqs, GPU KV cache usage: 68.8%, \
Prefix cache hit rate: 0.0%
"""

TRTLLM = """\
[11/22/2026-10:00:00] [TRT-LLM] [I] iter = 7, global_rank = 0, rank = 0, currank_total_requests = 0/0, \
elapsed_time = 0.0125s, timestamp = 2026-11-22 10:00:00, num_scheduled_requests: 40, \
states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 40}
[11/22/2026-10:00:00] [TRT-LLM] [I] iter = 8, global_rank = 0, rank = 0, currank_total_requests = 1/1, \
elapsed_time = 0.2s, timestamp = 2026-11-22 10:00:00, num_scheduled_requests: 41, \
states = {'num_ctx_requests': 1, 'num_ctx_tokens': 8192, 'num_generation_tokens': 40}
"""

TRTLLM_JSON = """\
[{"iter": 7, "iterLatencyMS": 12.5, "timestamp": "11-22-2026 10:00:00.25", "numActiveRequests": 40, \
"numQueuedRequests": 3, "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 950}, \
"inflightBatchingStats": {"numCtxTokens": 0, "numGenRequests": 40}},
 {"iter": 8, "iterLatencyMS": 200.0, "timestamp": "11-22-2026 10:00:00.45", "numActiveRequests": 41, \
"numQueuedRequests": 2, "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 960}, \
"inflightBatchingStats": {"numCtxTokens": 8192, "numGenRequests": 40}}]
"""

SGLANG = """\
[2026-11-22 10:00:00 DP0 TP0] Decode batch, #running-req: 5, #token: 20800, token usage: 0.29, cuda graph: True, \
gen throughput (token/s): 144.95, #queue-req: 0
[2026-11-22 10:00:00 DP0 TP0] Decode batch, #running-req: 6, #token: 20900, token usage: 0.30, cuda graph: True, \
gen throughput (token/s): 150.5, #queue-req: 2
[2026-11-22 10:00:01 DP1 TP0] Prefill batch, #new-seq: 1, #new-token: 300, #cached-token: 100, full token usage: 0.01, \
#running-req: 0, #queue-req: 1, cuda graph: False, input throughput (token/s): 8072.80
"""

TQDM = """\
Loading checkpoint shards: 100%|##########| 4/4 [00:09<00:00,  2.31s/it]
Map: 100%|##########| 50000/50000 [02:21<00:00, 354.16 examples/s]
""" + "".join(
    f" {n // 10}%|{'#' * (n // 100):10}| {n}/1000 [{n * 2 // 60:02}:{n * 2 % 60:02}<31:00,  2.00s/it]\n"
    + (f"{{'loss': 1.{n}, 'grad_norm': 0.5, 'learning_rate': 5e-06, 'epoch': 0.01}}\n" if n % 5 == 0 else "")
    for n in range(1, 51)
)
"""Of the Trainer of Hugging Face: a step takes 2 s."""

TORCHTITAN = """\
[rank0]:[titan] 2026-11-22 10:00:00,000 - root - INFO - Training starts at step 1
[rank0]:[titan] 2026-11-22 10:00:11,250 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  \x1b[38;2;180;60;0m\
grad_norm:  1.5020  \x1b[36mmemory:  1.41GiB(1.79%)  \x1b[34mtps: 1,745  \x1b[36mtflops: 0.12  \x1b[35mmfu: 0.01%\
\x1b[39m
""" + "".join(
    f"[rank0]:[titan] 2026-11-22 10:{at} - root - INFO - {what} {step}  loss:  6.2250  memory:  1.41GiB(1.79%)  "
    f"tps: {rate}"
    f"{'' if what[0] == 'v' else '  tflops: 18.36  mfu: 1.86%'}\n"
    for at, what, step, rate in (
        ("00:20,250", "step:", 10, "7,282"),
        ("00:30,250", "step:", 20, "7,282"),
        ("01:00,250", "validate step:", 20, "9,100"),
        ("01:10,250", "step:", 30, "7,282"),
        ("01:20,750", "step:", 40, "6,935"),
    )
)
"""A step takes a second; a validation 30 s."""

STEP_LINES = (
    "Epoch: [0][0/9] Time 1.0 (1.000)",
    "Epoch: [0][5/9] Time 1.0 (1.200)",
    "Epoch: [1]  [3/9]  eta: 0:01:00  lr: 0.1  time: 0.5000  data: 0.1",
    "completed step: 4, seconds: 0.000, loss: 1",
    "completed step: 9, seconds: 1.500, loss: 1",
    *TORCHTITAN.splitlines()[1:4],
)

PROMETHEUS_JSON = """\
{
  "status": "success",
  "data": {"resultType": "matrix", "result": [
    {"metric": {"__name__": "vllm:num_requests_waiting", "instance": "a:8000"}, "values": [[1795341600, "0"],
      [1795341615.5, "1e+01"]]}
  ]}
}
{"status":"success","data":{"resultType":"vector","result":[
  {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","Hostname":"n0","gpu":"0"},"value":[1795341600,"97"]}]}}
{"metric":{"__name__":"vllm:num_requests_running","instance":"a:8000"},"values":[1,2.5],\
"timestamps":[1795341600000,1795341615000]}
"""

INFLUX_LINES = """\
# written by telegraf
nvidia_smi,host=n0,index=0,name=NVIDIA\\ H100\\,\\ SXM5,uuid=GPU-0 clocks_current_sm=1980i,power_draw=631.9,v="5 8,0" \
1795341600000000000
net,host=n0,interface=eth0 bytes_recv=12i,bytes_sent=1e3 1795341600000000000
cpu,cpu=cpu-total,host=n0 usage_idle=25,usage_user=70.5 1795341600000000000
"""

ARTEFACTS = {
    "megatron-log": MEGATRON,
    "nemo-log": NEMO,
    "deepspeed-log": DEEPSPEED,
    "mlperf-log": MLPERF,
    "llamafactory-log": LLAMAFACTORY,
    "swift-log": SWIFT,
    "nanogpt-log": NANOGPT,
    "step-log": TORCHTITAN,
    "tqdm-log": TQDM,
    "nvidia-smi": NVIDIA_SMI,
    "nvidia-smi-dmon": NVIDIA_SMI_DMON,
    "nvidia-smi-table": NVIDIA_SMI_TABLE,
    "dcgmi-dmon": DCGMI_DMON,
    "ethtool-statistics": ETHTOOL,
    "infiniband-counters": INFINIBAND,
    "prometheus-json": PROMETHEUS_JSON,
    "influx-lines": INFLUX_LINES,
    "vllm-log": VLLM,
    "sglang-log": SGLANG,
    "trtllm-log": TRTLLM,
    "trtllm-statistics": TRTLLM_JSON,
}
"""By kind of input."""

START = 1795341600.0
"""2026-11-22 10:00:00 UTC, when all of them begin."""
