#!/bin/sh
# What gpumc.h promises as a text and as a translation unit: layout, names, no global state, and every way of
# including it.
. ./check.sh
header=../gpumc.h
CC=${CC:-cc}
CXX=${CXX:-c++}
plain="-std=c99 -I.. -Wall -Wextra -Wpedantic -Werror"

# ---- the text
# ---------------------------------------------------------------------------------------------------

is_empty() { [ -z "$1" ] || { echo "$1"; return 1; }; }
few_lines() { at_most "$(printf '%s' "$1" | grep -c .)" "$2" || { echo "$1"; return 1; }; }
at_most() { [ "$1" -le "$2" ] || { echo "$1, at most $2"; return 1; }; }

check 'no line is longer than 110 columns' is_empty "$(awk 'length > 110 { print NR }' $header)"
check 'no tabs, trailing blanks or carriage returns' is_empty \
    "$(grep -nE "$(printf '\t|\r| +$')" $header | cut -d: -f1)"
check 'nothing but ASCII' is_empty "$(LC_ALL=C grep -n '[^ -~]' $header | cut -d: -f1)"
check 'no unfinished marks' is_empty \
    "$(grep -niE 'TO''DO|FIX''ME|XX''X|place''holder|not (yet )?implemented' $header)"
check 'no longer than it was (8000 would be better)' at_most "$(wc -l <$header)" 25290
echo "gpumc.h: $(wc -l <$header) lines"

# A bar opens a section: /* =====...===== >>tag. A smaller bar, /* ---- name ---- >>tag, opens a family
# inside one.
bars=$(sed -nE 's|^/\* =+ >>([a-z-]+)( \*/)?$|\1|p' $header)
small=$(sed -nE 's|^/\* -+ .* >>([a-z0-9_-]+)( \*/)?$|\1|p' $header)
contents=$(awk '/^ *CONTENTS/ { on = 1 } on && NF == 0 { exit } on' $header \
           | grep -oE '>>[a-z-]+' | sed 's/>>//')
check 'every tag has one bar only' is_empty "$(printf '%s\n%s\n' "$bars" "$small" | sort | uniq -d)"
check 'the contents list names the bars in their order' test "$contents" = "$bars"
check 'bars are 99 columns wide' is_empty \
    "$(awk '/^\/\* =+ >>/ { sub(/ \*\/$/, ""); if (length != 99) print NR ": " length }' $header)"
known=$(printf '%s\n%s\n' "$bars" "$small" | sort -u)
cited=$(grep -oE '(^|[ (])>>[a-z][a-z0-9_-]*' $header | sed 's/.*>>//' | sort -u)
check 'every tag that is mentioned exists' is_empty "$(printf '%s\n' "$cited" | grep -vxF "$known")"
unset known cited

# Conditional compilation belongs in the platform sections. Elsewhere the C++ frame, the include guard and the
# implementation switch are exempt, and what remains is limited in number.
outside=$(awk '/^\/\* =+ >>/ { tag = $3 }
               /^ *# *if/ && tag !~ /platform$/ && !/__cplusplus|GPUMC_H|_IMPLEMENT/ {
                   print tag ": " $0
               }' $header)
check 'hardly any #if outside platform' few_lines "$outside" 10
check 'at most 3 #if in 100 lines' at_most "$(($(grep -cE '^ *# *if' $header) * 100 / $(wc -l <$header)))" 3

# test_nuts.c varies the constants of the low-rank metric, and must start from those of the library.
constant() { sed -n "s/^#define GPUMC__$1 //p" $header | tr -d '()'; }
check 'test_nuts.c has the constants of the low-rank metric' grep -qF "define SHIPPED { $(constant RIDGE), \
$(constant FINE_RIDGE), $(constant CUTOFF), $(constant DIRECTION), $(constant RESIDUAL) }" test_nuts.c

# ---- names
# ------------------------------------------------------------------------------------------------------

cat >"$scratch/declarations.c" <<'C'
#include "gpumc.h"
C
sed -n '1,/^#endif .*GPUMC_H/s/^\( *#include <.*\)/\1/p' $header | sort -u >"$scratch/system.c"

macros() { $CC -std=c99 -I.. -dM -E "$1" | sed 's/^#define //; s/[( ].*//' | sort; }
macros "$scratch/system.c" >"$scratch/before"
macros "$scratch/declarations.c" >"$scratch/after"
check 'every macro begins with GPUMC' is_empty \
    "$(comm -13 "$scratch/before" "$scratch/after" | grep -v '^GPUMC_')"

