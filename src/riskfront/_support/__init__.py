"""The surroundings a program runs in: files, clusters, progress bars, notebooks, digests.

Nothing here knows what riskfront is for. Outside, import the modules: ``files`` (written whole or not at all), ``checked_json``
(files that carry a digest), ``cluster`` (the Dask or Ray that joblib is set to), ``progress``, ``notebook`` (small HTML views),
``array_digest`` (rows of numbers), ``user_code`` (whose code it is and what it names), ``object_digest`` (any object with all
code that it leads to).
"""
