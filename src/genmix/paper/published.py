"""What the paper prints: its datasets, its numbers, and where it contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dataset:
    """A dataset of the paper."""

    key: str
    """The folder of its feature files."""
    title: str
    models: dict[str, str]
    """Name in the paper → pattern of file names, in lowercase letters and digits only."""
    stands_in: str
    """The recorded world that replaces missing feature files."""
    encoder: str
    """The encoder of the paper's experiments."""
    aliases: tuple[str, ...] = ()
    """Other names for the folder and for the real data."""


def _same(*names: str) -> dict[str, str]:
    """Models whose files have their names."""
    return {name: plain(name) for name in names}


def plain(name: str) -> str:
    """The lowercase letters and digits of a name, which names are compared by."""
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
"""The bandwidth of the published Mixture-UCB runs on DINOv2; the paper itself gives none."""


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
        "The first figure's caption lists five ImageNet models, the text and both tables four; the four "
        "are used."
    ),
    "birds": (
        "The text lists SDXL among the bird generators, both tables list SD3; SD3 is used, and a file named "
        "SDXL becomes an arm without a published value."
    ),
    "qwen": (
        "The text and the title of the reference say Qwen 2, the citation key says Qwen 3; any file named "
        "Qwen is accepted."
    ),
    "kid": (
        "What the figures call KID is the paper's KD with a Gaussian kernel of bandwidth σ, not KID's "
        "polynomial kernel; the Gaussian kernel is used."
    ),
    "sigma": (
        "The paper gives no bandwidth outside its ablation (20, 30, 40); DINOv2 features use 40, as in the "
        "published runs of Mixture-UCB, and texts and recorded worlds use the median distance."
    ),
    "sums": (
        "The printed mean weights do not sum to 1 (ImageNet 1.006, Dogs 0.99, City 1.01) because of "
        "rounding; they are kept as printed."
    ),
    "ffhq-gap": (
        "Without LDM, StyleGAN-XL alone is still available, so FFHQ's figure (164.13 and 155.13) allows a "
        "gap of at most 9.00 for LDM, but the table prints 12.54; both are kept as printed."
    ),
    "interior": (
        "The assumption requires every arm in the optimum, but the FFHQ table has three of five arms and the "
        "LSUN-Bedroom table three of four; like the table, we report leave-one-out gaps of the active arms, "
        "and list the inactive ones."
    ),
    "margin": (
        "The assumption's margin is at some γ_0 > 0, but the table's gaps are leave-one-out (γ_0 = 0); our "
        "table has both."
    ),
    "separation": (
        "The assumption requires ε_0 < ν_0/8, but the table only shows that the gap is positive, which is "
        "weaker; we print both."
    ),
    "spread": (
        "The text promises mean ± standard deviation over 50 subsamples, but the innovation table prints one "
        "number; ours has both."
    ),
    "breeds": (
        "The interiority table calls the dog breeds G1 to G5 without saying which is which; they are not "
        "matched with breeds."
    ),
    "rke-gap": (
        "The RKE gaps have no unit; we take them as gaps of the minimized inverse RKE, E k(X, X')²."
    ),
    "start": (
        "The algorithm starts EG from the last weights or from uniform ones, and the text says uniform; both "
        "are measured."
    ),
    "step": (
        "EG runs 1000 steps in every round with a step size η that is not printed; a grid of η is measured."
    ),
    "floor": (
        "The lemma on the least weight has exp(−1 − …), but its proof ends without the −1; genmix diagnose "
        "prints both."
    ),
    "sign": (
        "Fidelity enters the minimized loss as + w G, with G precision or density, which would make it "
        "worse; here it is subtracted."
    ),
    "kernel": (
        "The paper names no kernel for Vendi outside its ablation, which has the cosine kernel and random "
        "features of the Gaussian kernel; we use the cosine kernel, which has no parameters."
    ),
    "growth": (
        "The paper solves in every round; here the weights are solved for again after the samples have grown "
        "by 1%, a choice that beyond-growth tests."
    ),
    "convex": (
        "The text calls log-Vendi convex in the weights; it is concave, and its negative is minimized."
    ),
    "labels": (
        "Two figures have the label fig:vendidogs (RKE and KID on ImageNet, and the dogs); here they are "
        "fig-rke-kid and fig-dogs."
    ),
}
"""By topic: what we do where the paper contradicts itself or says too little."""


def choices(*topics: str) -> str:
    """The sentences on these topics."""
    return " ".join(CHOICES[topic] for topic in topics)
