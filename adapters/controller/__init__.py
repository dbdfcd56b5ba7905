"""The controller: receives telemetry, diagnoses it tick by tick, stores incidents and notifies others of them."""
