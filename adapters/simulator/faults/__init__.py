"""Fault models: one function per condition, which sets the effects of the fault in one second.

`strength` is between 0 (nothing) and 1 (as bad as reported); `age` is the number of seconds since it began.
"""
