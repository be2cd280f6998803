/* Shared by the benchmarks: the header that each prints (machine, compiler, flags, command), clocks, memory and
   medians. */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef BENCH_FLAGS
#define BENCH_FLAGS "unknown (build with make -C bench)"
#endif

/* Processor time, which other programs on the machine disturb less than wall time. */
static __attribute__((unused)) double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static __attribute__((unused)) double bench_wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static __attribute__((unused)) void *bench_memory(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "out of memory\n");
    exit(EXIT_FAILURE);
}

static void bench_header(int argc, char **argv)
{
    char line[256], model[256] = "unknown";
    int cores = 0;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        cores += strncmp(line, "processor", 9) == 0;
        if (value && strncmp(line, "model name", 10) == 0) snprintf(model, sizeof model, "%.200s", value + 2);
    }
    if (f) fclose(f);
    model[strcspn(model, "\n")] = '\0';
    printf("machine   %s, %d cores\ncompiler  %s %s\nflags     %s\ncommand  ", model, cores,
#if defined(__clang__)
           "clang",
#else
           "gcc",
#endif
           __VERSION__, BENCH_FLAGS);
    for (int i = 0; i < argc; i++) printf(" %s", argv[i]);
    printf("\n\n");
}

static int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; sorts the values in place. */
static __attribute__((unused)) double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, bench_compare);
    return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}
#endif
