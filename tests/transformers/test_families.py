"""Every family: packed layers are the model, also without some heads, some tokens, or both; costs are what torch counts."""

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones import FAMILIES
from riskfront.transformers._backbones import deberta as deberta_family
from riskfront.transformers._backbones.backbone import Backbone, Packed
from riskfront.transformers._backbones.bert import Bert
from riskfront.transformers._backbones.deberta import DebertaV2, DisentangledAttention, distance_rows
from riskfront.transformers._backbones.layer import plain_attention
from riskfront.transformers._backbones.modernbert import ModernBert, RotaryAttention
from riskfront.transformers._backbones.mpnet import DistanceAttention, MPNet
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import Layout
from riskfront.transformers._pruning.cost import Sizes, embedding_flops, layer_flops
from tests.support.transformer_families import CASES, Case

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),  # by the module of DeBERTa
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated"),
]
LENGTHS = (1, 2, 9, 40, 150, 40)
every_family = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@functools.cache
def opened(case: Case) -> Backbone:
    """With weights far from the uniform attention of new models."""
    return Backbone(case.model(initializer_range=0.3))


def inputs_of(case: Case, lengths: tuple[int, ...] = LENGTHS) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(4, 60, size=n) for n in lengths]
    types = [np.arange(len(i)) % 2 for i in ids] if case.types else None
    return Tokens(ids, types, case.padding()).padded(np.arange(len(ids)))


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def run(backbone: Backbone, batch: Packed, kept: Any = None) -> torch.Tensor:
    for layer in backbone.layers(kept):
        batch = layer(batch)
    return backbone.classify(backbone.summary(batch))


@every_family
@torch.no_grad()
def test_packed_layers_are_the_model(case: Case) -> None:
    backbone, inputs = opened(case), inputs_of(case)
    model = backbone.model
    wanted = model(**inputs, output_hidden_states=True)
    mask = inputs["attention_mask"].bool()
    batch = backbone.embed(inputs)
    for layer, states in zip(backbone.layers(), wanted.hidden_states[1:-1], strict=False):
        batch = layer(batch)
        assert_close(batch.states, states[mask])
    assert_close(run(backbone, backbone.embed(inputs)), wanted.logits)
    for i in range(len(LENGTHS)):  # one at a time, as nothing but itself can matter to an example
        alone = {name: value[[i], : LENGTHS[i]] for name, value in inputs.items()}
        assert_close(run(backbone, backbone.embed(alone))[0], wanted.logits[i])


