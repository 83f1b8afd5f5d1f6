"""Texts and what is known of them: where they come from, which tokens they are, which of them were learnt from.

``texts`` reads and splits them (``hugging_face_data`` for data sets of that kind), ``tokens`` makes numbers of them.
``content`` is the identity of a text; ``learnt`` keeps what a model learnt from, and ``fresh`` says which texts may
still be calibrated on.
"""
