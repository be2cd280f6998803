#!/bin/sh
# The chains that chains.sh made as one fit: summary, report, table of subjects and figures of the check.
#SBATCH --job-name=stop_signal_merge
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:15:00
set -e
chains=$(ls -d "${OUT:?}"_*.zarr | while read -r store; do
    number=${store#"$OUT"_} number=${number%.zarr}
    case $number in *[!0-9]*) ;; *) echo "$store" ;; esac         # not those of another OUT_NAME
done | paste -s -d , -)
"${PROGRAM:-./stop_signal}" merge fit="$chains" data="${DATA:?}" output="$OUT.zarr" report="$OUT.html" \
    table="${OUT}_subjects.csv" ${READING:-}
"${PROGRAM:-./stop_signal}" check fit="$chains" data="$DATA" page="${OUT}_check.html" ${READING:-}
