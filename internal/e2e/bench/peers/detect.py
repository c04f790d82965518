"""The bare object detector with openvino, in process: no picture is decoded,
no box is computed.

    detect.py MODELS_DIR

Reads lines {"runs": n} from standard input and answers each with one line of
JSON, the milliseconds of every inference ("ms").
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import openvino as ov

model = ov.Core().compile_model(
    str(Path(sys.argv[1]) / "ssd-mobilenet-v2" / "model.tflite"),
    "CPU",
    {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"},
)
request = model.create_infer_request()
pixels = np.random.default_rng(1).uniform(-1, 1, (1, 300, 300, 3)).astype(np.float32)


def run(n):
    took = []
    for _ in range(n):
        began = time.perf_counter()
        request.infer([pixels])
        took.append((time.perf_counter() - began) * 1000)
    return took


run(10)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    print(json.dumps({"ms": run(json.loads(line)["runs"])}), flush=True)
