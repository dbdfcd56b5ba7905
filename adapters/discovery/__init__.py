"""A topology out of what a scheduler knows, so that nobody need write one: nodes, switches, GPUs, groups and ports.

What none of them knows is marked in the text, to be filled in by hand: a guess that looks like knowledge would give
diagnoses that do.
"""
