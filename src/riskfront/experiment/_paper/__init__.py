"""The paper's experiments as descriptions, and what runs them on stored loss tables.

``descriptions`` lists the experiments. ``stored_tables`` finds and prepares tables. ``trials``, ``chosen_sets``,
``optimizers`` and ``clouds`` measure, one file a kind of experiment; ``figures`` draws; ``run_experiment`` puts them together.
"""
