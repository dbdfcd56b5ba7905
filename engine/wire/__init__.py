"""From packets to `wire.*` signals: what one port knows on its own clock (`reducer`), what topology joins (`join`).

The reducer runs on the DPU and over recordings alike. Its input is columns of packets, its output samples; nothing in
it knows a period, a payload or a group size in advance.
"""
