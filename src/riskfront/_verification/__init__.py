"""Trust after the fact: ``verify`` recomputes a certificate from the data it was made of, ``check`` tests its setting on new
ones."""
