/* The whole test framework: CHECK counts and reports, check_end prints the closing line and returns the exit
   status. A test program is: #include "check.h", int main(void) { CHECK(...); return check_end(); } */
#ifndef CHECK_H
#define CHECK_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_passed, check_failed, check_skipped;

/* CHECK(condition, "what was seen %g", x): prints the text only when the condition fails. */
#define CHECK(condition, ...) \
    do { \
        if (condition) check_passed++; \
        else { \
            check_failed++; \
            printf("%s:%d: failed: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__); \
            printf("\n"); \
        } \
    } while (0)

/* Reports and counts what could not be tested here. */
static __attribute__((unused)) void check_skip(const char *what)
{
    check_skipped++;
    printf("skipped: %s\n", what);
}

static int check_end(void)
{
    printf("%d passed, %d failed", check_passed, check_failed);
    if (check_skipped) printf(", %d skipped", check_skipped);
    printf("\n");
    return check_failed != 0;
}

/* The larger of both, or NaN if either is NaN, which fmax would drop. */
static __attribute__((unused)) double check_worst(double worst, double x)
{ return x > worst || isnan(x) ? x : worst; }

/* |a - b| / max(|b|, floor_value); 0 if both are NaN or the same infinity, and infinite if only one is, or they are
   infinities of different sign. */
static __attribute__((unused)) double check_distance(double a, double b, double floor_value)
{
    if (a == b || (isnan(a) && isnan(b))) return 0;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return INFINITY;
    return fabs(a - b) / fmax(fabs(b), floor_value);
}
#endif
