"""Regenerates the pictures in the README: session.svg, report-light.png and report-dark.png.

Needs Linux, Python 3.11, `apt-get install chromium-headless-shell pngquant`, and `cargo build --release --workspace`. All
output in the pictures is real. The recording shows at most 1.5 seconds of each wait.
"""

import html, os, pathlib, subprocess, tempfile, time

HERE, ROOT = pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
SESSION = [
    "cat passes.toml",
    "passhost run tests/models/squeezenet.py -o out.py",
    "passhost bisect tests/models/squeezenet.py --until differs",
    "passhost run tests/models/squeezenet.py -o out.py --disable wrong.Bias --report page.html",
]
WIDTH, LINE, MARGIN = 8.4, 19, 14  # width of a character and height of a line, in pixels
STYLE = """text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d1d7e0;
white-space: pre; } .typed { fill: #ffffff; font-weight: 600; } .back { fill: #151b23; } .cover { opacity: 0; }"""
# The picture shows the changes that the last pass made in `main`.
CLICKS = """[...document.querySelectorAll("nav button")].find(it => it.textContent === "Passes").click();
const open = () => { [...document.querySelectorAll("details")].at(-1).open = true; }; open(); setTimeout(open, 100);"""


def run(command, folder):
    """Runs a command, which must succeed. Returns the lines of its output, and the seconds it took."""
    start, command = time.monotonic(), f"PATH='{TARGET}/release':$PATH; {command} 2>&1"
    done = subprocess.run(command, shell=True, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines(), time.monotonic() - start


def recording(folder):
    """Returns the session as an animated SVG. Without animation, it shows the end."""
    body, keyframes = '<rect width="100%" height="100%" rx="8" class="back"/>\n', []
    now, y, columns = 0.5, MARGIN + LINE // 2, 0
    def text(line, kind="", x=0.0):
        at = f'x="{MARGIN + x * WIDTH:.1f}" y="{y + 5}" textLength="{len(line) * WIDTH:.1f}"'
        return f'<text {at} class="{kind}">{html.escape(line, quote=False)}</text>' if line else ""
    for i, command in enumerate(SESSION):
        lines, seconds = run(command, folder)
        n, columns = len(command), max([columns, len(command) + 2, *map(len, lines)])
        # A rectangle of the colour of the background covers the command, and moves away while it is typed.
        cover = f'<rect id="c{i}" x="{MARGIN + 2 * WIDTH:.1f}" y="{y - 10}" width="100%" height="{LINE}" class="back cover"/>'
        body += f'<g id="p{i}">{text("$")}{text(command, "typed", 2)}{cover}</g>\n<g id="o{i}">'
        typed, shown = now + 0.4 + 0.03 * n, now + 0.4 + 0.03 * n + min(seconds, 1.5)
        keyframes += [(f"p{i}", now, now, 0), (f"c{i}", now + 0.4, typed, n), (f"o{i}", shown, shown, 0)]
        for line in lines:
            y += LINE
            body += text(line)
        body, y, now = body + "</g>\n", y + LINE * 3 // 2, shown + 0.8 + 0.1 * len(lines)
    css, total = "", now + 3
    for name, start, end, n in keyframes:
        start, end, far = f"{100 * start / total:.2f}%", f"{100 * end / total:.2f}%", f"translateX({n * WIDTH:.1f}px)"
        frames = f"0% {{ opacity: 0; }} {end}, 100% {{ opacity: 1; }}"
        if n:
            frames = f"0%, {start} {{ opacity: 1; transform: none; }} {end}, 100% {{ opacity: 1; transform: {far}; }}"
        css += f"#{name} {{ animation: {name} {total:.1f}s steps({n or 1}) infinite; }} @keyframes {name} {{ {frames} }}\n"
    style = f"<style>{STYLE}\n@media (prefers-reduced-motion: no-preference) {{\n{css}}}</style>"
    w, h = round(2 * MARGIN + columns * WIDTH), y - LINE + MARGIN // 2
    size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{style}\n{body}</svg>\n'


def report(folder):
    """Takes a picture of the report page in each colour scheme."""
    run(f"passhost run tests/models/vgg19.py -o out.py --manifest '{ROOT}/passes.toml' --report page.html", folder)
    page = folder / "page.html"
    page.write_text(page.read_text().replace("</body>", f"<script>{CLICKS}</script></body>"))
    chromium = "chromium-headless-shell --no-sandbox --hide-scrollbars --virtual-time-budget=2000 --window-size=960,895"
    chromium += " --force-device-scale-factor=2"
    for scheme, name in enumerate(["dark", "light"]):
        run(f"{chromium} --blink-settings=preferredColorScheme={scheme} --screenshot page.html", folder)
        run(f"pngquant --strip --speed 1 --force --output '{HERE}/report-{name}.png' 64 screenshot.png", folder)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    run(f"cp '{HERE}/passes.toml' .; ln -s '{TARGET}' target; ln -s '{ROOT}/tests' tests", folder)
    (HERE / "session.svg").write_text(recording(folder))
    report(folder)
