"""A fleet that never was: nodes with DPUs and GPUs that serve and train, the faults that befall them, and the telemetry
that real exporters would make of it.

Written from how such systems work (rounds that wait for their slowest member, queues that fill, pauses that spread), not
from the rules: no threshold of a rule appears here.
"""
