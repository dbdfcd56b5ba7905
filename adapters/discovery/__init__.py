"""Discovers a topology from scheduler data: nodes, switches, GPUs, groups and ports.

Unknown values are marked in the text, to be filled in by hand: a plausible guess would cause plausible but false
diagnoses.
"""
