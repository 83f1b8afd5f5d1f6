"""The paper's experiments as descriptions, and what runs them on stored loss tables.

``descriptions`` lists the experiments, ``forms`` the options of the paper and of riskfront. ``stored_tables`` finds and
prepares tables, ``language_models`` makes those of LLM logs. ``trials``, ``chosen_sets``, ``optimizers`` and ``clouds``
measure, one file a kind of experiment; ``figures`` draws; ``reproduce`` puts them together.
"""
