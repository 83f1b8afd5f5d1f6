"""Losses on disk or in object storage: appended by many processes, resumed after a crash, never half-read.

``loss_store`` (LossStore) is the entry. ``task`` says what a store belongs to, ``header`` writes it down, ``stored_rows`` lays
out rows and markers of complete settings, ``lazy_column`` reads a loss a block at a time, and ``storage`` holds named objects.
Data flow: rows -> store -> lazy columns -> a LossTable that stays on disk.
"""
