"""The folder of an accelerated classifier: its encoder stands one folder deeper, where nobody loads it by mistake.

`transformers.pipeline(model=folder)` would run the encoder alone: all layers, all tokens, no abstaining, and nothing would say
so. The config.json of the folder therefore names a type of model that transformers does not know, in words that say what to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._support.checked_json import check_digests
from riskfront._support.files import write_text
from riskfront.errors import StoreError
from riskfront.transformers._backbones.backbone import quiet

ENCODER = "encoder"
CALIBRATED = "calibrated_on.safetensors"
FRONTIER = "frontier.json"  # with decide.html, the page to choose from
DECIDE_PAGE = "decide.html"
GAIN, ALTERNATIVES, PAGE = "gain.json", "alternatives.json", "report.html"  # what the last certificate brought
CLASSIFIER, CASCADE = "adaptive.json", "cascade.json"  # of which of both the folder is
CERTIFICATE = "certificate.json"
MODEL_TYPE = (
    "adaptive classifier of riskfront: load it with riskfront.transformers.pipeline('text-classification', model=folder); "
    "the plain model, without what was certified, is in its folder '{encoder}'"
)
README = """---
library_name: riskfront
pipeline_tag: text-classification
tags: [riskfront, early-exit]
---

# An adaptive text classifier

Certified by riskfront: it drops tokens, leaves early and skips attention heads at the thresholds of `certificate.json`.

```python
from riskfront.transformers import pipeline

classify = pipeline("text-classification", model="{name}")
classify(["a text", "another"])
```

or `{kind}.from_pretrained("{name}").predict([...])`{command}.{needs}

`{encoder}/` is the fine-tuned model alone, an ordinary Hugging Face model: {alone}
runs all of its layers on all tokens, which is slow, and not what was certified. On this folder itself transformers refuses.

