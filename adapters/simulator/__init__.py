"""Simulates a fleet: nodes that serve and train, their faults, and the metrics that exporters would report.

The model describes how such systems work (rounds that wait for their slowest member, queues that fill, pauses that
spread); it is independent of the rules: no threshold of a rule appears here.
"""
