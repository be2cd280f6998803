#!/bin/sh
# run.sh one NAME SECONDS PROGRAM   runs a test; shows its closing line and time, and its output if it failed
# run.sh total NAME...              shows the failures again and adds up the closing lines; exits with 1 if a test
#                                   failed or none passed
#
# A closing line is `N passed, N failed`, optionally with `, N skipped`. One failure is added for a test that ends
# without such a line, is killed by a signal, exceeds SECONDS, tries nothing, or exits with an error although its line
# reports no failure.
set -u

closing='^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$'

one() {
    name=$1 seconds=$2 program=$3
    log=build/$name.log
    start=$(date +%s)
    timeout -k 20 "$seconds" "$program" >"$log" 2>&1 </dev/null
    status=$?
    took=$(($(date +%s) - start))
    line=$(tail -n 1 "$log" | grep -E "$closing")
    count=$(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
    trouble=
    if [ $status -ge 124 ] && [ $took -ge "$seconds" ]; then trouble="stopped after $seconds s"
    elif [ $status -gt 128 ]; then trouble="ended by signal $((status - 128))"
    elif [ -z "$line" ]; then trouble="no closing line (exit status $status)"
    elif [ "$status" != 0 ] && [ "$count" = 0 ]; then trouble="exit status $status"
    elif [ "$line" = '0 passed, 0 failed' ]; then trouble='nothing was tried'
    fi
    [ -n "$trouble" ] && line="$(echo "${line:-0 passed, 0 failed}" | awk '{ $3 += 1; print }')"
    {
        [ $status = 0 ] && [ -z "$trouble" ] && grep '^skipped: ' "$log"
        [ $status = 0 ] && [ -z "$trouble" ] || tail -n 60 "$log" | cut -c 1-300 | sed 's/^/    /'
        printf '%-24s %4d s   %s%s\n' "$name" "$took" "$line" "${trouble:+ ($trouble)}"
    } >build/"$name".report
    cat build/"$name".report
    echo "$line" >build/"$name".result
}

total() {
    for name; do
        [ -f build/"$name".result ] || echo "$name was not built" >&2
        grep -qs ' 0 failed' build/"$name".result || cat build/"$name".report >&2 2>/dev/null
        cat build/"$name".result 2>/dev/null || echo '0 passed, 1 failed'
    done | awk '{ passed += $1; failed += $3; skipped += $5 }
        END { printf "%d passed, %d failed", passed, failed
              if (skipped) printf ", %d skipped", skipped
              print ""
              exit failed > 0 || passed == 0 }'
}

action=$1
shift
"$action" "$@"
