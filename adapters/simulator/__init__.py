"""A fleet that never was: nodes that serve and train, what befalls them, and what exporters would tell of it.

Written from how such systems work (rounds that wait for their slowest member, queues that fill, pauses that spread),
not from the rules: no threshold of a rule appears here.
"""
