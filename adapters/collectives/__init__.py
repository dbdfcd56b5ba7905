"""Who is missing in which collective, by the states of ranks that logs, stacks and reports give."""