@contextmanager
def without_heads(backbone: Backbone, kept: np.ndarray) -> Iterator[None]:
    """The model itself, with zeros for the outputs of the other heads; layers that run several times are told apart."""
    runs = itertools.count()
    rows = torch.from_numpy(np.repeat(kept, backbone.head_size, axis=1))

    def zero(module: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        return (given[0] * rows[next(runs)],)

    hooks = [module.register_forward_pre_hook(zero) for module in dict.fromkeys(backbone.attention_outputs)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


HEADS = np.random.default_rng(1).random((4, 4)) < 0.5
HEADS[2] = False  # a layer without any head


@every_family
@pytest.mark.parametrize("kept", [HEADS, ~HEADS, np.zeros((4, 4), dtype=bool)], ids=["some", "others", "none"])
@torch.no_grad()
def test_removed_heads_are_heads_whose_output_is_zero(case: Case, kept: np.ndarray) -> None:
    backbone, inputs = opened(case), inputs_of(case)
    model = backbone.model
    with without_heads(backbone, kept):
        wanted = model(**inputs).logits
    assert_close(run(backbone, backbone.embed(inputs), kept), wanted)
    widths = [getattr(layer, "layer", layer).attention_output[0].shape[1] for layer in backbone.layers(kept)]
    assert widths == (8 * kept.sum(axis=1)).tolist(), "their weights are not there any more"


@every_family
@torch.no_grad()
def test_tokens_dropped_before_the_first_layer_are_holes_in_the_attention_mask(case: Case) -> None:
    """Those that are left keep their positions: the model is told so by a mask, and never hears of packing."""
    backbone, inputs = opened(case), inputs_of(case)
    model = backbone.model
    mask = inputs["attention_mask"].bool()
    keep = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    keep[:, 0] = True
    batch = backbone.embed(inputs).only_tokens(keep[mask])
    assert batch.lengths.tolist() == (keep & mask).sum(dim=1).tolist()
    assert_close(run(backbone, batch), model(**{**inputs, "attention_mask": (keep & mask).long()}).logits)


@contextmanager
def dropping(backbone: Backbone, kept: list[torch.Tensor]) -> Iterator[None]:
    """The model itself, whose layer j sees only the tokens kept[j], (examples, longest), by masks of its own kind."""
    runs = itertools.count()

    def masked(mask: Any, seen: torch.Tensor) -> torch.Tensor:
        if mask.dtype.is_floating_point:
            return mask.masked_fill(~seen, torch.finfo(mask.dtype).min)
        return mask & seen if mask.dtype == torch.bool else mask * seen

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = kept[next(runs)][:, None, None, :]
        if "attention_mask" in kwargs:
            return args, {**kwargs, "attention_mask": masked(kwargs["attention_mask"], seen)}
        return (args[0], masked(args[1], seen), *args[2:]), kwargs

    hooks = [m.register_forward_pre_hook(hook, with_kwargs=True) for m in dict.fromkeys(backbone.family.modules)]
    try:
        yield
    finally:
        for made in hooks:
            made.remove()


@every_family
@pytest.mark.parametrize("heads", [np.ones((4, 4), dtype=bool), HEADS], ids=["all heads", "some heads"])
@torch.no_grad()
def test_tokens_dropped_after_each_layer_are_not_seen_by_the_next(case: Case, heads: np.ndarray) -> None:
    backbone, inputs = opened(case), inputs_of(case)
    model = backbone.model
    mask = inputs["attention_mask"].bool()
    generator, kept = torch.Generator().manual_seed(0), [mask]
    for _ in range(3):
        keep = (torch.rand(mask.shape, generator=generator) < 0.7) & kept[-1]
        keep[:, 0] = True
        kept.append(keep)
    batch = backbone.embed(inputs)
    for j, layer in enumerate(backbone.layers(heads)):
        if j:
            batch = batch.only_tokens(kept[j][kept[j - 1]])
        batch = layer(batch)
    with dropping(backbone, kept), without_heads(backbone, heads):
        states = model(**inputs, output_hidden_states=True).hidden_states[-1]
    plain = model(**inputs, output_hidden_states=True).hidden_states[-1]
    assert_close(backbone.family.finish(batch.states), states[kept[-1]])
    assert (plain - states)[kept[-1]].abs().max() > 0.1, "the tokens mattered"


@every_family
@torch.no_grad()
def test_examples_that_leave_change_nothing_for_the_others(case: Case) -> None:
    backbone, inputs = opened(case), inputs_of(case)
    model = backbone.model
    stay = torch.tensor([True, False, True, False, True, True])
    batch = backbone.embed(inputs)
    for j, layer in enumerate(backbone.layers()):
        batch = layer(batch)
        if j == 1:
            batch = batch.only_examples(stay)
    assert_close(backbone.classify(backbone.summary(batch)), model(**inputs).logits[stay])


def products(query: Any, key: Any, value: Any, attn_mask: Any = None, scale: float | None = None) -> Any:
    """Attention as two matrix products, because torch has no formula for its own on a CPU."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, dim=-1) @ value


@every_family
@torch.no_grad()
def test_costs_are_what_torch_counts(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    b = opened(case)
    sizes = Sizes(
        b.n_layers, b.n_heads, b.head_size, b.width, b.inner_width, b.n_classes, layout=Layout(), extras=b.extras
    )
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", products)
    layers = b.layers(HEADS)
    for length in (2, 31):
        batch = b.embed(inputs_of(case, (length,)))
        tokens = []
        with FlopCounterMode(display=False) as counter:
            batch = b.embed(inputs_of(case, (length,)))
            for layer in layers:
                tokens.append(len(batch.states))
                batch = layer(batch)
                keep = torch.arange(len(batch.states)) % 3 != 1
                batch = batch.only_tokens(keep)
            b.classify(b.summary(batch))
        counted = layer_flops(sizes, HEADS.sum(axis=1), np.array([tokens])).sum()
        classifier = 2 * (b.width**2 + b.width * b.n_classes)
        assert counter.get_total_flops() == counted + embedding_flops(sizes, np.array([length]))[0] + classifier


OTHERS = {
    "ConvBert": {"head_ratio": 2, "conv_kernel_size": 3, "embedding_size": 32},
    "MobileBert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "RobertaPreLayerNorm": {"pad_token_id": 1},
    "Nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8},
    "MegatronBert": {},
    "Deberta": {"relative_attention": True, "pos_att_type": "c2p|p2c"},
    "SqueezeBert": {"embedding_size": 32},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_are_refused_in_a_sentence(name: str) -> None:
    model = Case(name, OTHERS[name]).model()
    with pytest.raises(InvalidInputError, match=r"^the model must be an encoder of .*BERT.*DeBERTa-v2 and v3") as error:
        Backbone(model)
    assert str(error.value).endswith(f"got {name}ForSequenceClassification: it is none of these.")


@pytest.mark.parametrize("name", ["Nystromformer", "RobertaPreLayerNorm", "MegatronBert", "ConvBert", "MobileBert"])
@pytest.mark.parametrize("size", [0.02, 0.002])
def test_even_under_a_known_name_what_differs_is_found(name: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights so small that attention is nearly uniform, whoever computes it."""
    model = Case(name, OTHERS[name]).model(initializer_range=size)
    monkeypatch.setitem(FAMILIES, model.config.model_type, Bert)
    with pytest.raises(InvalidInputError, match=r"computes something else|layer by layer"):
        Backbone(model)


def no_rotation(self: Any, batch: Packed) -> torch.Tensor:
    return torch.stack([torch.ones(1), torch.zeros(1)])


WRONG = {
    "MPNet without distances": ("MPNet", MPNet, "attention", lambda *a: plain_attention),
    "MPNet backwards": (
        "MPNet",
        DistanceAttention,
        "_bias",
        lambda self, batch, right=DistanceAttention._bias: right(self, batch).transpose(2, 3),
    ),
    "DeBERTa without distances": ("DeBERTa-v3", DebertaV2, "attention", lambda *a: plain_attention),
    "DeBERTa backwards": (
        "DeBERTa-v3",
        DisentangledAttention,
        "_row",
        lambda self, batch, right=DisentangledAttention._row: right(self, batch).transpose(1, 2),
    ),
    "DeBERTa with a bucket a distance": (
        "DeBERTa-v3",
        deberta_family,
        "distance_rows",
        lambda span, buckets, furthest, longest: distance_rows(span, 0, 0, longest),
    ),
    "ModernBERT without windows": (
        "ModernBERT",
        RotaryAttention,
        "_mask",
        lambda self, batch: torch.ones(1, dtype=torch.bool) if batch.real is None else batch.real[:, None, None, :],
    ),
    "ModernBERT without rotation": ("ModernBERT", RotaryAttention, "_rotation", no_rotation),
    "ModernBERT without its last norm": ("ModernBERT", ModernBert, "finish", lambda self, states: states),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_check_finds_every_wrong_attention_of_a_new_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, where, what, wrong = WRONG[name]
    model = CASES[family].model(initializer_range=0.02)
    Backbone(model)
    monkeypatch.setattr(where, what, wrong)
    with pytest.raises(InvalidInputError, match="computes something else"):
        Backbone(model)


@pytest.mark.parametrize("name", ["BERT", "ALBERT", "DeBERTa own keys", "ModernBERT"])
def test_the_check_leaves_every_weight_as_it_was(name: str) -> None:
    model = CASES[name].model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Backbone(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_refused_models() -> None:
    with pytest.raises(InvalidInputError, match=r"its weights are torch.bfloat16; load it in single precision"):
        Backbone(CASES["BERT"].model().bfloat16())
    with pytest.raises(InvalidInputError, match=r"its groups have several layers each"):
        Backbone(CASES["ALBERT"].model(inner_group_num=2))


@pytest.mark.parametrize(("span", "buckets", "furthest", "longest"), [(256, 256, 512, 512), (16, 16, 200, 200)])
def test_rows_of_distances_are_those_of_transformers(span: int, buckets: int, furthest: int, longest: int) -> None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    states = torch.zeros(1, longest, 1)
    wanted = build_relative_position(states, states, bucket_size=buckets, max_position=furthest)[0]
    rows = distance_rows(span, buckets, furthest, longest)
    places = torch.arange(longest)
    found = rows[places[:, None] - places[None, :] + longest - 1]
    assert torch.equal(found, (wanted + span).clamp(0, 2 * span - 1))


def test_a_layer_of_albert_is_sliced_once() -> None:
    backbone = Backbone(CASES["ALBERT"].model())
    assert len({id(layer) for layer in backbone.layers()}) == 1
    assert len({id(layer) for layer in backbone.layers(HEADS)}) == len({row.tobytes() for row in HEADS})
