"""Texts and what is known of them: where they come from, which tokens they are, which of them were learnt from.

``texts`` reads and splits them (``hugging_face_data`` for data sets of that kind), ``tokens`` makes numbers of them, and
``known_texts`` keeps what a model learnt from and says which texts may still be calibrated on.
"""
