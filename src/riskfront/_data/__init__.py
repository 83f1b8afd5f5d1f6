"""What every setting loses on every example.

``table`` (LossTable) is what the rest of riskfront passes around. It is made of ``configs``, ``columns`` of losses and
``groups``, checked once; ``sample`` is some of its examples, ``splits`` says which, ``contents`` tells examples apart by what
they hold. ``sums`` adds losses up, ``cached_sums`` answers from sums that are known, ``derived_losses`` makes losses of others.
``problem_fit`` says whether a problem fits a table; ``table_file`` is its file.
Data flow: configs, columns, groups -> sample -> sums -> table.
"""
