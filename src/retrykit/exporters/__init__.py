"""Listeners that carry events elsewhere: into logs, Prometheus and OpenTelemetry, each a module of its own."""
