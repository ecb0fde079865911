"""Language models and image pipelines of a few thousand weights, of the classes that real ones have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} "
    "{% endfor %}{% if add_generation_prompt %}<assistant> {% endif %}"
)

SENTENCES = [
    "the city by the bay wakes up slowly .",
    "a river runs through the old town ;",
    "write a short sentence about a vibrant city ,",
    "<system> <user> <assistant> you are a poet",
]


def save_language_model(folder: Path, ends: bool = True, chat: bool = True) -> Path:
    """A GPT-2 with two layers and a tokenizer of whole words, with random weights."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = ["<unk>", "<end>"]
    words.train_from_iterator(SENTENCES, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>" if ends else None
    )
    if chat:
        tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=None,
        eos_token_id=1 if ends else None,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def save_unconditional_pipeline(folder: Path) -> Path:
    """A DDPM that makes images of 8 by 8 pixels."""
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=8,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=20)).save_pretrained(folder)
    return folder


def save_text_to_image_pipeline(folder: Path, prudish: bool = False) -> Path:
    """A Stable Diffusion for images of 16 by 16 pixels; a prudish one objects to all of them."""
    from diffusers import (
        AutoencoderKL,
        PNDMScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
    )
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    letters = [*"abcdefghijklmnopqrstuvwxyz", *(f"{c}</w>" for c in "abcdefghijklmnopqrstuvwxyz")]
    vocabulary = {t: i for i, t in enumerate([*letters, "<|startoftext|>", "<|endoftext|>"])}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=16)
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16,
            bos_token_id=vocabulary["<|startoftext|>"],
            eos_token_id=vocabulary["<|endoftext|>"],
            pad_token_id=vocabulary["<|endoftext|>"],
        )
    )
    checker, extractor = _checker_of_all() if prudish else (None, None)
    StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=PNDMScheduler(skip_prk_steps=True, steps_offset=1),  # keeps state between steps
        safety_checker=checker,
        feature_extractor=extractor,
        requires_safety_checker=prudish,
    ).save_pretrained(folder)
    return folder


def _checker_of_all() -> tuple[Any, Any]:
    """A safety checker to which every image is too near to something."""
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    vision = {**small, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
    checker = StableDiffusionSafetyChecker(CLIPConfig(vision_config=vision, projection_dim=8))
    checker.concept_embeds_weights.data.fill_(-2.0)  # no cosine is below
    return checker, CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=16)
