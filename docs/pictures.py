"""Draws the pictures of docs/guides/look-inside.md: runs the page's commands, and photographs the page of attention.

make pictures    # needs Chromium
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
PICTURES = {"attention.html": "attention.png", "head.png": "head.png", "fair.png": "fair.png"}  # written -> shown
COLOURS = 256  # of a picture: its file is small then

page = (DOCS / "guides" / "look-inside.md").read_text("utf-8")
with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
    os.chdir(folder)
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if any(name in block for name in PICTURES):
            subprocess.run(["bash", "-euc", block], check=True)
    browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for written, shown in PICTURES.items():
        if written.endswith(".html"):
            tab = browser.new_page(viewport={"width": 900, "height": 620})
            tab.goto(Path(written).resolve().as_uri())
            tab.locator("#from button", has_text="it").hover()
            tab.wait_for_timeout(500)
            tab.screenshot(path=shown)
        Image.open(shown).convert("RGB").quantize(COLOURS).save(DOCS / "figures" / shown, optimize=True)
