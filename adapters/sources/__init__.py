"""Where a controller reads telemetry: one module a kind of source, found by its name."""
