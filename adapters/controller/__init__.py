"""The controller: takes telemetry in, diagnoses it tick by tick, keeps and tells what it found."""
