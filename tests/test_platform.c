/* Processors that a process may use: what its container grants, and that who leaves one keeps the right to it. */
#define _POSIX_C_SOURCE 200809L
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

int main(void)
{
    if (!folder_open("platform")) return 1;
    check_quota();
    check_leaving();
    CHECK(rmdir(folder) == 0, "files are left in %s", folder);
    return check_end();
}
