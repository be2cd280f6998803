/* An allocator that counts, hands out blocks full of NaN, and refuses the call of a given number, or that and all
   later ones. To be included after gpumc.h. */
#ifndef LEDGER_H
#define LEDGER_H

/* refuse_at 0: none; bytes: held now, most: ever at once */
typedef struct ledger { size_t calls, live, refuse_at; int refuse_later; size_t bytes, most; } ledger;

enum { LEDGER_HEAD = 64 };                             /* before each block, for its size */

static void *ledger_allocate(size_t bytes, void *user)
{
    ledger *l = (ledger *)user;
    size_t *block = NULL;
    l->calls++;
    if ((!l->refuse_at || (l->calls != l->refuse_at && !(l->refuse_later && l->calls > l->refuse_at)))
        && bytes < (size_t)1 << 30)                    /* sanitizers complain aloud about more */
        block = (size_t *)malloc(bytes + LEDGER_HEAD);
    if (!block) return NULL;
    *block = bytes;
    l->live++;
    l->bytes += bytes;
    if (l->bytes > l->most) l->most = l->bytes;
    memset((char *)block + LEDGER_HEAD, 0xff, bytes);
    return (char *)block + LEDGER_HEAD;
}

static void ledger_release(void *block, void *user)
{
    ledger *l = (ledger *)user;
    if (!block) return;
    block = (char *)block - LEDGER_HEAD;
    l->live--;
    l->bytes -= *(size_t *)block;
    free(block);
}

static gpumc_allocator ledger_allocator(ledger *l)
{
    return (gpumc_allocator){ ledger_allocate, ledger_release, l };
}
#endif
