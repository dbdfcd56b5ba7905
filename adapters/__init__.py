"""The world: telemetry sources, stores, workers, schedulers, notifiers. Side effects live here."""
