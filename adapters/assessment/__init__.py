"""How good the diagnosis is: labelled telemetry goes through the engine, what it says is held against the labels."""
