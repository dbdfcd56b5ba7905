"""The machine: samples to panel to features to verdicts to diagnoses to incidents to advice.

Pure: no clock, no network, no files, no processes, no terminal. Time comes from the samples.
"""
