"""What people see: a page, a terminal, plots.

``sentences`` puts a certificate into words; ``certificate_charts`` and ``trial_charts`` hold what pictures show, as plain
values; ``matplotlib_plots`` draws them; ``page`` with ``page_values``, ``page_charts`` and ``templates/`` makes the report;
``terminal`` prints. Data flow: certificate -> values and sentences -> page, plots, terminal. Results know nothing of this
package.
"""
