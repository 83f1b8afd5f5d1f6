"""From what people bring to a table: a file, a folder or glob of files, a URL, a data frame, a store.

``opening`` finds out what a path names, ``batches`` reads it as a stream of Arrow batches, ``column_roles`` finds settings,
examples, groups and losses among the columns, ``filters`` which rows count; ``long_format`` puts rows into ``cells`` by the
``codes`` of their setting and example, ``on_disk`` does so for tables larger than memory, ``wide_format`` reads one column a
setting. ``sources`` takes whatever was given. Data flow: rows -> columns with roles -> table, with an account of every row.
"""
