"""Backtests: rules, or two versions of them, judged on recorded telemetry."""
