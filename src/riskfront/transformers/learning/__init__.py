"""Training, in steps that are done once: fine-tuning, importance of heads, exit heads, token predictors.

``training`` is the door. ``fine_tuning`` (or the user's own Trainer: ``own_trainer``), ``importance`` and
``head_training`` are the steps, ``steps`` and ``checkpoint`` let a stopped run go on, ``exit_report`` says what each
exit answers beside the most frequent class.
"""
