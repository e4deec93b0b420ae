"""Benchmarks of decoding pgoutput messages in Spark. Run ``python -m benchmarks``."""
