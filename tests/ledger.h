/* An allocator that counts, and refuses the call of a given number, or that and all later ones. To be included
   after gpumc.h. */
#ifndef LEDGER_H
#define LEDGER_H

typedef struct ledger { size_t calls, live, refuse_at; int refuse_later; } ledger;   /* refuse_at 0: none */

static void *ledger_allocate(size_t bytes, void *user)
{
    ledger *l = (ledger *)user;
    void *block = NULL;
    l->calls++;
    if ((!l->refuse_at || (l->calls != l->refuse_at && !(l->refuse_later && l->calls > l->refuse_at)))
        && bytes < (size_t)1 << 30)                    /* sanitizers complain aloud about more */
        block = malloc(bytes);
    l->live += block != NULL;
    return block;
}

static void ledger_release(void *block, void *user)
{
    ((ledger *)user)->live -= block != NULL;
    free(block);
}

static gpumc_allocator ledger_allocator(ledger *l)
{
    return (gpumc_allocator){ ledger_allocate, ledger_release, l };
}
#endif
