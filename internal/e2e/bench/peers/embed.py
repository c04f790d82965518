"""Sentence embeddings with openvino and tokenizers, in process.

    embed.py MODELS_DIR

Reads lines {"texts": [...], "batch": bool} from standard input and answers each
with one line of JSON: the milliseconds of every text by itself ("ms"), or of
all of them in one inference.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import openvino as ov
from tokenizers import BertWordPieceTokenizer

folder = Path(sys.argv[1]) / "all-minilm-l6-v2"
tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
tokenizer.enable_truncation(max_length=256)
tokenizer.enable_padding()
model = ov.Core().compile_model(
    str(folder / "model.onnx"),
    "CPU",
    {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"},
)
names = [port.any_name for port in model.inputs]
request = model.create_infer_request()


def embed(texts):
    encoded = tokenizer.encode_batch(texts)
    arrays = {
        "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], dtype=np.int64),
        "token_type_ids": np.array([e.type_ids for e in encoded], dtype=np.int64),
    }
    request.infer({name: arrays[name] for name in names})
    hidden = request.get_output_tensor(0).data
    mask = arrays["attention_mask"][:, :, None].astype(np.float32)
    vectors = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


for _ in range(10):
    embed(["to get warm"])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    texts = asked["texts"]
    took = []
    vector = None
    for group in [texts] if asked["batch"] else [[t] for t in texts]:
        began = time.perf_counter()
        vector = embed(group)
        took.append((time.perf_counter() - began) * 1000)
    print(json.dumps({"ms": took, "vector": vector[-1].tolist()}), flush=True)
