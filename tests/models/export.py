#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the model graphs of the tests from PyTorch, by both exporters, and strips their weights.

A developer runs it when a model is added or an exporter changes; tests and CI never do. In a virtual
environment with torch, torchvision, timm, transformers, onnx and onnxscript:
    python tests/models/export.py [NAME...]

Writes tests/models/NAME/model.onnx and NAME/weights.txt, the list from which fill_weights makes
NAME/weights.bin. NAME ends in _script for the TorchScript exporter and in _dynamo for torch.export.
"""

import pathlib
import sys
import tempfile

import onnx
import timm
import torch
import torchvision
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import strip

HERE = pathlib.Path(__file__).parent


class Bert(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, input_ids, attention_mask, token_type_ids):
        out = self.bert(input_ids=input_ids, attention_mask=attention_mask,
                        token_type_ids=token_type_ids)
        return out.last_hidden_state, out.pooler_output


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(config)

    def forward(self, input_ids, attention_mask):
        return self.gpt2(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class MiniLm(nn.Module):
    """all-MiniLM-L6-v2: six layers of BERT, the mean over unmasked tokens, unit length."""

    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask,
                           token_type_ids=token_type_ids).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


MINILM = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
              max_position_embeddings=512)


def images():
    return (torch.zeros(2, 3, 224, 224),)


def tokens(count, length):
    # A tensor of its own for every input: the exporter takes one that comes twice for one input.
    return tuple((torch.zeros if i == 2 else torch.ones)(2, length, dtype=torch.long)
                 for i in range(count))


BATCH = ("batch",)
BOTH = ("batch", "sequence")
TOKEN_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]

# name: (make, example inputs, input names, output names, names of the leading dynamic dimensions)
MODELS = {
    "resnet50": (lambda: torchvision.models.resnet50(weights=None), images(), ["image"],
                 ["scores"], BATCH),
    "mobilenetv2": (lambda: torchvision.models.mobilenet_v2(weights=None), images(), ["image"],
                    ["scores"], BATCH),
    "bert128": (lambda: Bert(BertConfig()), tokens(3, 128), TOKEN_INPUTS, ["hidden", "pooled"],
                BATCH),
    "bert": (lambda: Bert(BertConfig()), tokens(3, 16), TOKEN_INPUTS, ["hidden", "pooled"], BOTH),
    "gpt2": (lambda: Gpt2(GPT2Config()), tokens(2, 16), TOKEN_INPUTS[:2], ["logits"], BOTH),
    "minilm": (lambda: MiniLm(BertConfig(**MINILM)), tokens(3, 16), TOKEN_INPUTS, ["sentence"],
               BOTH),
    "vit": (lambda: timm.create_model("vit_base_patch16_224"), images(), ["image"], ["scores"], BATCH),
    "efficientnetb0": (lambda: torchvision.models.efficientnet_b0(weights=None), images(), ["image"],
                       ["scores"], BATCH),
    "convnexttiny": (lambda: torchvision.models.convnext_tiny(weights=None), images(), ["image"],
                     ["scores"], BATCH),
}
# The TorchScript exporter keeps BatchNormalization for this model, so that the op is tested in a model.
KEEPS_BATCH_NORM = {"mobilenetv2"}
LIMITS = {"batch": 1024, "sequence": 512}


def randomise(model):
    """Gives equal parameters different values: an exporter would merge them, which no trained model
    has. Parameters that are shared by design stay shared."""
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + 0.5)
    return model.eval()


def export_script(base, path):
    make, example, inputs, outputs, dynamic = MODELS[base]
    axes = dict(enumerate(dynamic))
    named = {name: axes for name in inputs}
    named.update({name: {0: "batch"} for name in outputs})
    if "sequence" in dynamic:
        named.update({name: axes for name in outputs if name in ("hidden", "logits")})
    keep = base in KEEPS_BATCH_NORM
    torch.onnx.export(
        randomise(make()), example, path, input_names=inputs, output_names=outputs,
        dynamic_axes=named, opset_version=17, dynamo=False, do_constant_folding=not keep,
        training=torch.onnx.TrainingMode.PRESERVE if keep else torch.onnx.TrainingMode.EVAL)


def export_dynamo(base, path):
    make, example, inputs, outputs, dynamic = MODELS[base]
    dims = {i: torch.export.Dim(name, min=1, max=LIMITS[name]) for i, name in enumerate(dynamic)}
    torch.onnx.export(
        randomise(make()), example, path, input_names=inputs, output_names=outputs,
        dynamic_shapes=tuple(dims for _ in inputs), opset_version=18, dynamo=True,
        external_data=True, verbose=False)


def main():
    torch.manual_seed(1)
    exporters = {"_script": export_script, "_dynamo": export_dynamo}
    wanted = sys.argv[1:] or [base + suffix for base in MODELS for suffix in exporters]
    for name in wanted:
        base, suffix = name[:-7], name[-7:]
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.onnx"
            exporters[suffix](base, path)
            model = onnx.load(path)
        strip.remove_notes(model)
        manifest = strip.remove_weights(model)
        out = HERE / name
        out.mkdir(exist_ok=True)
        (out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        (out / "weights.txt").write_text(manifest)
        print(name, (out / "model.onnx").stat().st_size, "bytes", len(model.graph.node), "nodes",
              flush=True)


if __name__ == "__main__":
    main()