# Lines of the preprocessed text that come from gpumc.h itself.
own_text() { $CC -std=c99 -I.. -E "$1" | awk '/^# [0-9]+ "/ { own = /gpumc\.h"/; next } own'; }
own_text "$scratch/declarations.c" >"$scratch/own"
check 'every enumerator begins with GPUMC' is_empty \
    "$(sed 's/"[^"]*"//g' "$scratch/own" | grep -oE '\b[A-Z][A-Z0-9_]{2,}\b' \
       | grep -vE '^(GPUMC_|FILE$)' | sort -u)"
check 'every struct, enum and typedef begins with gpumc' is_empty \
    "$(grep -oE '\b(struct|enum|union) +[A-Za-z_]\w*|\} *[A-Za-z_]\w*;' "$scratch/own" \
       | grep -vE '^\}? *(struct |enum |union )? *gpumc_' | sort -u)"

if $CC -std=c99 -I.. -aux-info "$scratch/prototypes" -fsyntax-only "$scratch/declarations.c" 2>/dev/null; then
    check 'every function of the interface begins with gpumc' is_empty \
        "$(grep 'gpumc\.h:' "$scratch/prototypes" | sed 's/ *(.*//' | grep -oE '\w+$' \
           | grep -v '^gpumc_' | sort -u)"
else
    skip "$CC has no -aux-info"
fi

# ---- symbols
# ----------------------------------------------------------------------------------------------------

cat >"$scratch/main.c" <<'C'
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
#ifdef __cplusplus
extern "C"
#endif
double user_value(void);
int main(void)
{
    gpumc_rng rng = gpumc_rng_at(1, 2, 3, 4);
    double slope = 0;
    return user_value() != gpumc_rng_uniform(&rng) + gpumc_normal_lpdf(1, 0, 1, &slope, NULL, NULL) + slope
        || strcmp(gpumc_status_text(GPUMC_OK), "success") != 0;
}
C
check 'C main, implementation asked for twice' \
    $CC $plain -O0 -fno-pie -c "$scratch/main.c" -o "$scratch/main.o"
nm "$scratch/main.o" | grep -v ' T main$' >"$scratch/symbols"
check 'the public functions are there' test "$(grep -c ' T gpumc_' "$scratch/symbols")" -gt 100
check 'external symbols are the public functions only' is_empty \
    "$(awk 'NF == 3 && $2 ~ /[A-Z]/ && ($3 !~ /^gpumc_[a-zA-Z]/ || $3 ~ /^gpumc__/)' "$scratch/symbols")"
check 'there is no global mutable data' is_empty "$(awk 'NF == 3 && $2 ~ /[BbCDdGgSs]/' "$scratch/symbols")"
shunned=$(printf '%s\n' exit _exit abort assert_fail printf puts putchar stdout stderr perror lgamma lgamma_r \
    signgam rand srand random drand48 time strtok strerror setlocale localeconv signal sigaction atexit \
    system localtime gmtime alloca)
check 'nothing that exits, prints unasked, keeps hidden state or signals' is_empty \
    "$(awk '$1 == "U" { print $2 }' "$scratch/symbols" | sed 's/^__//; s/_chk$//' | grep -xF "$shunned")"
check 'memory comes from one pair of functions' \
    test "$(grep -cE '\b(malloc|calloc|realloc|free)\(' $header)" = 2

# ---- the program in the manual
# ------------------------------------------------------------------------------------

awk '/COMPLETE PROGRAM/ { on = 1; next } on && /^   [A-Z]/ { exit } on' $header >"$scratch/manual.c"
manual_program() {
    grep -q 'int main' "$scratch/manual.c" || return 1
    $CC -std=c99 -I.. -DGPUMC__IMPLEMENTED -Wall -Wextra -Werror "$scratch/manual.c" build/gpumc.o \
        -o "$scratch/manual" -lm -pthread || return 1
    "$scratch/manual" | tee "$scratch/summary"
    grep -q '^ *sigma ' "$scratch/summary"
}
check 'the implementation' built build/gpumc.o
check 'the program in the manual compiles and runs' manual_program

# ---- ways to include it
# -----------------------------------------------------------------------------------------

