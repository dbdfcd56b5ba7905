"""A lab: real traffic under real faults, on one machine, and what DPUs would see of it.

Each node is a network namespace with a port on either network. The switch side of these ports is one more namespace: an
observer stands there where a DPU stands, on `dpu-<node>-ns` (north-south) and `dpu-<node>-ew` (east-west). The nodes
serve text to clients: they exchange real bytes over real TCP, tensor-parallel, pipeline-parallel or prefill-decode;
only their computing is a timed wait.

    python -m tests.lab SCENARIO FOLDER     # a recording, with labels of what was done

It takes root, the commands ip, tc and nft, and for recordings tcpdump; prometheus-node-exporter runs where it is there.
"""
