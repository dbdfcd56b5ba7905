"""The numbers of all detectors of series. A limit of one signal or role stands in the catalogue, with its basis.

A detector takes its run lengths, sizes, memories and factors from here, so that they mean the same everywhere. A number
that is new needs a basis, or two data sets of independent origin that ask for it: name them in its docstring.
"""

import math

# --- chance

FALSE_RATE = 1e-4
"""Stated rate of false findings, of each sample of a healthy series: run lengths follow from it (judgement: a series
that is sampled each second then has one in three hours, before what is too small to matter is left out)."""
LEAST_NATS = -math.log(FALSE_RATE)
"""Evidence of a finding of which nothing more is known than that rate."""

CHANCE = 0.1
"""Probability of a bad sample of a healthy series after another bad one (source: 0 to 0.06 among the ranks of
bytedance/StragglerAnalysis and of mlcommons/storage_results, so that a tenth is on the safe side)."""
RUN = round(math.log(FALSE_RATE) / math.log(CHANCE))
"""Bad samples in a row that are no chance, at the stated rate of false findings."""
QUANTILE = 0.98
"""The part of healthy values that are below the limit of their series (source: with RUN, one false alarm in 8,500
healthy values of eleven runs of mlcommons/training_results, before what is too small to matter is left out)."""
DEVIATIONS = 5.0
"""Median deviations from the median of the past within which a value is noise (source: healthy steps of eleven runs of
mlcommons/training_results, and of the Clos of cisco-ie/telemetry)."""
SIGMAS = 3.0
"""Standard deviations within which a count of independent events is chance (definition: Poisson)."""

# --- sizes

MIN_PAST = 10
"""Healthy values, or intervals, that are a past (definition: their 98 % quantile is between the two largest)."""
PAST_VALUES = 48
"""Values of the past that are kept of each series, half of them without a pause (judgement: twelve minutes)."""
MAJORITY = 3
"""Fewest of which one can be the odd one (definition)."""
MANY = 8
"""Observations of which a mean varies by a third of what single ones do (definition: a root of eight), and members of
whom one in so many is an exception."""

# --- factors

HALF = 0.5
"""Hysteresis (judgement): what began at a limit ends within half of it; a memory follows its newest value by half."""
LEARNING_RATE = 0.2
"""Part by which a usual interval follows the newest one (judgement: five intervals are remembered)."""
ALIKE = 1.5
"""What differs by no more than this factor is of one kind: pauses, loads of replicas, members that share GPUs (source:
alibaba/clusterdata, where these differ by up to 30 % without a fault; pauses of mlcommons/training_results)."""
TAIL = 4.0
"""A value beyond so many times the usual one is none of its distribution (source: single healthy steps take up to 3.4
times the median in mlcommons/training_results; one in a million takes more in mlcommons/storage_results)."""
MISSED = 5.0
"""Usual intervals after which something that comes regularly is missing (source: pollers that miss three in a row, as
in cisco-ie/telemetry; steps of mlcommons/training_results)."""
TENFOLD = 10.0
"""An order of magnitude (definition)."""
APART = 0.2
"""Part by which members that do the same differ where they do differ (source: a tenth is common among the GPUs of one
server, in bytedance/StragglerAnalysis and alibaba/clusterdata)."""
LEAST_PART = 0.05
"""Part of the time, or of the traffic, that matters (judgement: a second each minute for a checkpoint does not)."""
NEGLIGIBLE = 1e-3
"""Part of a value that is nothing (judgement)."""

# --- times

PAUSE_S = 0.5
"""Seconds by which a step takes longer than usual before it counts: collections of garbage take less (judgement). Among
peers twice as much: one such step in a million of mlcommons/storage_results, and a real stall there."""
STEP_S = 3.0
"""Seconds that steps must be slow (judgement)."""
BRIEF_S = 10.0
"""Seconds for which something must last that says of work that it is slow, or stands (judgement)."""
BURST_S = 30.0
"""Seconds within which events belong together; a burst of requests is shorter (judgement; GPUs of mlcommons runs drew
unequal power for 31 s while their work began)."""
RESTART_S = 60.0
"""Seconds in which a process restarts, a replica gets its load, and new flows are spread (judgement)."""
EPISODE_S = 300.0
"""Seconds for which a message or a change counts as of now: what goes on comes again within minutes (judgement)."""
LONG_S = 600.0
"""Seconds that an evaluation may take after its newest sample (judgement): evaluations hang as well."""
MEMORY_S = 3600.0
"""Seconds for which the longest pause of a job is remembered (judgement: checkpoints come more often)."""
RELEARN_S = 21600.0
"""Seconds after which a shift is the new level (judgement: a shift of work)."""
