"""What is known: conditions, signals, mitigations, sources; load, check and ask them."""
