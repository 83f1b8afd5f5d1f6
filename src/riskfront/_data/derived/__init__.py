"""Losses that are made of others when they are needed: ``combined`` columns (ratios, weights, what exceeds a threshold),
``gaps`` between groups, means of the ``worst_cases``, ``clusters`` of rows that belong together, and means of a proxy over
batches of ``unlabelled`` examples.

Nothing here is stored. A term says what is wanted, and a table answers with sums or with single losses.
"""
