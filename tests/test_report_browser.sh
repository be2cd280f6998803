#!/bin/sh
# The pages of test_report.c as a browser lays them out, light and dark, wide, narrow and printed: every panel is
# present, nothing is wider than the window, texts neither leave their panels nor overlap, and contrast suffices for
# reading. A measuring script is added to copies of the pages. Needs Chromium.
. ./check.sh
for browser in chromium chromium-browser google-chrome none; do have $browser && break; done
[ $browser != none ] || { skip 'no chromium: nobody has looked at the report'; finish; }

check 'the program that writes pages' built build/test_report.test
mkdir "$scratch/kept"
KEEP=$scratch/kept ONLY_PAGES=1 build/test_report.test >"$scratch/said"
check 'the pages are written' test -s "$scratch/kept/plain.html"

cat >"$scratch/measure.html" <<'HTML'
<pre id="measured"></pre><script>
function light(colour) {
    const c = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
}
const found = [], paper = light(getComputedStyle(document.body).backgroundColor);
function contrast(what, colour, least) {
    const l = light(colour), ratio = l > paper ? l / paper : paper / l;
    if (ratio < least) found.push(`contrast of ${what} ${ratio.toFixed(1)}`);
}
contrast('text', getComputedStyle(document.body).color, 9);
for (const p of document.querySelectorAll('p,td,th,li b'))
    contrast(p.tagName, getComputedStyle(p).color, 4.5);
for (let k = 0; k < 8; k++) {
    const line = document.querySelector(`.l.c${k}`);
    if (line) contrast(`line ${k}`, getComputedStyle(line).stroke, 2.6);
}
if (document.documentElement.scrollWidth > innerWidth)
    found.push(`${document.documentElement.scrollWidth} wide in ${innerWidth}`);
const panels = [...document.querySelectorAll('svg')];
for (const svg of panels) {
    const s = svg.getBoundingClientRect(), scale = s.width / svg.viewBox.baseVal.width;
    const title = svg.querySelector('title').textContent;
    if (s.width < 80 || s.height < 60) found.push(`${title}: ${s.width} x ${s.height}`);
    const words = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    words.forEach(([a, r], i) => {
        if (r.left < s.left - 16 * scale || r.right > s.right + 16 * scale || r.bottom > s.bottom + 3)
            found.push(`${title}: "${a}" leaves the panel`);
        for (const [b, q] of words.slice(i + 1))
            if (r.left < q.right && q.left < r.right
                && r.top + 4 * scale < q.bottom && q.top + 4 * scale < r.bottom)
                found.push(`${title}: "${a}" on "${b}"`);
    });
    for (const path of svg.querySelectorAll('path')) {
        const r = path.getBoundingClientRect();
        if (r.width + r.height > 0 && (r.left < s.left - 5 || r.right > s.right + 5))
            found.push(`${title}: a path`);
    }
}
const dark = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
document.getElementById('measured').textContent =
    `MEASURED ${panels.length} panels ${dark} `
    + (found.length ? [...new Set(found)].slice(0, 8).join('; ') : 'good');
</script>
HTML

# browse WIDTH ARGUMENTS...: the headless browser in a window of this width.
browse() {
    width=$1
    shift
    timeout 120 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$scratch/profile" --window-size=$width,1400 "$@" 2>"$scratch/browser"
}

# laid_out PAGE WIDTH SCHEME: the script finds all panels of the page in that colour scheme and reports no fault.
laid_out() {
    sed '$d' "$scratch/kept/$1.html" | cat - "$scratch/measure.html" >"$scratch/measured.html"
    echo '</body></html>' >>"$scratch/measured.html"
    [ $3 = dark ] && scheme=0 || scheme=1
    browse $2 --blink-settings=preferredColorScheme=$scheme --dump-dom "file://$scratch/measured.html" \
        | grep -o 'MEASURED [0-9].*<' | sed 's/<.*//' >"$scratch/result"
    cat "$scratch/result"
    [ "$(cat "$scratch/result")" = "MEASURED $(grep -c '<svg' "$scratch/kept/$1.html") panels $3 good" ]
}

browse 800 --dump-dom about:blank >"$scratch/blank" && grep -q '<html' "$scratch/blank" \
    || { skip "$browser does not start here"; finish; }
for page in plain trouble continuous counts comparison bounds one_chain large markup counts_and_tails; do
    check "$page, light" laid_out $page 1200 light
done
for page in plain trouble comparison; do
    check "$page, dark" laid_out $page 1200 dark
    check "$page, in 800 pixels" laid_out $page 800 light
    check "$page, in 500 pixels" laid_out $page 500 dark
done
sed -i 's/max-width:1078px/width:1500px/' "$scratch/kept/plain.html"
check_fails 'a page that is too wide passes' laid_out plain 1200 light
sed -i 's/font-size:10px/font-size:30px/' "$scratch/kept/trouble.html"
check_fails 'words on words pass' laid_out trouble 1200 light
sed -i 's/--soft:#566272/--soft:#cccccc/' "$scratch/kept/comparison.html"
check_fails 'pale text passes' laid_out comparison 1200 light
printed() {
    browse 1200 --print-to-pdf="$scratch/$1.pdf" "file://$scratch/kept/$1.html" && [ -s "$scratch/$1.pdf" ]
}
check 'it prints' printed continuous
finish
