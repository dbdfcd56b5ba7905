"""What people have in hand, kind by kind of input: the command that writes such a file, and lines of one.

Messages name the kind that is nearest to a file that cannot be read, and docs/in-hand.md is made from this table and
the formats of the catalogue. A test runs each command and reads what it writes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skewscope.adapters.inputs.recording import input_readers
from skewscope.kb.loader import catalogue

PLAIN_COMMAND = re.compile(r"[a-z][\w.-]*(?: .*)?")
"""A command of one program, as formats have it."""

TEXT = "text"
"""The kind of what formats read."""


@dataclass(frozen=True, slots=True)
class InHand:
    """One kind of file that is read."""

    kind: str
    """Kind of input, or id of a format."""
    name: str
    """What it is called."""
    file: str
    """A name of such a file."""
    command: str = ""
    """A command of a shell that writes the file; '' where none does."""
    sample: str = ""
    """Lines of such a file; '' for binary ones."""


_KINDS: Mapping[str, tuple[str, str, str]] = {
    "access-log": (
        "access.log",
        "kubectl logs deploy/ingress-nginx-controller > access.log",
        (
            '10.0.0.9 - - [22/Nov/2026:10:00:00 +0000] "POST /v1/chat/completions HTTP/1.1" 200 512 "-" "curl/8.5" '
            "rt=1.204 uht=0.310 ua=10.0.0.21:8000\n"
        ),
    ),
    "benchmark-result": (
        "result.txt",
        "vllm bench serve --model MODEL > result.txt",
        (
            "============ Serving Benchmark Result ============\n"
            "Successful requests:                     1000\n"
            "Benchmark duration (s):                  120.50\n"
            "Request throughput (req/s):              8.30\n"
            "Mean TTFT (ms):                          180.20\n"
            "P99 TTFT (ms):                           420.10\n"
            "==================================================\n"
        ),
    ),
    "chakra": ("job.0.et", "chakra_converter PyTorch --input linked.0.json --output job.0.et", ""),
    "csv": ("gpus.csv", "", "time,host,gpu,sm_clock_mhz,power_w\n2026-11-22T10:00:00Z,n0,0,1410,301.5\n"),
    "dcgmi-dmon": (
        "n0.txt",
        "dcgmi dmon -e 100,155,150,203,112,1002,1004,1005 -d 1000 > n0.txt",
        (
            "#Entity   SMCLK      POWER      TMPTR      GPUTL      CETHR      SMACT      TENSO      DRAMA\n"
            "ID\nGPU 0     1410       301.5      61         97         0          0.910      0.512      0.402\n"
        ),
    ),
    "deepspeed-log": (
        "train.log",
        "deepspeed train.py --deepspeed_config ds.json > train.log 2>&1",
        (
            "[2026-11-22 10:00:05,123] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, "
            "RunningAvgSamplesPerSec=110.9, CurrSamplesPerSec=111.3, MemAllocated=9.1GB, MaxMemAllocated=12.0GB\n"
        ),
    ),
    "ethtool-statistics": (
        "n0-eth0.txt",
        "for n in 1 2; do date -Is; ethtool -S eth0; sleep 1; done > n0-eth0.txt",
        (
            "2026-11-22T10:00:00+00:00\nNIC statistics:\n     rx_packets: 1000\n     tx_packets: 900\n"
            "     rx_bytes: 100000\n     tx_bytes: 90000\n     rx_discards_phy: 0\n"
        ),
    ),
    "gpu-topology": (
        "n0.txt",
        "nvidia-smi topo -m > n0.txt",
        (
            "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
            "GPU0\t X \tNV18\tNV18\t0-31\t0\nGPU1\tNV18\t X \tNV18\t0-31\t0\nGPU2\tNV18\tNV18\t X \t0-31\t0\n"
        ),
    ),
    "infiniband-counters": (
        "n0.txt",
        "for n in 1 2; do date -Is; grep -r . /sys/class/infiniband/*/ports/*/; sleep 1; done > n0.txt",
        (
            "2026-11-22T10:00:00+00:00\n"
            "/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:1000\n"
            "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:900\n"
            "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait:0\n"
        ),
    ),
    "influx-lines": (
        "telegraf.influx",
        "telegraf --config telegraf.conf --test > telegraf.influx",
        "nvidia_smi,host=n0,index=0 clocks_current_sm=1410i,power_draw=301.5,utilization_gpu=97i 1795341600000000000\n",
    ),
    "log-export": (
        "logs.csv",
        "",
        (
            "@timestamp,host.name,message\n"
            '2026-11-22T10:00:05Z,n0,"kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."\n'
        ),
    ),
    "kineto": (
        "rank0.pt.trace.json",
        "",
        '{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [\n',
    ),
    "llamafactory-log": (
        "trainer_log.jsonl",
        "",
        (
            '{"current_steps": 10, "total_steps": 99, "loss": 1.2, "lr": 1e-05, "epoch": 0.1, "percentage": 10.1, '
            '"elapsed_time": "0:01:10", "remaining_time": "0:10:23"}\n'
        ),
    ),
    "many-hosts": (
        "hosts.txt",
        "pdsh -w gpu[01-08] chronyc tracking > hosts.txt",
        (
            "gpu01: System time     : 0.000008017 seconds slow of NTP time\ngpu01: Leap status     : Normal\n"
            "gpu02: System time     : 0.384000120 seconds fast of NTP time\ngpu02: Leap status     : Normal\n"
        ),
    ),
    "megatron-log": (
        "train.log",
        "torchrun pretrain_gpt.py --log-interval 1 > train.log 2>&1",
        (
            " [2026-11-22 10:00:05] iteration       10/     100 | consumed samples:         2560 | "
            "elapsed time per iteration (ms): 1234.5 | learning rate: 1.0E-04 | global batch size:   256 |\n"
        ),
    ),
    "mlperf-log": (
        "result_0.txt",
        "",
        (
            ':::MLLOG {"namespace": "", "time_ms": 1795341600000, "key": "tracked_stats", '
            '"value": {"throughput": 2.1}, "metadata": {"step": 10, "samples_count": 512}}\n'
        ),
    ),
    "named-numbers": (
        "stats.txt",
        "for n in 1 2; do date -Is; curl -s localhost:9901/stats; sleep 1; done > stats.txt",
        (
            "2026-11-22T10:00:00+00:00\n"
            "cluster.chat.upstream_rq_2xx: 88120\ncluster.chat.upstream_rq_5xx: 12\n"
            "cluster.chat.upstream_rq_retry: 4\ncluster.chat.membership_healthy: 6\n"
        ),
    ),
    "nanogpt-log": (
        "train.txt",
        "python train.py > train.txt",
        "iter 100: loss 3.1234, time 123.45ms, mfu 30.12%\n",
    ),
    "nccl-flight-recorder": ("nccl_trace_rank_0", "", ""),
    "nemo-log": (
        "train.log",
        "torchrun pretrain.py > train.log 2>&1",
        (
            "Training epoch 0, iteration 10/99 | lr: 1e-04 | global_batch_size: 256 | global_step: 10 | "
            "reduced_train_loss: 9.1 | train_step_timing in s: 2.345\n"
        ),
    ),
    "nvidia-smi": (
        "n0.csv",
        (
            "timeout 60 nvidia-smi --query-gpu=timestamp,index,clocks.current.sm,power.draw,temperature.gpu,"
            "clocks_event_reasons.active --format=csv -l 1 > n0.csv"
        ),
        (
            "timestamp, index, clocks.current.sm [MHz], power.draw [W], temperature.gpu, clocks_event_reasons.active\n"
            "2026/11/22 10:00:00.000, 0, 1410 MHz, 301.50 W, 61, 0x0000000000000000\n"
        ),
    ),
    "nvidia-smi-dmon": (
        "n0.txt",
        "nvidia-smi dmon -o DT -s pucm -c 60 > n0.txt",
        (
            "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk\n"
            "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz\n"
            " 20261122   10:00:00      0    301     61     70     97     40      0      0   1593   1410\n"
        ),
    ),
    "nvidia-smi-table": (
        "n0.txt",
        "for n in 1 2; do nvidia-smi; sleep 1; done > n0.txt",
        (
            "Sun Nov 22 10:00:00 2026\n"
            "+-----------------------------------------------------------------------------------------+\n"
            "| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |\n"
            "|-----------------------------------------+------------------------+----------------------+\n"
            "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |\n"
            "| N/A   65C    P0            650W /  700W |   70000MiB /  81559MiB |     98%      Default |\n"
        ),
    ),
    "openmetrics": (
        "metrics.om",
        "promtool tsdb dump-openmetrics --match='{__name__=~\"DCGM.*\"}' /prometheus > metrics.om",
        '# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{Hostname="n0",gpu="0"} 1410 1795341600\n# EOF\n',
    ),
    "parquet": ("gpus.parquet", "", ""),
    "pcap": ("n0-eth0.pcap", "timeout 10 tcpdump -i eth0 -s 128 -w n0-eth0.pcap", ""),
    "prometheus-json": (
        "queue.json",
        (
            "curl -sG http://prometheus:9090/api/v1/query_range --data-urlencode 'query={__name__=~\"vllm:.*\"}' "
            "--data-urlencode start=2026-11-22T10:00:00Z --data-urlencode end=2026-11-22T11:00:00Z "
            "--data-urlencode step=15 > queue.json"
        ),
        (
            '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":'
            '"vllm:num_requests_waiting","instance":"10.0.0.1:8000"},"values":[[1795341600,"3"],[1795341615,"4"]]}]}}\n'
        ),
    ),
    "prometheus-page": (
        "page.prom",
        "curl -s http://localhost:9400/metrics > page.prom",
        '# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{Hostname="n0",gpu="0"} 1410\n',
    ),
    "prometheus-pages": (
        "pages/1795341600.prom",
        "mkdir -p pages; for n in 1 2; do curl -s localhost:9400/metrics > pages/$(date +%s).prom; sleep 1; done",
        '# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{Hostname="n0",gpu="0"} 1410\n',
    ),
    "request-table": (
        "requests.csv",
        "",
        (
            "start_time,end_time,ttft,prompt_tokens,output_tokens,status,replica\n"
            "2026-11-22T10:00:00Z,2026-11-22T10:00:02Z,0.31,512,128,200,chat-0\n"
        ),
    ),
    "sglang-log": (
        "sglang.log",
        "kubectl logs deploy/sglang > sglang.log",
        (
            "[2026-11-22 10:00:00 TP0] Decode batch, #running-req: 8, #token: 62531, token usage: 0.31, "
            "cuda graph: True, gen throughput (token/s): 420.10, #queue-req: 0\n"
        ),
    ),
    "step-log": (
        "train.log",
        "torchrun train.py > train.log 2>&1",
        (
            "[rank0]:[titan] 2026-11-22 10:00:05,123 - root - INFO - step: 10  loss:  2.5  memory: 40.2GiB(50%)  "
            "tps: 7,282  tflops: 420.1  mfu: 42.0%\n"
        ),
    ),
    "swift-log": (
        "logging.jsonl",
        "",
        (
            '{"loss": 1.2, "grad_norm": 0.5, "learning_rate": 1e-05, "epoch": 0.1, "global_step/max_steps": "10/99", '
            '"percentage": "10.1%", "elapsed_time": "1m 10s", "remaining_time": "10m 23s"}\n'
        ),
    ),
    "tqdm-log": (
        "train.log",
        "python train.py > train.log 2>&1",
        "",
    ),
    "training-table": (
        "metrics.csv",
        "",
        "step,loss,tokens_per_sec\n10,2.51,40112.5\n20,2.47,40087.1\n",
    ),
    "trtllm-log": (
        "trtllm.log",
        "kubectl logs deploy/trtllm > trtllm.log",
        (
            "[09/14/2026-08:00:00] [TRT-LLM] [I] iter = 1, global_rank = 0, rank = 0, num_scheduled_requests: 40, "
            "host_step_time = 11.4ms, timestamp = 2026-09-14 08:00:00, "
            "states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 40}\n"
        ),
    ),
    "trtllm-statistics": (
        "metrics.json",
        "curl -s http://localhost:8000/metrics > metrics.json",
        (
            '[{"iter": 1, "timestamp": "11-22-2026 10:00:00.000000", "iterLatencyMS": 11.4, "numActiveRequests": 40, '
            '"numQueuedRequests": 0, "kvCacheStats": {"maxNumBlocks": 100, "usedNumBlocks": 12}}]\n'
        ),
    ),
    "vllm-log": (
        "vllm.log",
        "kubectl logs deploy/vllm > vllm.log",
        (
            "INFO 11-22 10:00:00 [loggers.py:273] Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation "
            "throughput: 420.1 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 31.0%, "
            "Prefix cache hit rate: 12.0%\n"
        ),
    ),
}


def list_in_hand() -> Iterator[InHand]:
    """Yields all kinds of files that are read, those of formats last; a folder of several files is none of its own."""
    readers = input_readers()
    sets = {reader.set_kind for reader in readers.values()}
    for kind, reader in readers.items():
        if kind not in sets | {TEXT}:
            file, command, sample = _KINDS.get(kind, ("", "", ""))
            yield InHand(kind, reader.label, file, command, sample)
    for one in catalogue().formats.values():
        file = f"{one.id}.txt"
        command = f"{one.command} > {file}" if PLAIN_COMMAND.fullmatch(one.command) else ""
        yield InHand(one.id, one.name, file, command, one.samples[0].lines)
