"""What can go wrong: one function a condition, which says what the fault does to the machine in one second.

`strength` runs from 0 (nothing) to 1 (as bad as it is reported); `age` is the number of seconds since it began.
"""
