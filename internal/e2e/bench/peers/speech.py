"""Neural speech with piper-tts, in process and warm.

    speech.py MODELS_DIR

Reads lines {"text": "...", "runs": n} from standard input and answers each with
one line of JSON: the milliseconds of every run ("ms") and how long the speech
is ("audio_ms").
"""

import json
import sys
import time
from pathlib import Path

from piper import PiperVoice

folder = Path(sys.argv[1]) / "en-us-joe-medium"
voice = PiperVoice.load(str(folder / "model.onnx"), config_path=str(folder / "voice.json"))


def speak(text):
    samples = sum(len(chunk.audio_int16_bytes) // 2 for chunk in voice.synthesize(text))
    return 1000 * samples / voice.config.sample_rate


speak("To get warm.")
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    took, audio = [], 0.0
    for _ in range(asked["runs"]):
        began = time.perf_counter()
        audio = speak(asked["text"])
        took.append((time.perf_counter() - began) * 1000)
    print(json.dumps({"ms": took, "audio_ms": audio}), flush=True)
