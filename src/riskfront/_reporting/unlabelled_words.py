"""What a certificate says of unlabelled examples: how many there were, which proxy spoke for them, and what it brought."""

from __future__ import annotations

from typing import Any

from riskfront._calibration.certificates.certificate import Certificate

_LITTLE = 0.95  # of the variance left: a proxy that takes away less is called useless


def unlabelled_words(certificate: Certificate) -> list[str]:
    """Sentences; none where no unlabelled examples were used."""
    if certificate.unlabelled is None:
        return []
    used = f"{certificate.unlabelled['used']:,} unlabelled examples" if _counted(certificate) else "Unlabelled examples"
    return [
        f"{used} helped to test, each with a proxy instead of a label; what was measured is the mean over labelled examples.",
        *(_worth(certificate, found) for found in certificate.unlabelled["limits"]),
    ]


def unlabelled_fact(certificate: Certificate) -> dict[str, str]:
    """For the table of how a certificate was made."""
    if certificate.unlabelled is None or not _counted(certificate):
        return {}
    proxies = ", ".join(dict.fromkeys(found["proxy"] for found in certificate.unlabelled["limits"]))
    found = certificate.unlabelled
    return {
        "Unlabelled": f"{found['examples']:,} examples, {found['used']:,} of them used; proxy {proxies}; {found['sha256']}"
    }


def unlabelled_assumptions(certificate: Certificate) -> list[str]:
    """What must be true of unlabelled examples for the guarantee to hold."""
    if certificate.unlabelled is None:
        return []
    return [
        (
            "The unlabelled examples come from the same source as the labelled ones, none is among these, and the proxy was "
            "made in the same way for both: it learnt from neither. How good it is does not matter for the guarantee."
        )
    ]


def _counted(certificate: Certificate) -> bool:
    return "examples" in (certificate.unlabelled or {})


def _worth(certificate: Certificate, found: dict[str, Any]) -> str:
    left, about = found["variance_left"], f"'{found['limit']}'"
    if left is None:
        return f"What the proxy brought for {about} was not measured: there are too few planning examples, or none."
    alone = f"measured on {certificate.n_opt:,} planning examples; labels alone leave all of it"
    if left > _LITTLE:
        return f"For {about} the proxy brought next to nothing: it leaves {100 * left:.0f} % of the variance ({alone})."
    return (
        f"For {about} the proxy leaves {100 * left:.0f} % of the variance ({alone}): each label counts for about "
        f"{1 / left:.2g}."
    )
