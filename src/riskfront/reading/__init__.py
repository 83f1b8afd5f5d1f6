"""From what people bring to a table: a LossTable, a store, a path or URL of either, a Parquet or CSV file.

``sources`` decides what was given, ``long_format`` reads files with one row for each setting and example,
``column_roles`` finds out which columns are settings, examples, groups and losses.
"""
