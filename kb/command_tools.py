"""The tools that commands of mitigations may name, and the form of what is written for each."""

from collections.abc import Mapping
from dataclasses import dataclass

COMMAND, OPTIONS, ENVIRONMENT, SETTING = "command", "options", "environment", "setting"
"""A command line to run; options added to a start command; variables for a start script; lines of a file."""


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


COMMAND_TOOLS: Mapping[str, CommandTool] = {
    "curl": CommandTool("a request to the HTTP interface of a router or an engine", ambiguous="@"),
    "dcb": CommandTool("data centre bridging of a port, of iproute2"),
    "dcgmi": CommandTool("NVIDIA DCGM on a node with GPUs", ambiguous=","),
    "devlink": CommandTool("device parameters and rates, of iproute2"),
    "dts-config": CommandTool("a line of dts_config.ini of DOCA's telemetry service", SETTING),
    "dynamo": CommandTool("start command of a component of NVIDIA Dynamo", OPTIONS),
    "environment": CommandTool("variables in the script that starts the program", ENVIRONMENT),
    "ethtool": CommandTool("settings and counters of a network interface"),
    "haproxy": CommandTool("a command for HAProxy's stats socket", SETTING),
    "haproxy-config": CommandTool("a line of HAProxy's configuration", SETTING),
    "ibportstate": CommandTool("state of a port of an InfiniBand fabric"),
    "ip": CommandTool("links and addresses of the kernel, of iproute2"),
    "kubectl": CommandTool("Kubernetes", ambiguous="/,", every=("all",)),
    "linuxptp": CommandTool("clocks over PTP", program="ptp4l"),
    "megatron": CommandTool("start command of a training job with Megatron-LM", OPTIONS),
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
    "phc2sys": CommandTool("the system's clock after the adapter's, of linuxptp"),
    "pmc": CommandTool("state of PTP, of linuxptp"),
    "rdma": CommandTool("RDMA devices and counters, of iproute2", ambiguous="/"),
    "sbatch": CommandTool("submission of a job to Slurm", ambiguous="[],"),
    "scontrol": CommandTool("Slurm", ambiguous="[],", every=("all",)),
    "setpci": CommandTool("registers of PCI devices"),
    "sglang": CommandTool("start command of an SGLang engine", OPTIONS),
    "sglang-router": CommandTool("start command of SGLang's router", OPTIONS),
    "sonic": CommandTool("command line of a switch with SONiC", program="config"),
    "srun": CommandTool("start of the ranks of a Slurm job", ambiguous="[],"),
    "sysctl": CommandTool("settings of the kernel", ambiguous="="),
    "systemctl": CommandTool("services of a node"),
    "vllm": CommandTool("start command of a vLLM engine", OPTIONS),
    "vllm-router": CommandTool("start command of vLLM's router", OPTIONS),
}
"""By the name that a mitigation writes."""


def tool_program(name: str) -> str:
    """Returns the first word of a command line of a tool."""
    return COMMAND_TOOLS[name].program or name
