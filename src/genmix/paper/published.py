"""The paper's datasets and numbers, and where it contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dataset:
    """A dataset of the paper."""

    key: str
    """The folder of its feature files."""
    title: str
    models: dict[str, str]
    """Name in the paper → pattern for file names, which consist of lowercase letters and digits only."""
    stands_in: str
    """The recorded world that replaces missing feature files."""
    encoder: str
    """The encoder used in the paper's experiments."""
    aliases: tuple[str, ...] = ()
    """Other names for the folder and for the real data."""


def _same(*names: str) -> dict[str, str]:
    """Return file name patterns for models whose files are named after them."""
    return {name: plain(name) for name in names}


def plain(name: str) -> str:
    """Reduce a name to lowercase letters and digits, so that names can be compared."""
    return "".join(c for c in name.casefold() if c.isalnum())


DATASETS = {
    dataset.key: dataset
    for dataset in (
        Dataset(
            "ffhq",
            "FFHQ",
            _same("LDM", "StyleGAN-XL")
            | {"Efficient-VDVAE": "(efficient)?vdvae"}
            | _same("InsGen", "StyleNAT"),
            "fashion",
            "dinov2",
            ("ffhq256",),
        ),
        Dataset(
            "lsun-bedroom",
            "LSUN-Bedroom",
            {
                "StyleGAN": "stylegan",
                "Projected-GAN": "projected(style)?gan",
                "iDDPM": "iddpm",
                "Unleashing Transformers": "unleashing(transformers?)?",
            },
            "fashion",
            "dinov2",
            ("lsun", "lsun256", "lsunbedroom", "lsunbedroom256", "bedroom"),
        ),
        Dataset(
            "imagenet",
            "ImageNet",
            {
                "DiT-XL-2-guided": "dit(xl2)?(guided)?",
                "LDM": "ldm",
                "RQ-Transformer": "rq(transformer)?",
                "StyleGAN-XL": "styleganxl",
            },
            "fashion",
            "dinov2",
            ("imagenet256",),
        ),
        Dataset(
            "dogs",
            "Dogs",
            _same("Poodle", "Bulldog", "German Shepherd", "Golden Retriever", "Havanese"),
            "breeds",
            "dinov2",
            ("t2idog", "dogbreeds"),
        ),
        Dataset(
            "birds",
            "Red Birds",
            {
                "Kandinsky": "kandinsky.*",
                "PixArt": "pixart.*",
                "SD3": "(sd3|stablediffusion3).*",
            },
            "boots",
            "dinov2",
            ("redbirds",),
        ),
        Dataset(
            "city",
            "City in the U.S.",
            {"Qwen": "qwen.*", "Gemma": "gemma.*", "Llama": "llama.*"},
            "city",
            "sbert",
            ("cities", "cityintheus"),
        ),
    )
}
"""The datasets of the paper by folder."""

SIGMA = 40.0
"""The bandwidth in the published Mixture-UCB runs on DINOv2; the paper does not state one."""


# -- figures -----------------------------------------------------------------------------------------

FFHQ_BEST_ARM = "StyleGAN-XL"
FFHQ_BEST_ARM_FD = 164.13
FFHQ_MIXTURE_FD = 155.13


# -- tables ------------------------------------------------------------------------------------------

INNOVATION = {
    "dogs": {
        "Bulldog": 0.35,
        "German Shepherd": 0.29,
        "Poodle": 0.26,
        "Havanese": 0.19,
        "Golden Retriever": 0.18,
    },
    "birds": {"SD3": 0.21, "Kandinsky": 0.02, "PixArt": 0.02},
    "city": {"Gemma": 0.02, "Llama": 0.01, "Qwen": 0.01},
    "ffhq": {
        "Efficient-VDVAE": 0.008,
        "InsGen": 0.004,
        "StyleGAN-XL": 0.002,
        "LDM": 0.001,
        "StyleNAT": 0.001,
    },
    "imagenet": {
        "RQ-Transformer": 0.005,
        "StyleGAN-XL": 0.003,
        "LDM": 0.002,
        "DiT-XL-2-guided": 0.001,
    },
    "lsun-bedroom": {
        "Projected-GAN": 0.002,
        "StyleGAN": 0.002,
        "Unleashing Transformers": 0.001,
        "iDDPM": 0.001,
    },
}
"""Innovation gaps δ_i; the table prints no standard deviations."""


@dataclass(frozen=True)
class Interior:
    """A row of the interiority table: mean and standard deviation over 50 subsamples."""

    weight: float
    weight_std: float
    gap: float
    gap_std: float


