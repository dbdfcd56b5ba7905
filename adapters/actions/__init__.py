"""What acts on a cluster: a router, a scheduler or a switch in each file, with plan, apply, verify, undo, dry run.

No target exists yet.
"""
