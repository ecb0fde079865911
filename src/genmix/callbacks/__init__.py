"""Callbacks that log a running study to TensorBoard, MLflow or Weights & Biases."""

from __future__ import annotations

from genmix.callbacks.base import Logger, flat
from genmix.callbacks.mlflow import MLflow
from genmix.callbacks.tensorboard import TensorBoard
from genmix.callbacks.wandb import WandB

__all__ = ["Logger", "MLflow", "TensorBoard", "WandB", "flat"]
