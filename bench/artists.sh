#!/bin/sh
# The artist benchmark: examples/artists.c in the settings quick (2 chains x (200 + 200)), standard (4 x (500 + 500))
# or publication (4 x (1000 + 1000)), target acceptance 0.9, several runs with seeds 1, 2, ...; JSON on the standard
# output. `default`: 4 chains with 1000 draws each and the library's own length of warm-up.
#     sh bench/artists.sh [quick|standard|publication|default] [model|noise] [RUNS]
set -eu
cd "$(dirname "$0")/.."
config=${1:-standard} kind=${2:-model} runs=${3:-3} CC=${CC:-cc}
case $config in
quick)       set -- num_chains=2 num_warmup=200 num_samples=200 ;;
standard)    set -- num_chains=4 num_warmup=500 num_samples=500 ;;
publication) set -- num_chains=4 num_warmup=1000 num_samples=1000 ;;
default)     set -- num_chains=4 num_samples=1000 ;;
*) echo "unknown setting $config: quick, standard, publication or default" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
$CC -O2 examples/artists.c -o "$folder/artists" -lm -pthread
$CC -O2 examples/verify.c -o "$folder/verify" -lm -pthread
isa=$("$folder/verify" | sed -n 's/^ *instruction set *//p')
gpu=$("$folder/verify" | sed -n 's/^ *GPU *//p' | head -n 1)
for seed in $(seq 1 "$runs"); do
    "$folder/artists" "$@" kind="$kind" target_accept=0.9 seed="$seed" summary="$folder/summary" >"$folder/out"
    line=$(tail -n 1 "$folder/out")
    awk -F, -v seed="$seed" -v line="$line" '
        NR == 1 { for (i = 1; i <= NF; i++) from_end[$i] = NF - i; next }     # names hold commas
        { b = $(NF - from_end["ess_bulk"]); t = $(NF - from_end["ess_tail"]); r = $(NF - from_end["r_hat"])
          if (NR == 2 || b < bulk) bulk = b
          if (NR == 2 || t < tail) tail = t
          if (NR == 2 || r > worst) worst = r }
        END { n = split(line, w, " ")
              for (i = 1; i <= n; i++) { split(w[i], v, "="); said[v[1]] = v[2] }
              time = said["warmup_s"] + said["sampling_s"]; ess = bulk < tail ? bulk : tail
              printf "{\"seed\": %d, \"runtime_s\": %.4f, \"min_ess_bulk\": %.1f, \"min_ess_tail\": %.1f, ", seed, time, bulk, tail
              printf "\"max_r_hat\": %.4f, \"ess_per_s\": %.1f, \"gradients\": %d, \"divergences\": %d}\n",
                     worst, ess / time, said["gradients"], said["divergences"] }' "$folder/summary" >>"$folder/runs"
done
median() { sed "s/.*\"$1\": \([0-9.]*\).*/\1/" "$folder/runs" | sort -n | sed -n "$(((runs + 1) / 2))p"; }
cat <<END
{
  "benchmark": "artists", "data": "$kind", "config": "$config", "settings": "$* target_accept=0.9",
  "gpu": "$gpu", "memory": "$(awk '/MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)",
  "backend": "CPU, $(getconf _NPROCESSORS_ONLN) threads, $isa", "compiler": "$($CC --version | head -n 1)",
  "timestamp": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "runtime_s": $(median runtime_s), "min_ess_bulk": $(median min_ess_bulk), "min_ess_tail": $(median min_ess_tail),
  "ess_per_s": $(median ess_per_s), "divergences": $(median divergences),
  "runs": [
$(sed '$!s/$/,/; s/^/    /' "$folder/runs")
  ]
}
END
