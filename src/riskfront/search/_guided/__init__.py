"""Guided search: look for the front only where settings could still be certified.

``strategy`` (GuidedSearch) is the entry and says which risks on planning examples are worth looking at; ``region_sampler``
proposes settings there with Gaussian processes and expected improvement.
"""
