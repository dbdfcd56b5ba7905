"""The tools that commands of mitigations may name, and the form of what is written for each."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

COMMAND, OPTIONS, ENVIRONMENT, SETTING = "command", "options", "environment", "setting"
"""A command line to run; options added to a start command; variables for a start script; lines of a file."""


ENGINES = ("dynamo", "sglang", "vllm")
"""Serving engines, by the first words of the names of their tools."""
_launcher = re.compile(r"^(?:python -m|torchrun) ")


@dataclass(frozen=True, slots=True)
class CommandTool:
    """A tool: the form of its commands, and what it is."""

    about: str
    form: str = COMMAND
    program: str = ""
    """First word of its command lines; '' where it is the tool's own name."""
    ambiguous: str = ""
    """Characters with which a name would be read as several entities, or as one of another kind."""
    every: tuple[str, ...] = ()
    """Words that the tool reads as all entities, in small letters."""
    start: str = ""
    """Of options: the start command that they are added to."""

    @property
    def running(self) -> str:
        """A command line that prints the options with which it runs now; '' for what takes no options."""
        return f"pgrep -af {shlex.quote(_launcher.sub('', self.start))}" if self.start else ""


COMMAND_TOOLS: Mapping[str, CommandTool] = {
    "chronyc": CommandTool("state of the time service chrony"),
    "curl": CommandTool("a request to the HTTP interface of a router or an engine", ambiguous="@"),
    "dcb": CommandTool("data centre bridging of a port, of iproute2"),
    "dcgmi": CommandTool("NVIDIA DCGM on a node with GPUs", ambiguous=","),
    "devlink": CommandTool("device parameters and rates, of iproute2"),
    "dts-config": CommandTool("a line of dts_config.ini of DOCA's telemetry service", SETTING),
    "dynamo": CommandTool("start command of a component of NVIDIA Dynamo", OPTIONS, start="python -m dynamo.frontend"),
    "environment": CommandTool("variables in the script that starts the program", ENVIRONMENT),
    "ethtool": CommandTool("settings and counters of a network interface"),
    "haproxy": CommandTool("a command for HAProxy's stats socket", SETTING),
    "haproxy-config": CommandTool("a line of HAProxy's configuration", SETTING),
    "ibportstate": CommandTool("state of a port of an InfiniBand fabric"),
    "ibqueryerrors": CommandTool("errors of the ports of an InfiniBand fabric"),
    "ip": CommandTool("links and addresses of the kernel, of iproute2"),
    "ipmitool": CommandTool("sensors and events of the machine's controller"),
    "journalctl": CommandTool("log of the kernel and of services"),
    "kubectl": CommandTool("Kubernetes", ambiguous="/,", every=("all",)),
    "linuxptp": CommandTool("clocks over PTP", program="ptp4l"),
    "lspci": CommandTool("devices and links of PCIe"),
    "megatron": CommandTool("start of a training job with Megatron-LM", OPTIONS, start="torchrun pretrain_gpt.py"),
    "mlnx_qos": CommandTool("queues and priorities of an NVIDIA adapter"),
    "mlxconfig": CommandTool("firmware settings of an NVIDIA adapter or DPU"),
    "mlxreg": CommandTool("registers of an NVIDIA adapter or DPU"),
    "mstlink": CommandTool("state and counters of a link of an NVIDIA adapter"),
    "ncclras": CommandTool("client of NCCL's RAS subsystem"),
    "numactl": CommandTool("cores and memory of a process"),
    "numastat": CommandTool("memory of a process by NUMA domain"),
    "nvidia-bug-report": CommandTool(
        "archive of the driver's state, for NVIDIA's support", program="nvidia-bug-report.sh"
    ),
    "nvidia-smi": CommandTool("NVIDIA driver of a node", ambiguous=","),
    "opensm-config": CommandTool("a line of opensm.conf", SETTING),
    "ovs-ofctl": CommandTool("flows and meters of Open vSwitch, which a DPU runs as its switch", ambiguous=","),
    "perftest": CommandTool("bandwidth and latency over RDMA", program="ib_write_bw"),
    "pgrep": CommandTool("processes by their command lines"),
    "phc2sys": CommandTool("the system's clock after the adapter's, of linuxptp"),
    "pmc": CommandTool("state of PTP, of linuxptp"),
    "py-spy": CommandTool("stacks of a Python process"),
    "rdma": CommandTool("RDMA devices and counters, of iproute2", ambiguous="/"),
    "sbatch": CommandTool("submission of a job to Slurm", ambiguous="[],"),
    "scontrol": CommandTool("Slurm", ambiguous="[],", every=("all",)),
    "setpci": CommandTool("registers of PCI devices"),
    "sglang": CommandTool("start command of an SGLang engine", OPTIONS, start="python -m sglang.launch_server"),
    "sglang-router": CommandTool("start of SGLang's router", OPTIONS, start="python -m sglang_router.launch_router"),
    "sinfo": CommandTool("nodes of Slurm"),
    "sonic": CommandTool("command line of a switch with SONiC", program="config"),
    "sonic-show": CommandTool("what a switch with SONiC shows", program="show"),
    "srun": CommandTool("start of the ranks of a Slurm job", ambiguous="[],"),
    "ss": CommandTool("connections of the kernel, of iproute2"),
    "sysctl": CommandTool("settings of the kernel", ambiguous="="),
    "systemctl": CommandTool("services of a node"),
    "top": CommandTool("processes and processors"),
    "vllm": CommandTool("start command of a vLLM engine", OPTIONS, start="vllm serve"),
    "vllm-router": CommandTool("start command of vLLM's router", OPTIONS, start="vllm-router"),
    "vmstat": CommandTool("memory, storage and processors"),
}
"""By the name that a mitigation writes."""


def engine_of(name: str) -> str:
    """Returns the serving engine that a tool belongs to, as SGLang's router to SGLang; '' for none."""
    engine = name.partition("-")[0]
    return engine if engine in ENGINES else ""


def tool_program(name: str) -> str:
    """Returns the first word of a command line of a tool."""
    return COMMAND_TOOLS[name].program or name
