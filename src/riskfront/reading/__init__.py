"""From what people bring to a table: a LossTable, a store, a path or URL of either, a Parquet or CSV file.

``sources`` decides what was given, ``long_format`` reads files with one row for each setting and example,
``wide_format`` those with one column a setting; ``column_roles`` finds out which columns are settings, examples, groups
and losses, ``filters`` which rows count, ``incomplete`` and ``worst_outcomes`` what a missing outcome counts as. Data
flow: file -> rows -> columns with roles -> table.
"""