cat >"$scratch/user.c" <<'C'
#include "gpumc.h"
#include "gpumc.h"
#ifdef __cplusplus
extern "C"
#endif
double user_value(void);
double user_value(void)
{
    gpumc_rng rng = gpumc_rng_at(1, 2, 3, 4);
    double slope = 0;
    return gpumc_rng_uniform(&rng) + gpumc_normal_lpdf(1, 0, 1, &slope, NULL, NULL) + slope;
}
C
cp "$scratch/user.c" "$scratch/user.cc"
cp "$scratch/main.c" "$scratch/main.cc"
sed '/IMPLEMENTATION/d' "$scratch/main.c" >"$scratch/caller.c"
cp "$scratch/caller.c" "$scratch/caller.cc"

# links NAME OBJECT...: a program from objects runs and returns 0
links() { program=$scratch/program; $linker -no-pie "$@" -o "$program" -lm -pthread && "$program"; }
linker=$CC
cc_object() { $CC $plain -O0 -c "$1" -o "$2"; }
static_object() { $CC $plain -O1 -c "$1" -o "$2"; }
cxx_object() { $CXX -std=c++11 -I.. -Wall -Wextra -Werror -O0 -c "$1" -o "$2"; }

check 'C user' cc_object "$scratch/user.c" "$scratch/user.o"
check 'implementation in one C file, declarations in another' links "$scratch/main.o" "$scratch/user.o"
check 'C caller' cc_object "$scratch/caller.c" "$scratch/caller.o"
check 'an implementation file of its own' links "$scratch/caller.o" "$scratch/user.o" build/gpumc.o
if have "$CXX"; then
    linker=$CXX
    check 'C++ user' cxx_object "$scratch/user.cc" "$scratch/user_cc.o"
    check 'C++ main' cxx_object "$scratch/main.cc" "$scratch/main_cc.o"
    check 'implementation in C, user in C++' links "$scratch/main.o" "$scratch/user_cc.o"
    check 'implementation in C++, user in C' links "$scratch/main_cc.o" "$scratch/user.o"
else
    skip "no $CXX: C and C++ mixed"
fi
linker=$CC

# Static mode: each file has its own copy, unused functions cause no warning, nothing is external. Not at -O0, where
# gcc compiles all functions named in tables, used or not, and takes five times as long as with -O1.
for name in user caller; do
    printf '#define GPUMC_STATIC\n#define GPUMC_IMPLEMENTATION\n' | cat - "$scratch/$name.c" \
        >"$scratch/static_$name.c"
    check "static mode: $name" static_object "$scratch/static_$name.c" "$scratch/static_$name.o"
done
check 'static mode in two files' links "$scratch/static_user.o" "$scratch/static_caller.o"
check 'static mode exports nothing' is_empty \
    "$(nm "$scratch/static_user.o" | awk '$2 ~ /[A-TV-Z]/ && $3 ~ /gpumc/')"

mkdir "$scratch/renamed"
cp $header "$scratch/renamed/mc.hpp"
sed 's/gpumc\.h/mc.hpp/' "$scratch/main.c" >"$scratch/renamed/main.c"
check 'a renamed copy' $CC -std=c99 -Wall -Wextra -Werror -fsyntax-only "$scratch/renamed/main.c"

# A system header included before gpumc.h fixes the feature macros: under -std=c99 that hides POSIX names.
for before in '#include <stdio.h>' '#include <time.h>' \
              '#include <unistd.h>\n#include <pthread.h>\n#include <signal.h>' \
              '#define _POSIX_C_SOURCE 200112L' '#define _GNU_SOURCE'; do
    printf "$before\n" | cat - "$scratch/main.c" >"$scratch/after_system.c"
    check "after $(printf "$before" | tr '\n' ' ')" $CC $plain -fsyntax-only "$scratch/after_system.c"
done

# Names that Qt and Windows define as macros.
{
    for word in slots emit near far IN OUT; do echo "#define $word"; done
    printf '#define %s\n' 'signals public' 'foreach for' 'small char' 'hyper int' 'interface struct' 'ERROR 0' \
        'TRUE 1' 'min(a, b) ((a) < (b) ? (a) : (b))' 'max(a, b) ((a) < (b) ? (b) : (a))'
} | cat - "$scratch/main.c" >"$scratch/after_macros.c"
check 'after macros of others' $CC $plain -fsyntax-only "$scratch/after_macros.c"
finish
