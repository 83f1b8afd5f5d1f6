"""Every inequality and every procedure, on plain arrays.

p-values, one file a family: ``binomial`` (exact, 0/1 losses), ``concentration`` (Hoeffding, Bentkus), ``betting`` (any bounded
loss; ``fixed_stakes`` is its older form); ``p_values`` knows them by name and ``inversion`` turns them around. ``procedures``
keep the family-wise error (Bonferroni, Holm, fixed sequence, graphical), ``graphs`` move its budget, ``fronts`` are Pareto
fronts. Nothing here knows of tables or settings.
"""
