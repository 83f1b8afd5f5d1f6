"""Training, in steps that are done once: fine-tuning, importance of heads, token predictors, exit heads.

``training`` is the entry. ``fine_tuning`` (or the user's own Trainer: ``own_trainer``) and ``head_training`` are the steps,
``exit_reading`` is what exit heads learn from, ``steps`` lets a stopped run go on, and ``reports`` says what each exit answers
beside the most frequent class, and what scores of tokens and heads bring beside chance.
"""
