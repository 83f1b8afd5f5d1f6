"""Identity is content: digests of arrays, data, objects and the user's code, the same in every process and in every
year.

Inside: ``array_digest`` (rows of numbers), ``data_digest`` (sets, arrays, frames, tensors), ``user_code`` (whose code
it is and what it names), ``object_digest`` (any object with all code that it leads to), ``content_numbers`` (many
examples at once), ``sketch`` (a few of them, to know data again). Values go in, digests come out.
"""
