"""Actions on a cluster: routers, schedulers and switches that carry out a mitigation.

One target is one module. Each offers `plan` (what would change), `apply`, `verify` (did it take effect), `undo`, and a
dry run of each. The package has no target yet, and nothing imports it.
"""