{promise}
"""
COMMAND = ", or on the command line\n`riskfront transformers predict {name} --data texts.csv`"
ALONE = '`transformers.pipeline(model="{name}/{encoder}")`'
ALONE_ON_HUB = '`AutoModelForSequenceClassification.from_pretrained("{name}", subfolder="{encoder}")`'
UNCERTIFIED = "Nothing is certified of this folder: it holds no certificate."
BY_HAND = (
    "Nothing is certified of the thresholds in use, `{setting}`: they were set by hand. A certificate in this folder speaks of "
    "others."
)
NOT_PROMISED = (
    "Not promised: anything about texts of another kind, from another time or another source than the calibration texts; "
    "anything about a single text or about groups that no limit names; the objectives and the accuracy as they were measured. "
    "`riskfront check FOLDER new.parquet` tests the limits on new labelled texts."
)


def clear(folder: Path) -> None:
    """Make the folder, without what speaks of a classifier, a cascade or a certificate that it held before."""
    of_certificate = (CALIBRATED, FRONTIER, DECIDE_PAGE, GAIN, ALTERNATIVES, PAGE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = any((folder / name).is_file() for name in (CLASSIFIER, CASCADE))  # pages of other folders are left alone
        for name in (CERTIFICATE, *(of_certificate if ours else ()), CLASSIFIER, CASCADE):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write in '{folder}': {error.strerror}.") from error


def save_encoder(model: Any, folder: Path) -> None:
    """The fine-tuned model, and what keeps others from running it for the whole."""
    must_be_free(folder)
    with quiet():
        model.save_pretrained(folder / ENCODER)
    write_guard(folder, "AdaptiveClassifier", ENCODER)


def encoder_of(model: str | os.PathLike[str]) -> str:
    """Of a folder of riskfront its encoder, which is a model to start from; any other folder or hub name as it is."""
    inner = Path(model) / ENCODER
    if not (Path(model) / CLASSIFIER).is_file() or not inner.is_dir():
        return os.fspath(model)
    check_digests(model)
    return str(inner)


def files_of_classifier(folder: Path) -> list[Path]:
    """Everything that decides its answers, except the certificate, which checks itself."""
    encoder = [path.relative_to(folder) for path in (folder / ENCODER).rglob("*") if path.is_file()]
    calibrated = [Path(CALIBRATED)] if (folder / CALIBRATED).is_file() else []
    return [Path(CLASSIFIER), Path("adaptive.safetensors"), *calibrated, *encoder]


def write_guard(folder: Path, kind: str, encoder: str, certificate: Certificate | None = None, **more: Any) -> None:
    """What tells transformers, and people, that this folder is more than the model in `encoder`."""
    about = {"model_type": MODEL_TYPE.format(encoder=encoder)}
    write_text(folder / "config.json", json.dumps(about, indent=2) + "\n")
    write_text(folder / "README.md", card(folder.name, kind, encoder, certificate, **more))


def card(
    name: str,
    kind: str,
    encoder: str,
    certificate: Certificate | None,
    *,
    on_hub: bool = False,
    needs: str = "",
    by_hand: Mapping[str, Any] | None = None,
) -> str:
    """How to load the model of this name, a folder or on the hub, what it needs beside it, and what was certified of it;
    `by_hand` are the thresholds in use where they are not those of the certificate."""
    of_name = {"name": name, "encoder": encoder}
    return README.format(
        **of_name,
        kind=kind,
        command="" if on_hub or needs else COMMAND.format(**of_name),  # commands take folders
        needs=f"\n\n{needs}" if needs else "",
        alone=(ALONE_ON_HUB if on_hub else ALONE).format(**of_name),
        promise=promise(certificate) if by_hand is None else BY_HAND.format(setting=dict(by_hand)),
    )


def promise(certificate: Certificate | None) -> str:
    """What a model card says of a certificate: verdict, limits, intake, and what is not promised."""
    if certificate is None or not certificate:
        return UNCERTIFIED if certificate is None else f"## Nothing was certified\n\n{certificate.verdict()}"
    intake, left_out = certificate.intake, sum(certificate.intake.left_out.values())
    lines = [
        "## What was certified",
        "",
        certificate.verdict(),
        "",
        *(f"- limit: {limit}" for limit in certificate.problem.limits),
        f"- setting: `{certificate.config}`",
        f"- tested by {certificate.method} on {certificate.n_test:,} texts, planned on {certificate.n_opt:,}",
        f"- outcomes: {intake.read:,} read, {intake.used:,} used, {intake.worst:,} as the worst, {left_out:,} left out",
        *(f"- note: {note}" for note in certificate.notes),
        "",
        NOT_PROMISED,
    ]
    return "\n".join(lines)


def push_folder(save: Callable[[Path], None], describe: Callable[[str], str], repo_id: str, **options: Any) -> str:
    """Save into a folder of its own, without traces and training, and upload it; returns the address of the commit. `describe`
    gives the model card of the whole name on the hub."""
    from huggingface_hub import HfApi  # comes with transformers

    api = HfApi(token=options.pop("token", None))
    private = options.pop("private", None)
    with TemporaryDirectory() as place:
        folder = Path(place) / repo_id.rpartition("/")[2]
        save(folder)
        name = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        write_text(folder / "README.md", describe(name))
        options.setdefault("commit_message", "Upload an adaptive classifier of riskfront")
        return str(api.upload_folder(repo_id=name, folder_path=folder, **options))


def local_folder(name: str | os.PathLike[str]) -> Path:
    """A folder as it is; a hub name of two parts that is no folder here is downloaded."""
    path = Path(name)
    if path.exists() or not isinstance(name, str) or name.startswith((".", "/", "~")) or name.count("/") != 1:
        return path
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name))
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise StoreError(f"'{name}' is no folder here and could not be had from the hub ({reason}).") from error


def must_be_free(folder: Path) -> None:
    """Refuse to write into the folder of another model: its config.json would be lost."""
    file = folder / "config.json"
    if file.is_file() and MODEL_TYPE.split(":")[0] not in file.read_text("utf-8"):
        raise StoreError(f"'{folder}' holds another model, which would be lost. Choose another folder.")
