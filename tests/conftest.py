"""Settings for the whole suite."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

# Set before numpy, torch and LightGBM are imported, because they read these variables only once. Tests fit
# small models, for which a second thread mostly waits, and `-n 2` already uses two cores. Tests of
# multi-threaded code set the number of threads explicitly.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.fixture
def open_on_phone(tmp_path):
    """Open a page in Chromium at a width of 390 px, with everything unfolded, and measure it.

    Fails if the browser reports an error, or if the page asks the network for something.
    """
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs Chromium")

    def open_on_phone(page):
        page = page.replace("<details>", "<details open>")
        # Windows have a minimum width of 500 px; frames do not.
        frame = tmp_path / "frame.html"
        frame.write_text(
            f'<!doctype html><meta charset="utf-8"><iframe id="page" width="390" height="800" '
            f'srcdoc="{html.escape(page)}"></iframe><pre id="found"></pre><script>onload = () => {{\n'
            "const inside = document.getElementById('page');\n"
            "const root = inside.contentDocument.documentElement;\n"
            "const boxes = [...root.querySelectorAll('.scroll')];\n"
            "document.getElementById('found').textContent = JSON.stringify({\n"
            "page: root.scrollWidth, seen: root.clientWidth,\n"
            "requests: inside.contentWindow.performance.getEntriesByType('resource').length,\n"
            "first: Math.max(...boxes.map(box => box.querySelector('tr').firstElementChild.offsetWidth)),\n"
            "scrolling: boxes.filter(box => box.scrollWidth > box.clientWidth).length});}</script>",
            encoding="utf-8",
        )
        done = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--enable-logging=stderr",
                "--dump-dom",
                frame.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert "CONSOLE" not in done.stderr
        found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', done.stdout).group(1))
        assert found["requests"] == 0
        return found

    return open_on_phone