INTERIORITY = {
    "fd": {
        "ffhq": {
            "LDM": Interior(0.40, 0.02, 12.54, 0.85),
            "StyleGAN-XL": Interior(0.40, 0.02, 14.15, 1.12),
            "StyleNAT": Interior(0.20, 0.02, 8.09, 0.64),
        },
        "imagenet": {
            "DiT-XL-2-guided": Interior(0.48, 0.02, 44.71, 2.45),
            "LDM": Interior(0.21, 0.01, 19.81, 1.30),
            "StyleGAN-XL": Interior(0.19, 0.01, 8.50, 0.72),
            "RQ-Transformer": Interior(0.126, 0.01, 4.15, 0.45),
        },
        "lsun-bedroom": {
            "iDDPM": Interior(0.57, 0.03, 46.71, 2.80),
            "StyleGAN": Interior(0.39, 0.02, 29.91, 1.75),
            "Projected-GAN": Interior(0.04, 0.01, 0.63, 0.12),
        },
    },
    "rke": {
        "dogs": {
            "G1": Interior(0.24, 0.01, 0.042, 0.002),
            "G2": Interior(0.24, 0.01, 0.041, 0.002),
            "G3": Interior(0.18, 0.01, 0.029, 0.002),
            "G4": Interior(0.17, 0.01, 0.026, 0.001),
            "G5": Interior(0.16, 0.01, 0.025, 0.001),
        },
        "birds": {
            "SD3": Interior(0.38, 0.02, 0.048, 0.003),
            "Kandinsky": Interior(0.33, 0.01, 0.042, 0.002),
            "PixArt": Interior(0.29, 0.01, 0.028, 0.002),
        },
        "city": {
            "Gemma": Interior(0.59, 0.02, 0.058, 0.003),
            "Llama": Interior(0.26, 0.01, 0.021, 0.001),
            "Qwen": Interior(0.16, 0.01, 0.005, 0.001),
        },
    },
}
"""Weights and leave-one-out gaps of the active arms, by objective and dataset."""


# -- contradictions ----------------------------------------------------------------------------------

CHOICES = {
    "imagenet": (
        "The caption of the first figure lists five ImageNet models, but the text and both tables list "
        "four; we use those four."
    ),
    "birds": (
        "The text lists SDXL among the bird generators, but both tables list SD3; we use SD3, and a file "
        "named SDXL becomes an arm without a published value."
    ),
    "qwen": (
        "The text and the title of the reference say Qwen 2, but the citation key says Qwen 3; we accept "
        "any file named Qwen."
    ),
    "kid": (
        "What the figures call KID is the paper's KD with a Gaussian kernel of bandwidth σ, not KID's "
        "polynomial kernel; we use the Gaussian kernel."
    ),
    "sigma": (
        "The paper gives no bandwidth outside its ablation (20, 30, 40); we use 40 for DINOv2 features, as "
        "in the published runs of Mixture-UCB, and the median distance for texts and recorded worlds."
    ),
    "sums": (
        "The printed mean weights do not sum to 1 (ImageNet 1.006, Dogs 0.99, City 1.01) because of "
        "rounding; we keep them as printed."
    ),
    "ffhq-gap": (
        "Without LDM, StyleGAN-XL alone is still available, so the FFHQ figure (164.13 and 155.13) allows "
        "a gap of at most 9.00 for LDM, but the table prints 12.54; we keep both as printed."
    ),
    "interior": (
        "The assumption requires every arm to be in the best mixture, but the FFHQ table has three of five "
        "arms and the LSUN-Bedroom table three of four; like the table, we report the leave-one-out gaps of "
        "the active arms, and we also list the inactive ones."
    ),
    "margin": (
        "The assumption defines the margin at some γ_0 > 0, but the table prints leave-one-out gaps "
        "(γ_0 = 0); our table has both."
    ),
    "separation": (
        "The assumption requires ε_0 < ν_0/8, but the table only shows that the gap is positive, which is "
        "weaker; we report both."
    ),
    "spread": (
        "The text promises the mean ± standard deviation over 50 subsamples, but the innovation table "
        "prints only one number; our table has both."
    ),
    "breeds": (
        "The interiority table calls the dog breeds G1 to G5 without saying which is which, so we do not "
        "match them with breeds."
    ),
    "rke-gap": (
        "The RKE gaps have no unit; we interpret them as gaps of the minimized inverse RKE, E k(X, X')²."
    ),
    "start": (
        "The algorithm starts EG from the last weights or from uniform weights, but the text says uniform; "
        "we measure both."
    ),
    "step": (
        "EG runs 1000 steps in every round, but the paper does not print the step size η; we measure a grid "
        "of values."
    ),
    "floor": (
        "The lemma on the smallest weight has exp(−1 − …), but its proof ends without the −1; genmix "
        "diagnose prints both."
    ),
    "sign": (
        "The paper adds w G to the minimized loss, where G is precision or density, which would reduce "
        "fidelity; we subtract it."
    ),
    "kernel": (
        "The paper names no kernel for Vendi outside its ablation, which uses the cosine kernel and random "
        "features of the Gaussian kernel; we use the cosine kernel, which has no parameters."
    ),
    "growth": (
        "The paper solves in every round; we re-solve whenever the number of samples has grown by 1%, a "
        "choice that beyond-growth tests."
    ),
    "convex": (
        "The text calls log-Vendi convex in the weights; it is concave, so we minimize its negative."
    ),
    "labels": (
        "Two figures have the label fig:vendidogs (RKE and KID on ImageNet, and Vendi on the dogs); we "
        "call them fig-rke-kid and fig-dogs."
    ),
}
"""What we do where the paper is unclear or contradicts itself, by topic."""


def choices(*topics: str) -> str:
    """Return the sentences on these topics."""
    return " ".join(CHOICES[topic] for topic in topics)
