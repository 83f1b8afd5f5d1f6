"""Texts are the same when their contents are, wherever they stand."""

import numpy as np
import pandas as pd

from riskfront._data.identity.fingerprints import text_digests, text_places
from riskfront.transformers._data.texts import contents_learnt_from, split_texts
from tests.support import tiny_transformers as tiny


def test_white_space_case_and_compatible_characters_do_not_count() -> None:
    same = text_digests(
        ["A small text", "a small text", "  a small\n\ttext ", "A SMALL TEXT", "a ﬁne text".replace("ﬁne", "small")]
    )
    assert len(set(same)) == 1
    assert text_digests(["ﬁne"]) == text_digests(["fine"])
    assert text_digests(["Straße"]) == text_digests(["STRASSE"])
    assert len(set(text_digests(["a small text", "a small text.", "a smalltext", "small a text"]))) == 4


def test_pairs_are_the_same_when_turned_round_and_differ_when_either_text_does() -> None:
    first, second = ["one", "two", "one", "one two", "one"], ["two", "One", "three", "", "on e"]
    found = text_digests(first, second)
    assert found[0] == found[1]
    assert len(set(found)) == 4
    assert text_digests(["a b"], ["c"]) != text_digests(["a"], ["b c"])


def test_places_are_uniform_and_depend_on_the_content_and_the_seed_alone() -> None:
    contents = text_digests([f"text {i}" for i in range(4000)])
    found = text_places(contents, 0)
    assert abs(found.mean() - 0.5) < 0.03
    assert abs((found < 0.1).mean() - 0.1) < 0.02
    turned = text_places(contents[::-1], 0)[::-1]
    assert (found == turned).all()
    other = text_places(contents, 1)
    assert abs(np.corrcoef(found, other)[0, 1]) < 0.05


def test_a_row_stays_in_its_part_whatever_happens_to_the_others() -> None:
    frame = tiny.make_frame(300, 3)
    before = split_texts(frame)
    for changed in (frame.sample(frac=1, random_state=0), frame.iloc[:-7], pd.concat([tiny.make_frame(20, 4), frame])):
        after = split_texts(changed)
        assert not {*after.calibration.contents} & {*before.train.contents, *before.validation.contents}
        assert not {*before.calibration.contents} & {*after.train.contents, *after.validation.contents}
    again = split_texts(frame.sample(frac=1, random_state=1))
    assert again.train.first == before.train.first, "in the same order too"


def test_copies_stay_together_and_are_counted() -> None:
    frame = tiny.make_frame(200, 5)
    parts = split_texts(pd.concat([frame, frame.assign(text=frame["text"] + " ")]))
    assert not {*parts.calibration.contents} & {*parts.train.contents, *parts.validation.contents}
    assert parts.n_kept_together == len(parts.train) + len(parts.validation)


def test_of_a_file_that_was_learnt_from_the_rows_marked_train_count() -> None:
    frame = tiny.make_frame(6, 5)
    every = text_digests(frame["text"].tolist())
    assert contents_learnt_from(frame) == contents_learnt_from(frame.drop(columns="label")) == every
    assert contents_learnt_from(frame.assign(split=["train", "test"] * 3)) == every[::2]
    assert contents_learnt_from(frame.assign(split="first")) == every
    pairs = tiny.make_pairs(6, 5)
    assert contents_learnt_from(pairs) == text_digests(pairs["text_a"].tolist(), pairs["text_b"].tolist())
