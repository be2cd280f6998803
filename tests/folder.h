/* A folder of the test's own, in memory where that can be had, and names of files in it. */
#ifndef FOLDER_H
#define FOLDER_H
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

static int folder_open(const char *test)
{
    snprintf(folder, sizeof folder, "%s/gpumc_%s_XX" "XX" "XX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", test);
    if (mkdtemp(folder)) return 1;
    printf("no folder %s to write in\n", folder);
    return 0;
}

/* Good until eight more have been asked for. */
static const char *in_folder(const char *name)
{
    static char path[8][700];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}
#endif
