"""One module a tool: ``files(path)`` finds its files, ``records(file)`` reads them, one ``Record`` an answer.

``json_files`` reads JSON with errors that name the line, members of ZIP files that are no larger than they may be, and the rows
of services.
"""
