/* output.c: how fast results reach the disk, compared with fwrite of the same numbers.

   4 chains x 1000 draws x 1000 doubles, in one block or (blocks=1000) in a thousand, are written as a store, and
   the same 32 MB by fwrite to one file. Both are on the disk when the clock stops, and are then dropped from the
   page cache, so that every repeat starts from the same state. The two alternate; times are the least of the
   repeats; ratio: time of fwrite divided by time of the store.

   Files are removed only at the end: whenever a file is created, ext4 without a journal inspects again every
   inode freed in the last minutes, which takes milliseconds after a few thousand removals. For the same reason a
   second run within five minutes shows stores slower than they are.

   Build:  make -C bench       Run:  bench/build/output [folder=PATH] [repeats=N] [blocks=1000] */
#define _POSIX_C_SOURCE 200809L
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "bench.h"

enum { CHAINS = 4, DRAWS = 1000, COLUMNS = 1000 };

/* Drops the pages of a file that is already on the disk from the page cache. */
static void forget(const char *path)
{
    const int file = open(path, O_RDONLY);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) perror(path);
    close(file);
}

static double time_fwrite(const gpumc_fit *fit, const char *path)
{
    const size_t n = (size_t)CHAINS * DRAWS * COLUMNS;
    const double begin = bench_wall_seconds();
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(fit->draws, sizeof(double), n, file) != n || fflush(file) != 0 || !gpumc__sync(file)
        || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    const double took = bench_wall_seconds() - begin;
    forget(path);
    return took;
}

static double time_store(const gpumc_fit *fit, const char *path)
{
    gpumc_error error;
    char file[700];
    const double begin = bench_wall_seconds();
    if (gpumc_write_store(fit, path, NULL, &error) != GPUMC_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    const double took = bench_wall_seconds() - begin;
    for (int c = 0; c < CHAINS && fit->n_blocks == 1; c++) {
        snprintf(file, sizeof file, "%s/posterior/theta/%d.0.0", path, c);
        forget(file);
    }
    return took;
}

int main(int argc, char **argv)
{
    static gpumc_draw_stats stats[CHAINS * DRAWS];
    static gpumc_block blocks[COLUMNS];
    static char names[COLUMNS][16];
    static size_t length[1] = { COLUMNS };
    static gpumc_block vector[1];
    char beside[400];                                    /* the program's own folder */
    const char *folder = beside;
    char work[500], path[600];
    double plain = 1e9, store = 1e9;
    int repeats = 15, many = 0;
    gpumc_fit fit;
    snprintf(beside, sizeof beside, "%s", argv[0]);
    if (strrchr(beside, '/')) *strrchr(beside, '/') = 0;
    else strcpy(beside, ".");
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "folder=", 7) == 0) folder = argv[i] + 7;
        else if (strncmp(argv[i], "repeats=", 8) == 0) repeats = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "blocks=1000") == 0) many = 1;
        else { fprintf(stderr, "usage: %s [folder=PATH] [repeats=N] [blocks=1000]\n", argv[0]); return 2; }
    }
    snprintf(work, sizeof work, "%s/output_XX" "XX" "XX", folder);
    if (repeats < 1 || !mkdtemp(work)) {
        fprintf(stderr, "%s: no folder there, or no repeats\n", folder);
        return 1;
    }
    memset(&fit, 0, sizeof fit);
    fit.model_name = "bench";
    fit.n_chains = CHAINS;
    fit.n_draws = fit.draw_capacity = DRAWS;
    fit.n_columns = fit.n_params_columns = COLUMNS;
    fit.stats = stats;
    fit.draws = (double *)malloc(sizeof(double) * CHAINS * DRAWS * COLUMNS);
    if (!fit.draws) return 1;
    for (size_t i = 0; i < (size_t)CHAINS * DRAWS * COLUMNS; i++) fit.draws[i] = (double)i / 7;
    const gpumc_block theta = { "theta", length, 1, 0, COLUMNS, 0, GPUMC_GENERATED };
    vector[0] = theta;
    for (size_t k = 0; k < COLUMNS; k++) {
        snprintf(names[k], sizeof names[k], "x%d", (int)k);
        const gpumc_block scalar = { names[k], NULL, 0, k, 1, 0, GPUMC_GENERATED };
        blocks[k] = scalar;
    }
    bench_header(argc, argv);
    printf("%-24s %12s %12s %12s %8s\n", "32 MB as", "fwrite s", "store s", "store MB/s", "ratio");
    fit.blocks = many ? blocks : vector;
    fit.n_blocks = many ? COLUMNS : 1;
    for (int r = 0; r < repeats; r++) {
        snprintf(path, sizeof path, "%s/plain_%d", work, r);
        const double a = time_fwrite(&fit, path);
        snprintf(path, sizeof path, "%s/store_%d.zarr", work, r);
        const double b = time_store(&fit, path);
        plain = a < plain ? a : plain;
        store = b < store ? b : store;
    }
    printf("%-24s %12.4f %12.4f %12.0f %8.2f\n", many ? "1000 blocks of 1" : "one block of 1000", plain,
           store, 32 / store, plain / store);
    snprintf(path, sizeof path, "rm -rf '%s'", work);
    if (system(path) != 0) return 1;
    free(fit.draws);
    return 0;
}
