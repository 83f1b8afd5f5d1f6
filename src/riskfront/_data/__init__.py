"""What every setting loses on every example.

``table`` (LossTable) is what the rest of riskfront passes around. It is made of ``settings``, ``columns`` of losses and
``groups``, checked once; ``sample`` is some of its examples, ``splits`` says which, ``contents`` tells examples apart by what
they hold. ``sums`` adds losses up, ``cached_sums`` remembers that, ``summed`` answers from it, and ``references`` compares
with a reference setting. ``table_file``, ``table_digest`` and ``table_view`` are its file, its identity and its look in a
notebook; ``values`` checks single numbers and names for everybody.
Data flow: settings, columns, groups -> sample -> sums -> table.
"""
