"""The agent on a DPU: reads counters and packets, relays exporters of its node, and pushes rows of numbers.

It needs the standard library, numpy, PyYAML and zstandard, and nothing else of what Skewscope needs.
"""
