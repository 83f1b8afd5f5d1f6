"""Faults, tried with real processes: two runs at one moment, storage that is down, slow or damaged, a killed client.

``make faults`` runs them and writes docs/compare/faults.md. Those that take seconds run in CI too.
"""
