"""Measures diagnosis quality: runs labelled telemetry through the engine and compares the result with the labels."""
