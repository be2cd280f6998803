/* output.c: how fast results reach the disk, beside fwrite of the same numbers.

   4 chains x 1000 draws x 1000 doubles, in one block and in 1000 blocks, written as a store; the same 32 MB
   by fwrite to as many files as the store has for these draws (4, and 4000). Both bring their files to the
   disk. ratio: time of fwrite by time of the store, both the least of the repeats, which alternate. A store
   has 100 files more, with statistics and metadata: where making a file takes milliseconds, that is what is
   seen. In a folder in memory (folder=/dev/shm) it is the work of the processor.

   Build:  make -C bench       Run:  bench/build/output [folder=PATH] [repeats=N]                    */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "bench.h"

enum { CHAINS = 4, DRAWS = 1000, COLUMNS = 1000 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The same bytes in n_files files, which reach the disk together. */
static double time_fwrite(const gpumc_fit *fit, const char *folder, int n_files)
{
    const size_t n = (size_t)CHAINS * DRAWS * COLUMNS / (size_t)n_files;
    const double begin = seconds();
    char path[600];
    double took;
    for (int k = 0; k < n_files; k++) {
        FILE *file;
        snprintf(path, sizeof path, "%s/bench_output_%d", folder, k);
        file = fopen(path, "wb");
        if (!file || fwrite(fit->draws + (size_t)k * n, sizeof(double), n, file) != n || fclose(file) != 0) {
            perror(path);
            exit(1);
        }
    }
    if (!gpumc__sync_all(folder)) exit(1);
    took = seconds() - begin;
    for (int k = 0; k < n_files; k++) {
        snprintf(path, sizeof path, "%s/bench_output_%d", folder, k);
        remove(path);
    }
    return took;
}

static double time_store(const gpumc_fit *fit, const char *folder)
{
    char path[600], command[700];
    gpumc_error error;
    snprintf(path, sizeof path, "%s/bench_output.zarr", folder);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0) exit(1);
    const double begin = seconds();
    if (gpumc_write_store(fit, path, NULL, &error) != GPUMC_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    const double took = seconds() - begin;
    if (system(command) != 0) exit(1);
    return took;
}

int main(int argc, char **argv)
{
    static gpumc_draw_stats stats[CHAINS * DRAWS];
    static gpumc_block blocks[COLUMNS];
    static char names[COLUMNS][16];
    static size_t length[1] = { COLUMNS };
    static gpumc_block vector[1];
    const char *folder = "build";
    int repeats = 15;
    gpumc_fit fit;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "folder=", 7) == 0) folder = argv[i] + 7;
        else if (strncmp(argv[i], "repeats=", 8) == 0) repeats = atoi(argv[i] + 8);
        else { fprintf(stderr, "usage: %s [folder=PATH] [repeats=N]\n", argv[0]); return 2; }
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
    for (int many = 0; many < 2; many++) {
        double plain = 1e9, store = 1e9;
        fit.blocks = many ? blocks : vector;
        fit.n_blocks = many ? COLUMNS : 1;
        for (int r = 0; r < (many ? (repeats + 4) / 5 : repeats); r++) {
            const double a = time_fwrite(&fit, folder, many ? CHAINS * COLUMNS : CHAINS),
                         b = time_store(&fit, folder);
            plain = a < plain ? a : plain;
            store = b < store ? b : store;
        }
        printf("%-24s %12.4f %12.4f %12.0f %8.2f\n", many ? "1000 blocks of 1" : "one block of 1000", plain,
               store, 32 / store, plain / store);
    }
    free(fit.draws);
    return 0;
}
