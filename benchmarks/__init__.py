"""How fast Spark decodes pgoutput messages: ``python -m benchmarks``."""
