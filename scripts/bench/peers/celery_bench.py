"""Celery as worker and producer for the queue benchmark.

  celery -A celery_bench worker             the worker; BENCH_PORT, BENCH_SLEEP
  python celery_bench.py fill TASKS PAYLOAD
  python celery_bench.py submit TASKS PAYLOAD   prints tasks per second

Results go to a database of their own, so that its size tells how many there are.
"""

import os
import sys
import time

from celery import Celery

port = os.environ["BENCH_PORT"]
pause = float(os.environ.get("BENCH_SLEEP", "0"))
app = Celery("bench", broker=f"redis://127.0.0.1:{port}/0", backend=f"redis://127.0.0.1:{port}/1")
app.conf.update(
    task_acks_late=True,  # a task is not lost with its worker, as with the others
    worker_prefetch_multiplier=4,
    result_expires=86400,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench")
def bench(pad):
    if pause:
        time.sleep(pause)
    return {"ok": True}


def submit(tasks, size):
    pad = "x" * max(size - 10, 0)
    bench.apply_async(kwargs={"pad": pad})  # connects
    began = time.monotonic()
    for _ in range(tasks - 1):
        bench.apply_async(kwargs={"pad": pad})
    return (tasks - 1) / (time.monotonic() - began)


if __name__ == "__main__":
    rate = submit(int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[1] == "submit":
        print(rate)
