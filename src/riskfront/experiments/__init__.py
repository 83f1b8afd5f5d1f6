"""Comparing methods: ``repeated_splits`` calibrates hundreds of times on examples drawn from one table, ``verdicts`` say
whether a limit was broken, ``intervals`` how sure a share of trials is.
"""
