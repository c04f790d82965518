"""A browser task with Playwright for Python, in a warm browser and a fresh
context: the page is opened, a field is filled, a button clicked, a text read.

    browser.py MODELS_DIR BROWSER

Reads lines {"url": "...", "runs": n} from standard input and answers each with
one line of JSON, the milliseconds of every run ("ms").
"""

import json
import os
import sys
import time

from playwright.sync_api import sync_playwright

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=sys.argv[2],
        headless=True,
        chromium_sandbox=os.getuid() != 0,
        args=["--disable-gpu"],
    )

    def visit(url):
        context = browser.new_context()
        page = context.new_page()
        page.goto(url, wait_until="load")
        page.locator("css=#name").fill("Ada")
        page.locator("css=#greet").click()
        answer = page.locator("css=#answer").inner_text()
        context.close()
        if answer != "Ada has 200 orders":
            sys.exit(f"the page says {answer!r}")

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        took = []
        for _ in range(asked["runs"]):
            began = time.perf_counter()
            visit(asked["url"])
            took.append((time.perf_counter() - began) * 1000)
        print(json.dumps({"ms": took}), flush=True)
    browser.close()
