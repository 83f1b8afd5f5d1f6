"""The surroundings a program runs in: files, temporary folders, clusters, progress bars, notebooks.

Nothing here knows what riskfront is for. Outside, import the modules: ``files`` (written whole or not at all),
``temporary_folders``, ``cluster`` (the Dask or Ray that joblib is set to), ``progress``, ``notebook`` (small HTML
views), ``array_digest`` (rows of numbers), ``data_digest`` (sets, arrays, frames, tensors), ``user_code`` (whose code it
is and what it names), ``object_digest`` (any object with all code that it leads to).
"""
