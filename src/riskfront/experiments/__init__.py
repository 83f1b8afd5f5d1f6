"""Comparing methods: ``repeated_splits`` runs them over hundreds of random splits of one table and judges what they
return.
"""
