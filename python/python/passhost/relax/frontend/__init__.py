"""Frontends that create Relax modules."""
