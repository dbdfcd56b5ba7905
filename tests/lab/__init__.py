"""A lab on one machine: real traffic with real faults, and what DPUs would see of it.

Each node is a network namespace with a port on either network. The switch side of these ports is one more namespace: an
observer stands there where a DPU stands, on `dpu-<node>-ns` (north-south) and `dpu-<node>-ew` (east-west). The nodes
serve text to clients: they exchange real bytes over real TCP, tensor-parallel, pipeline-parallel or prefill-decode;
only their computing is a timed wait.

    python -m tests.lab SCENARIO FOLDER         # a labelled recording
    python -m tests.lab.jobs SCENARIO FOLDER    # one of jobs with real collectives of PyTorch, where it is installed

It needs root, the commands ip, tc and nft, and tcpdump for recordings; prometheus-node-exporter runs where installed.
"""
