"""Guided search: look for the front only where settings could still be certified.

``strategy`` (GuidedSearch) is the door; ``region`` says which opt risks are worth looking at, ``region_sampler``
proposes settings there with ``candidates``, a ``surrogate`` (Gaussian processes) and expected ``improvement``.
"""
