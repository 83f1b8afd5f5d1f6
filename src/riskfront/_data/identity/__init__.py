"""Whether two examples are the same: identity is content, the same in every process and in every year.

Inside: ``fingerprints`` (what an example contains, as a number), ``copies`` (whether examples come too often), ``shared``
(whether two data sets have examples in common). Every function that takes examples asks here.
"""
