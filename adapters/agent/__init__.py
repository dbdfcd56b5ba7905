"""The agent of a node: reads counters and packets, relays exporters, and pushes rows of numbers to controllers.

Dependencies: the standard library, numpy, PyYAML and zstandard, nothing else that Skewscope uses.
"""
