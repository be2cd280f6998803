/* Processors that a process may use: what its container grants, and that who leaves one keeps the right to it; memory
   in large pages. */
#define _DEFAULT_SOURCE
#define GPUMC_IMPLEMENTATION
#include "check.h"
#include "../gpumc.h"
#include "folder.h"
#include <string.h>

static void check_quota(void)
{
    const struct { const char *text; long cores; } files[] = {
        { "max 100000\n", 0 }, { "200000 100000\n", 2 }, { "200001 100000\n", 3 }, { "50000 100000\n", 1 },
        { "-1 100000\n", 0 }, { "200000 0\n", 0 }, { "200000", 0 }, { "", 0 },
    };
    const char *path = in_folder("cpu.max");
    CHECK(gpumc__quota(path) == 0, "no file");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(path, "w");
        CHECK(file && fputs(files[i].text, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
        CHECK(gpumc__quota(path) == files[i].cores, "%s: %ld", files[i].text, gpumc__quota(path));
    }
    CHECK(remove(path) == 0, "%s is left", path);
}

static void check_leaving(void)
{
    gpumc__cpus before, after;
    const int n = gpumc__allowed(&before);
    gpumc__leave_processor(gpumc__processor());
    CHECK(gpumc__allowed(&after) == n && memcmp(&before, &after, sizeof before) == 0, "%d before", n);
}

/* What is asked for holds the bytes from where they begin, at a cache line or, when many, at a large page. */
static void check_room(void)
{
    const size_t page = GPUMC__LARGE_PAGE == SIZE_MAX ? 1 << 21 : GPUMC__LARGE_PAGE;
    const size_t sizes[] = { 0, 1, 64, page / 2 - 1, page / 2, page - 1, page, page + 1, 3 * page };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t off = 0; off <= 64; off += 16) {
            const size_t n = sizes[i], room = gpumc__paged_size(n), line = n < page / 2 ? 64 : GPUMC__LARGE_PAGE;
            char *block = (char *)malloc(room + off), *at = block ? gpumc__paged_start(block + off, n) : NULL;
            CHECK(at && at >= block + off && n <= room - (size_t)(at - block - (ptrdiff_t)off), "%zu", n);
            CHECK((uintptr_t)at % (GPUMC__LARGE_PAGE == SIZE_MAX ? 64 : line) == 0, "%zu: %p", n, (void *)at);
            if (at) memset(at, 1, n);
            free(block);
        }
    CHECK(gpumc__round_up(SIZE_MAX, 64) == SIZE_MAX && gpumc__round_up(SIZE_MAX - 64, 64) == SIZE_MAX - 63,
          "rounding up what overflowed");
    CHECK(gpumc__paged_size(SIZE_MAX) == SIZE_MAX && gpumc__paged_size(SIZE_MAX - 65) >= SIZE_MAX - 1
              && gpumc__paged_size(SIZE_MAX / 2) >= SIZE_MAX / 2 && !gpumc__paged_start(NULL, page), "no room");
}

#if defined(__linux__)
#include <sys/mman.h>
/* Whether large pages have been asked for at p: the mapping that holds it has the flag hg. */
static int has_large_pages(const void *p)
{
    char line[512];
    int is_there = 0, has = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) is_there = from <= (uintptr_t)p && (uintptr_t)p < to;
        else if (is_there && strncmp(line, "VmFlags:", 8) == 0) has = strstr(line, " hg") != NULL;
    }
    if (maps) fclose(maps);
    return has;
}

/* Memory in a mapping of its own, its size kept in its first bytes: in the heap large pages may have been asked for
   by whoever had it before. */
static void *map_block(size_t bytes, void *user)
{
    char *block = (char *)mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)user;
    if (block == (char *)MAP_FAILED) return NULL;
    *(size_t *)(void *)block = bytes + 64;
    return block + 64;
}
static void unmap_block(void *block, void *user)
{
    char *mapping = (char *)block - 64;
    (void)user;
    CHECK(munmap(mapping, *(size_t *)(void *)mapping) == 0, "cannot unmap");
}

static double normal_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 200; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    return lp;
}

/* Large pages hold the draws of a long run and not those of a short one; where the system tells of such pages. */
static void check_large_pages(void)
{
    static const gpumc_param x = { .name = "x", .size = 200 };
    const gpumc_model m = { .params = &x, .n_params = 1, .log_density = normal_density };
    const size_t page = (size_t)1 << 21;
    const gpumc_allocator mapped = { map_block, unmap_block, NULL };
    char *own = (char *)map_block(2 * page, NULL), *whole = own ? own + (page - (uintptr_t)own % page) % page : NULL;
    const int told = whole && madvise(whole, page, 14) == 0 && has_large_pages(whole);
    if (!told) printf("skipped: this system does not tell of large pages\n");
    for (int is_long = 0; told && is_long < 2; is_long++) {
        const gpumc_sample_options o = { .num_chains = 1, .num_warmup = 50, .num_samples = is_long ? 4000 : 100,
                                          .allocator = mapped };
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(has_large_pages(fit.draws) == is_long, "%d draws", fit.options.num_samples);
        gpumc_free(&fit);
    }
    if (own) unmap_block(own, NULL);
}
#else
static void check_large_pages(void) { printf("skipped: large pages are asked for on Linux alone\n"); }
#endif

/* The environment names the set that AUTO stands for, or none that there is; it does not change one that is asked
   for. */
static void check_isa_named(void)
{
    static const char *const names[] = { "baseline", "avx2", "avx512", "sse9" };
    const char *shown;
    const gpumc_isa best = gpumc_isa_resolve(GPUMC_ISA_AVX512);
    for (int i = 0; i < 4; i++) {
        const gpumc_isa named = (gpumc_isa)(GPUMC_ISA_BASELINE + i), wanted = i == 3 || named > best ? best : named;
        CHECK(setenv("GPUMC_ISA", names[i], 1) == 0, "no environment");
        CHECK(gpumc_isa_resolve(GPUMC_ISA_AUTO) == wanted, "%s stands for %d, not %d", names[i],
              (int)gpumc_isa_resolve(GPUMC_ISA_AUTO), (int)wanted);
        CHECK(gpumc_isa_resolve(best) == best, "%s changes what is asked for", names[i]);
    }
    for (int i = GPUMC_ISA_BASELINE; i <= (int)best; i++) {
        shown = gpumc_isa_name((gpumc_isa)i);
        CHECK(setenv("GPUMC_ISA", shown, 1) == 0 && gpumc_isa_name(GPUMC_ISA_AUTO) == shown, "%s stands for %s", shown,
              gpumc_isa_name(GPUMC_ISA_AUTO));
    }
    unsetenv("GPUMC_ISA");
    CHECK(gpumc_isa_resolve(GPUMC_ISA_AUTO) == best, "none named");
}

static void *some_memory(size_t bytes, void *user) { (void)user; return malloc(bytes); }
/* What one could take but not give back is not taken. */
static void check_half_allocator(void)
{
    const gpumc_allocator half = { .allocate = some_memory };
    gpumc_team *team = gpumc_team_start(1, &half);
    CHECK(!team, "memory comes from an allocator that takes none back");
    if (team) free(team);
}

int main(void)
{
    if (!folder_open("platform")) return 1;
    check_half_allocator();
    check_isa_named();
    check_room();
    check_large_pages();
    check_quota();
    check_leaving();
    CHECK(rmdir(folder) == 0, "files are left in %s", folder);
    return check_end();
}
