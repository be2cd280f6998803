/* The HTML report. Every page is read by a strict reader, which requires balanced tags, panels that contain all
   their points and whose labels do not overlap, and no references to outside resources. Checked are fits of every
   odd kind, refused allocations and writes, and, by simulation, the coverage of bands and the densities. Damaged
   pages must be rejected. KEEP=FOLDER in the environment leaves the pages there; with ONLY_PAGES nothing else is
   done (test_report_browser.sh). QUICK omits the largest pages and the simulations, which take minutes under
   sanitizers and run no other code (test_sanitize.sh). */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

/* ---- a system that refuses, and one whose decimal sign is a comma -------------------------------------- */

static size_t io_calls, io_refuse_at;
static int decimal_comma;

static int io_refused(void)
{
    if (++io_calls != io_refuse_at) return 0;
    errno = ENOSPC;
    return 1;
}
static FILE *fopen_or_not(const char *path, const char *mode)
{
    return io_refused() ? NULL : fopen(path, mode);
}
static int fflush_or_not(FILE *file) { return io_refused() ? EOF : fflush(file); }
static int fsync_or_not(int file) { (void)file; return io_refused() ? -1 : 0; }
static int rename_or_not(const char *from, const char *to) { return io_refused() ? -1 : rename(from, to); }
static int fclose_or_not(FILE *file)
{
    const int no = io_refused(), result = fclose(file);
    return no ? EOF : result;
}
static int vfprintf_or_not(FILE *file, const char *format, va_list arguments)
{
    return io_refused() ? -1 : vfprintf(file, format, arguments);
}
static int snprintf_comma(char *text, size_t room, const char *format, ...)
{
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(text, room, format, arguments);
    va_end(arguments);
    if (decimal_comma && strncmp(format, "%.*", 3) == 0 && format[3] != 's' && strchr(text, '.'))
        *strchr(text, '.') = ',';
    return n;
}

#define fopen fopen_or_not
#define fflush fflush_or_not
#define fsync fsync_or_not
#define rename rename_or_not
#define fclose fclose_or_not
#define vfprintf vfprintf_or_not
#define snprintf snprintf_comma
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#undef fopen
#undef fflush
#undef fsync
#undef rename
#undef fclose
#undef vfprintf
#undef snprintf

#include "ledger.h"
#include "folder.h"

static ledger memory;                    /* of all fits */

/* ---- a reader of pages --------------------------------------------------------------------------------- */

typedef struct page {
    size_t bytes, panels, points, rows, open_rows;
    char said[200];
} page;

static int wrong(page *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!p->said[0]) vsnprintf(p->said, sizeof p->said, format, arguments);
    va_end(arguments);
    return 0;
}

/* The value of an attribute of a tag, or NULL. */
static const char *attribute(const char *tag, const char *name, char *value, size_t room)
{
    char start[20];
    const char *at;
    size_t n = 0;
    snprintf(start, sizeof start, " %s=\"", name);
    at = strstr(tag, start);
    if (!at || at > strchr(tag, '>')) return NULL;
    for (at += strlen(start); *at && *at != '"' && n + 1 < room; at++) value[n++] = *at;
    value[n] = 0;
    return value;
}

static int number(const char **at, double *value)
{
    const char *start = *at + strspn(*at, " "), *c = start + (*start == '-');
    if (!isdigit((unsigned char)*c) && *c != '.') return 0;
    *value = strtod(start, NULL);
    while (isdigit((unsigned char)*c) || *c == '.') c++;
    *at = c;
    return 1;
}

/* Reads a path of commands M, l, h and z; every point must lie in a panel of this size. */
static int read_path(page *p, const char *at, double width, double height)
{
    double x = 0, y = 0, dx, dy;
    char command = 0;
    while (*at && *at != '"') {
        if (strchr("Mlhz", *at)) command = *at++;
        if (command == 'z') continue;
        if (!command || !number(&at, &dx)) return wrong(p, "path: %.20s", at);
        if (command == 'h') { x += dx; continue; }
        if (!number(&at, &dy)) return wrong(p, "path: %.20s", at);
        x = command == 'M' ? dx : x + dx;
        y = command == 'M' ? dy : y + dy;
        p->points++;
        if (x < -0.01 || x > width + 0.01 || y < -0.01 || y > height + 0.01)
            return wrong(p, "a point at %g %g of %g x %g", x, y, width, height);
    }
    return 1;
}

/* Reads a panel: it needs a title; points must lie inside; words may reach into the gap between panels, but must not
   overlap. */
static int read_panel(page *p, const char *text, const char *end)
{
    double width, height, from[200], to[200], line[200];
    char value[64], style[16];
    size_t n = 0;
    const char *at = attribute(text, "viewBox", value, sizeof value);
    if (!at || sscanf(at, "0 0 %lf %lf", &width, &height) != 2) return wrong(p, "no viewBox");
    if (width > 1080 || height > 800) return wrong(p, "a panel of %g x %g", width, height);
    if (strncmp(strchr(text, '>'), "><title>", 8) != 0) return wrong(p, "a panel without a title");
    p->panels++;
    for (at = text; at < end; at++) {
        if (strncmp(at, "<path ", 6) == 0) {
            const char *d = strstr(at, " d=\"");
            if (!d || !read_path(p, d + 4, width, height)) return wrong(p, "a path without d");
        } else if (strncmp(at, "<text ", 6) == 0 && n < 200) {
            const char *words = strchr(at, '>') + 1, *at_x;
            double x, y, length = 0;
            if (strncmp(words, "nan", 3) == 0 || strncmp(words + (*words == '-'), "inf", 3) == 0)
                return wrong(p, "a label %.10s", words);
            for (const char *c = words; *c != '<'; c++, length += 5.2) if (*c == '&') c = strchr(c, ';');
            if (!(at_x = attribute(at, "x", value, sizeof value)) || !number(&at_x, &x) || *at_x)
                return wrong(p, "words without x: %.20s", words);
            if (!(at_x = attribute(at, "y", value, sizeof value)) || !number(&at_x, &y) || *at_x)
                return wrong(p, "words without y: %.20s", words);
            attribute(at, "class", style, sizeof style);
            from[n] = strcmp(style, "m") == 0 ? x - length / 2 : strcmp(style, "e") == 0 ? x - length : x;
            to[n] = from[n] + length;
            line[n] = y;
            if (from[n] < -16 || (to[n] > width + 20 && strcmp(style, "h") != 0) || y < 5 || y > height)
                return wrong(p, "\"%.20s\" at %g to %g, %g of %g x %g", words, from[n], to[n], y, width,
                             height);
            for (size_t k = 0; k < n; k++)
                if (fabs(line[k] - y) < 7 && from[n] < to[k] && from[k] < to[n])
                    return wrong(p, "\"%.20s\" overlaps other words", words);
            n++;
        }
    }
    return 1;
}

/* Tags must be closed in order, attributes quoted, ampersands part of escapes; no scripts, nothing fetched. */
static int read_tags(page *p, const char *text)
{
    static const char *const banned[] = { "<script", "javascript", "http:", "https:", "url(", "@import",
                                          "src=", "href", "<iframe", "onload", ">nan" };
    char stack[32][16];
    size_t depth = 0;
    if (strncmp(text, "<!DOCTYPE html>\n<html lang=\"en\">", 32) != 0) return wrong(p, "no document type");
    for (size_t k = 0; k < sizeof banned / sizeof *banned; k++)
        if (strstr(text, banned[k])) return wrong(p, "there is %s", banned[k]);
    for (const char *at = text + 15; *at; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c == '&') {
            const size_t length = strspn(at + 1, "#abcdefghijklmnopqrstuvwxyz0123456789");
            if (length == 0 || at[length + 1] != ';') return wrong(p, "a bare &: %.20s", at);
        }
        if (c == '>' && depth > 0 && strcmp(stack[depth - 1], "style") != 0)
            return wrong(p, "a bare >: %.20s", at);
        if (c < 32 && c != '\n') return wrong(p, "character %d", c);
        if (c != '<') continue;
        {
            const int closing = at[1] == '/';
            const char *name = at + 1 + closing, *end = name;
            const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
            int quoted = 0;
            for (; *end && (quoted || *end != '>'); end++) {
                quoted ^= *end == '"';
                if (*end == '<') return wrong(p, "a tag in a tag: %.20s", at);
            }
            if (!*end || length == 0 || length > 15) return wrong(p, "not a tag: %.20s", at);
            if (closing && (depth == 0 || strncmp(stack[--depth], name, length) != 0 || stack[depth][length]))
                return wrong(p, "%.20s closes %s", at, stack[depth]);
            if (!closing && end[-1] != '/') {
                if (depth == 32) return wrong(p, "too deep");
                memcpy(stack[depth], name, length);
                stack[depth++][length] = 0;
            }
            if (strncmp(at, "<tr>", 4) == 0) p->rows++;
            if (strncmp(at, "<details>", 9) == 0) p->open_rows = p->rows;
            if (strncmp(at, "<svg ", 5) == 0 && !read_panel(p, at, strstr(at, "</svg>"))) return 0;
            at = end;
        }
    }
    return depth == 0 || wrong(p, "<%s> is not closed", stack[depth - 1]);
}

static page read_page(const char *text)
{
    page p;
    memset(&p, 0, sizeof p);
    p.bytes = strlen(text);
    if (read_tags(&p, text) && p.panels > 40) wrong(&p, "%zu panels", p.panels);
    if (p.bytes >= 2000000) wrong(&p, "%zu bytes", p.bytes);
    return p;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[300];
    const char *keep = getenv("KEEP"), *end = strchr(name, '.') ? "" : ".html";
    snprintf(path, sizeof path, "%s%s%s%s", keep ? keep : "", keep ? "/" : "", name, end);
    return keep ? path : in_folder(path);
}

static int exists(const char *path) { struct stat s; return stat(path, &s) == 0; }

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat s;
    char *text;
    if (!file || stat(path, &s) != 0) { perror(path); exit(1); }
    text = malloc((size_t)s.st_size + 1);
    text[fread(text, 1, (size_t)s.st_size, file)] = 0;
    fclose(file);
    return text;
}

/* ---- fits made by hand --------------------------------------------------------------------------------- */

enum { MAX_BLOCKS = 40 };

typedef struct hand {
    gpumc_fit fit;
    gpumc_block *blocks;
    size_t *dims;
} hand;

static void add_block(hand *h, const char *name, size_t size, gpumc_group group)
{
    gpumc_block *b;
    if (!h->blocks) h->blocks = calloc(MAX_BLOCKS, sizeof *h->blocks);
    if (!h->dims) h->dims = calloc(MAX_BLOCKS, sizeof *h->dims);
    b = &h->blocks[h->fit.n_blocks];
    h->dims[h->fit.n_blocks++] = size;
    b->name = name;
    b->dims = h->dims + (b - h->blocks);
    b->n_dims = size > 1;
    b->offset = h->fit.n_columns;
    b->size = size;
    b->group = group;
    h->fit.n_columns += size;
}

static double *value_of(const hand *h, size_t chain, size_t draw, size_t column)
{
    return h->fit.draws + (chain * h->fit.draw_capacity + draw) * h->fit.n_columns + column;
}

/* AR(1) draws with correlation 0.3, mean k and standard deviation 1 in column k; energies to match. */
static void fill(hand *h, size_t n_chains, size_t n_draws, uint64_t seed)
{
    gpumc_fit *f = &h->fit;
    f->model_name = "by hand";
    f->blocks = h->blocks;
    f->n_chains = n_chains;
    f->n_draws = n_draws;
    f->draw_capacity = n_draws + 1;
    f->options.num_chains = (int)n_chains;
    f->options.max_treedepth = 10;
    f->sampler = GPUMC_SAMPLER_NUTS;
    f->metric.kind = GPUMC_METRIC_DIAG;
    f->step_size = 0.5;
    f->draws = calloc(n_chains * f->draw_capacity * f->n_columns, sizeof(double));
    f->stats = calloc(n_chains * f->draw_capacity, sizeof *f->stats);
    f->allocator = ledger_allocator(&memory);
    for (size_t c = 0; c < n_chains; c++) {
        gpumc_rng rng = gpumc_rng_at(seed, 0, 0, (uint32_t)c);
        for (size_t i = 0; i < n_draws; i++) {
            gpumc_draw_stats *s = &f->stats[c * f->draw_capacity + i];
            s->energy = 10 + 2 * gpumc_rng_normal(&rng);
            s->selected = 1;
            s->accept_stat = 0.8;
            for (size_t k = 0; k < f->n_columns; k++)
                *value_of(h, c, i, k) = (double)k + sqrt(0.91) * gpumc_rng_normal(&rng)
                                      + (i ? 0.3 * (*value_of(h, c, i - 1, k) - (double)k) : 0);
        }
    }
}

static void warn_of(hand *h) { gpumc__collect_warnings(&h->fit, 0); }

static void release(hand *h)
{
    ledger_release(h->fit.warnings, &memory);
    free(h->fit.warmup_stats);
    free(h->fit.draws);
    free(h->fit.stats);
    free(h->blocks);
    free(h->dims);
    memset(h, 0, sizeof *h);
}

/* Writes a page and reads it; its text, to be freed, goes to *text unless that is NULL. */
static page report_on(const hand *h, const gpumc_report_options *options, const char *name, char **text)
{
    gpumc_error error = { GPUMC_OK, "" };
    const size_t live = memory.live;
    const gpumc_status status = gpumc_write_report(&h->fit, options, path_of(name), &error);
    page p;
    memset(&p, 0, sizeof p);
    CHECK(status == GPUMC_OK, "%s: %s", name, error.text);
    CHECK(memory.live == live, "%s: %zu blocks are left", name, memory.live - live);
    if (status == GPUMC_OK) {
        char *all = text_of(path_of(name));
        p = read_page(all);
        CHECK(!p.said[0], "%s: %s", name, p.said);
        if (text) *text = all;
        else free(all);
    }
    return p;
}

/* Whether an argument is refused and nothing is written. */
static int refused(const hand *h, const gpumc_report_options *options)
{
    return gpumc_write_report(&h->fit, options, path_of("refused"), NULL) == GPUMC_ERROR_ARGUMENT
        && !exists(path_of("refused"));
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

/* The points of the first path with this style in text; returns their number. */
static size_t points_of(const char *text, const char *style, double (*points)[2])
{
    const char *d = strstr(strstr(text, style), " d=\"M") + 5;
    size_t n = 0;
    for (; *d != 'z' && *d != '"'; n++) {
        d += *d == 'l';
        number(&d, &points[n][0]);
        number(&d, &points[n][1]);
        for (int k = 0; k < 2 && n > 0; k++) points[n][k] += points[n - 1][k];
    }
    return n;
}

/* Whether a line of the first panel with this title leaves its band, a path along the upper edge and back along the
   lower one. */
static int leaves_band(const char *text, const char *title, size_t n_lines)
{
    static const char *const styles[] = { "\"l c0\"", "\"l c1\"", "\"l c2\"", "\"l c3\"" };
    double band[400][2], line[400][2];
    const char *panel = strstr(text, title);
    const size_t n = points_of(panel, "\"b\"", band) / 2;
    int leaves = 0;
    for (size_t l = 0; l < n_lines; l++) {
        CHECK(points_of(panel, styles[l], line) == n && n > 90, "a line of other length than the band");
        for (size_t i = 0; i < n; i++)
            leaves |= line[i][1] < band[i][1] - 0.11 || line[i][1] > band[2 * n - 1 - i][1] + 0.11;
    }
    return leaves;
}

static hand schools(size_t n_chains, size_t n_draws)
{
    hand h;
    memset(&h, 0, sizeof h);
    add_block(&h, "mu", 1, GPUMC_GENERATED);
    add_block(&h, "tau", 1, GPUMC_GENERATED);
    add_block(&h, "theta", 8, GPUMC_GENERATED);
    fill(&h, n_chains, n_draws, 1);
    for (size_t c = 0; c < n_chains; c++)
        for (size_t i = 0; i < n_draws; i++) *value_of(&h, c, i, 1) = fabs(*value_of(&h, c, i, 1) - 1);
    return h;
}

/* ---- pages --------------------------------------------------------------------------------------------- */

static void check_plain(void)
{
    hand h = schools(4, 1000);
    char *text, *again;
    page p = report_on(&h, NULL, "plain", &text);
    CHECK(p.panels == 5 * 5 + 1 + 1 + 6, "%zu panels", p.panels);
    CHECK(p.rows == 11, "%zu rows", p.rows);
    CHECK(p.bytes < 300000, "%zu bytes", p.bytes);
    CHECK(strstr(text, "The checks found nothing wrong."), "no verdict");
    CHECK(strstr(text, "prefers-color-scheme:dark") && strstr(text, "@media print"), "styles are missing");
    report_on(&h, NULL, "plain_again", &again);
    CHECK(strcmp(text, again) == 0, "two reports of one fit differ");
    free(again);
    decimal_comma = 1;
    report_on(&h, NULL, "plain_again", &again);
    decimal_comma = 0;
    CHECK(strcmp(text, again) == 0, "a locale with a comma changes the report");
    free(again);
    free(text);
    release(&h);
}

/* Chains that differ, a diverging corner, a stuck chain, warm-up: warnings come first. */
static void check_trouble(void)
{
    hand h = schools(4, 500);
    char *text;
    page p;
    h.fit.n_warmup = 150;
    h.fit.warmup_stats = calloc(4 * 150, sizeof *h.fit.warmup_stats);
    for (size_t i = 0; i < 600; i++) h.fit.warmup_stats[i].step_size = exp(-4 + (double)(i % 150) / 50);
    for (size_t i = 0; i < 500; i++) {
        *value_of(&h, 2, i, 0) += 2;
        for (size_t c = 0; c < 4; c++)
            if (*value_of(&h, c, i, 1) < 0.05) {
                h.fit.stats[c * h.fit.draw_capacity + i].divergent = 1;
                h.fit.n_divergent++;
            }
        *value_of(&h, 1, i, 5) = i < 100 ? 9 : *value_of(&h, 1, i, 5);
    }
    warn_of(&h);
    p = report_on(&h, NULL, "trouble", &text);
    CHECK(p.panels == 5 * 5 + 1 + 1 + 1 + 6, "%zu panels", p.panels);
    CHECK(strstr(text, "warning DIVERGENT") && strstr(text, "warning RHAT"), "the warnings are not there");
    CHECK(strstr(text, "warning DIVERGENT") < strstr(text, "<table>"), "the warnings do not come first");
    CHECK(strstr(text, "<h3>mu ") < strstr(text, "<h3>theta[4] "), "the worst R-hat is not first");
    CHECK(strstr(text, ">tau by mu<") || strstr(text, ">mu by tau<"), "no pair with the diverging parameter");
    CHECK(strstr(text, "squares: draws that diverged"), "the divergences are not in the pairs");
    CHECK(strstr(text, "Step size in warm-up"), "warm-up is not shown");
    free(text);
    release(&h);
}

static void check_large(void)
{
    hand h;
    char *text;
    page p;
    clock_t start;
    double seconds;
    memset(&h, 0, sizeof h);
    add_block(&h, "mu", 1, GPUMC_GENERATED);
    for (size_t k = 0; k < 9; k++) add_block(&h, &"abcdefghi"[k], 111, GPUMC_GENERATED);
    fill(&h, 4, 1000, 2);
    start = clock();
    p = report_on(&h, NULL, "large", &text);
    seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("report of 1000 parameters, 4 x 1000 draws: %.2f s, %zu bytes, %zu panels\n", seconds, p.bytes,
           p.panels);
    CHECK(p.panels <= 40 && p.panels > 33, "%zu panels", p.panels);
    CHECK(p.bytes < 600000, "%zu bytes", p.bytes);
    CHECK(p.rows == 1002 && p.open_rows == 26, "%zu and %zu rows", p.rows, p.open_rows);
    free(text);
    release(&h);
}

/* Everything large at the same time: chains, parameters, observations, divergences, a second fit. */
static void check_bounds(void)
{
    hand h;
    gpumc_report_options o;
    double *observed = malloc(3000 * sizeof *observed);
    page p;
    memset(&h, 0, sizeof h);
    memset(&o, 0, sizeof o);
    for (size_t k = 0; k < 25; k++)
        add_block(&h, &"a_long_name_of_a_block_of_parameters"[k], 60, GPUMC_GENERATED);
    add_block(&h, "y_rep", 3000, GPUMC_POSTERIOR_PREDICTIVE);
    add_block(&h, "log_lik", 3000, GPUMC_LOG_LIKELIHOOD);
    fill(&h, 64, 25, 3);
    h.fit.n_warmup = 300;
    h.fit.warmup_stats = calloc(64 * 300, sizeof *h.fit.warmup_stats);
    for (size_t i = 0; i < 64 * 300; i++) h.fit.warmup_stats[i].step_size = 0.1 + (double)(i % 7);
    for (size_t i = 0; i < 3000; i++) observed[i] = 1500 + (double)i + sin((double)i);
    for (size_t i = 0; i < 64 * 26; i += 2) h.fit.stats[i].divergent = 1;
    h.fit.n_divergent = 64 * 13;
    warn_of(&h);
    o.observed = observed;
    o.n_observed = 3000;
    o.other = &h.fit;
    p = report_on(&h, &o, "bounds", NULL);
    CHECK(p.panels == 40, "%zu panels", p.panels);
    CHECK(p.rows == 1002, "%zu rows", p.rows);
    printf("report of everything: %zu bytes, %zu points\n", p.bytes, p.points);
    CHECK(p.bytes < 1200000, "%zu bytes", p.bytes);
    free(observed);
    release(&h);
}

/* The fit of a straight line, with predictions, made by hand. */
static hand regression(int kind, double *observed, size_t n)
{
    hand h;
    memset(&h, 0, sizeof h);
    add_block(&h, "alpha", 1, GPUMC_GENERATED);
    add_block(&h, "sigma", 1, GPUMC_GENERATED);
    add_block(&h, "y_rep", n, GPUMC_POSTERIOR_PREDICTIVE);
    add_block(&h, "log_lik", n, GPUMC_LOG_LIKELIHOOD);
    fill(&h, 4, 500, 4);
    for (size_t i = 0; i < n; i++) {
        gpumc_rng rng = gpumc_rng_at(9, 0, (uint32_t)i, 0);
        const double rate = 3 + 2 * sin((double)i);
        observed[i] = kind == 0 ? rate + gpumc_rng_normal(&rng) : kind == 1 ? gpumc_poisson_rng(&rng, rate)
                    : gpumc_rng_uniform(&rng) < 0.3;
        if (kind == 0 && i == 20) observed[i] = 12;
        for (size_t c = 0; c < 4; c++)
            for (size_t d = 0; d < 500; d++) {
                const double shift = 0.1 * (*value_of(&h, c, d, 0));
                *value_of(&h, c, d, 2 + i) = kind == 0 ? rate + shift + gpumc_rng_normal(&rng)
                    : kind == 1 ? gpumc_poisson_rng(&rng, rate * exp(shift)) : gpumc_rng_uniform(&rng) < 0.3;
                *value_of(&h, c, d, 2 + n + i) = kind == 0
                    ? gpumc_normal_lpdf(observed[i], rate + shift, 1, NULL, NULL, NULL)
                    : kind == 1 ? gpumc_poisson_lpmf(observed[i], rate * exp(shift), NULL)
                    : gpumc_bernoulli_lpmf(observed[i], gpumc_inv_logit(-0.85 + shift), NULL);
            }
    }
    return h;
}

/* Without memory for leave-one-out there is no report; without a team of threads it takes longer. */
static void check_leaving_without_memory(const hand *h, const gpumc_report_options *o)
{
    size_t n_refused = 0;
    int done = 0;
    for (size_t n = 1; !done; n++) {
        gpumc_error error;
        memory.refuse_at = memory.calls + n;
        const gpumc_status status = gpumc_write_report(&h->fit, o, path_of("refused"), &error);
        done = memory.calls < memory.refuse_at;
        memory.refuse_at = 0;
        n_refused += status == GPUMC_ERROR_MEMORY;
        if (status == GPUMC_ERROR_MEMORY) continue;
        CHECK(status == GPUMC_OK, "allocation %zu: %d %s", n, status, error.text);
        char *text = text_of(path_of("refused"));
        CHECK(strstr(text, "Pareto k by observation"), "allocation %zu: nothing is left out", n);
        free(text);
        remove(path_of("refused"));
    }
    CHECK(n_refused >= 6, "%zu allocations", n_refused);
}

static void check_predictions(void)
{
    static const char *const names[] = { "continuous", "counts", "binary" };
    enum { N = 200 };
    double observed[N];
    for (int kind = 0; kind < 3; kind++) {
        hand h = regression(kind, observed, N);
        gpumc_report_options o;
        gpumc_loo loo;
        char *text, figure[40];
        page p;
        memset(&o, 0, sizeof o);
        p = report_on(&h, NULL, names[kind], &text);
        CHECK(strstr(text, "Pareto k by observation") && !strstr(text, "LOO-PIT"), "%s", names[kind]);
        CHECK(gpumc_loo_psis(&h.fit, &loo, NULL, NULL, NULL) == GPUMC_OK, "no loo");
        snprintf(figure, sizeof figure, "elpd %.1f", loo.elpd);
        CHECK(strstr(text, figure), "%s: %s is not there", names[kind], figure);
        CHECK(!strstr(text, "elpd may be wrong") && strstr(text, "found nothing wrong"), "a warning of k");
        free(text);
        o.observed = observed;
        o.n_observed = N;
        p = report_on(&h, &o, names[kind], &text);
        CHECK(p.panels == 2 * 5 + 1 + 1 + 3, "%s: %zu panels", names[kind], p.panels);
        CHECK(!leaves_band(text, ">LOO-PIT", 1), "%s: not calibrated", names[kind]);
        CHECK(strstr(text, "LOO-PIT") && strstr(text, kind ? "roots of counts" : "predictions, counts"),
              "%s: panels are missing", names[kind]);
        free(text);
        if (kind == 0) check_leaving_without_memory(&h, &o);
        for (size_t k = 0; k < 4 * 501 && kind < 2; k++)
            for (size_t i = 0; i < N; i++) h.fit.draws[k * h.fit.n_columns + 2 + i] += 1;
        report_on(&h, &o, "shifted", &text);
        CHECK(leaves_band(text, ">LOO-PIT", 1) == (kind < 2), "%s: shifted predictions", names[kind]);
        free(text);
        report_on(&h, &o, "beyond", &text);
        const int ticks = count_of(text, ">200</text>");
        free(text);
        for (size_t k = 0; k < 4 * 501; k++)
            for (size_t i = 0; i < N && kind == 0; i++) h.fit.draws[k * h.fit.n_columns + 2 + i] = 1e9;
        report_on(&h, &o, "beyond", &text);
        CHECK(count_of(text, ">200</text>") == ticks + (kind == 0), "%s: predictions far off are lost", names[kind]);
        free(text);
        for (size_t k = 0; k < 4 * 501; k++)
            h.fit.draws[k * h.fit.n_columns + 2 + N + 17] = k % 100 ? -1 : -40 - 0.01 * (double)k;
        o.other = &h.fit;
        report_on(&h, &o, "influential", &text);
        CHECK(strstr(text, "1 warning:") && strstr(text, "1 of 200 observations, above all number 18,"),
              "%s: no warning of k", names[kind]);
        CHECK(strstr(text, "is larger by 0"), "%s: two equal fits", names[kind]);
        o.other = NULL;
        free(text);
        *value_of(&h, 0, 7, 2 + N + 3) = -INFINITY;
        report_on(&h, &o, "odd", &text);
        CHECK(strstr(text, "No observation can be left out") && !strstr(text, "Pareto"), "an infinite one");
        free(text);
        for (size_t i = 0; i < N; i++) observed[i] = 1e18 + 3e16 * (double)(i % 20); /* whole, as all doubles there */
        report_on(&h, &o, "huge", &text);
        CHECK(strstr(text, "predictions, counts"), "%s: bins of huge numbers", names[kind]);
        free(text);
        observed[5] = NAN;
        CHECK(refused(&h, &o), "NaN is observed");
        o.n_observed--;
        CHECK(refused(&h, &o), "one too few are observed");
        release(&h);
    }
}

/* Empty lists in the options. Indices after a long name are shown. */
static void check_edges_of_options(void)
{
    hand h;
    char *text, name[201];
    const char *const none[] = { NULL };
    gpumc_report_options o;
    memset(&h, 0, sizeof h);
    memset(&o, 0, sizeof o);
    memset(name, 'n', 200);
    name[200] = 0;
    add_block(&h, name, 3, GPUMC_GENERATED);
    fill(&h, 4, 100, 4);
    o.n_names = 2;
    CHECK(refused(&h, &o), "two names of no list");
    o.n_names = 0;
    o.n_observed = 7;
    CHECK(refused(&h, &o), "seven data of no list");
    o.n_observed = 0;
    report_on(&h, &o, "edges", &text);
    CHECK(count_of(text, "n[1]<") > 0 && count_of(text, "n[3]<") > 0, "no index in the table");
    free(text);
    o.names = none;
    CHECK(refused(&h, &o), "names without their number");
    o.n_names = 1;
    CHECK(refused(&h, &o), "a name that is NULL");
    release(&h);
}

/* The density of draws uniform on 0, 1 and 2 has three steps of equal height; a quantity without finite draws has no
   interval. */
static void check_steps(void)
{
    hand h = schools(4, 300);
    double points[400][2], highest = 0, least[3] = { 1e9, 1e9, 1e9 }, steps[2];
    char *text;
    for (size_t c = 0; c < 4; c++)
        for (size_t i = 0; i < 300; i++) *value_of(&h, c, i, 0) = (double)(i % 3);
    report_on(&h, NULL, "steps", &text);
    const char *panel = strstr(strstr(text, ">mu<"), ">Density");
    const size_t n = points_of(panel, "\"a\"", points) / 2;                /* along the curve and back below */
    for (size_t i = 0; i < n; i++) {
        const size_t third = 3 * i / n;
        least[third] = fmin(least[third], points[i][1]);
        highest = fmax(highest, points[i][1]);
    }
    for (int k = 0; k < 2; k++) steps[k] = (highest - least[2 * k]) / (highest - least[1]);
    CHECK(n > 50 && fabs(steps[0] - 1) < 0.3 && fabs(steps[1] - 1) < 0.3, "steps of %g and %g times the middle one",
          steps[0], steps[1]);
    free(text);
    report_on(&h, NULL, "finite", &text);
    const int medians = count_of(strstr(text, ">Sampler and blocks<"), "l0 0\"/>");
    free(text);
    for (size_t c = 0; c < 4; c++)
        for (size_t i = 0; i < 300; i++) *value_of(&h, c, i, 4) = NAN;
    report_on(&h, NULL, "gaps", &text);
    const char *forest = strstr(text, ">Sampler and blocks<");
    CHECK(count_of(forest, "l0 0\"/>") == medians - 1, "%d medians, %d before", count_of(forest, "l0 0\"/>"),
          medians);
    free(text);
    release(&h);
}

static void check_comparison(void)
{
    hand a = schools(4, 400), b = schools(3, 300);
    gpumc_report_options o;
    char *text;
    page p;
    memset(&o, 0, sizeof o);
    o.other = &b.fit;
    o.other_name = "the other <form>";
    for (size_t i = 0; i < 300; i++) *value_of(&b, 1, i, 4) += 3;
    p = report_on(&a, &o, "comparison", &text);
    CHECK(strstr(text, "10 of 10 quantities") && strstr(text, "the other &lt;form&gt;"), "not compared");
    CHECK(strstr(text, ">theta[3] (") < strstr(text, ">mu ("), "the largest difference is not first");
    CHECK(p.panels == 5 * 5 + 1 + 1 + 6 + 1, "%zu panels", p.panels);
    free(text);
    b.blocks[0].name = "nu";
    b.blocks[2].size = 7;
    report_on(&a, &o, "comparison_of_one", &text);
    CHECK(strstr(text, "1 of 1 quantities"), "only tau is in both");
    free(text);
    b.fit.n_draws = 0;
    CHECK(refused(&a, &o), "no draws in the other");
    release(&a);
    release(&b);
}

/* Odd contents of fits: names with markup, constants, numbers of every size or not finite, few chains and draws. */
static void check_odd(void)
{
    static const double scales[] = { 1e-300, 1e-12, 1e-5, 1e3, 1e6, 1e12, 1e300 };
    static const size_t draws[] = { 1, 2, 3, 5, 11, 13, 25, 101 };
    static const char *const names[] = { "theta[2]", "mu" }, *const unknown[] = { "mu", "theta[9]" };
    gpumc_draw_stats *stats;
    const char *model = "a<b&\"c\" \n'd'";
    gpumc_report_options o;
    gpumc_error error = { GPUMC_OK, "" };
    char *text;
    page p;
    hand h = schools(1, 300);
    memset(&o, 0, sizeof o);
    p = report_on(&h, NULL, "one_chain", &text);
    CHECK(p.panels == 33 && strstr(text, "half 2"), "%zu panels", p.panels);
    free(text);
    h.fit.model_name = model;
    h.blocks[0].name = model;
    report_on(&h, NULL, "markup", &text);
    CHECK(strstr(text, "a&lt;b&amp;&quot;c&quot;") && !strstr(text, "a<b"), "names are not escaped");
    free(text);
    h.blocks[0].name = "mu";
    o.names = names;
    o.n_names = 2;
    p = report_on(&h, &o, "named", &text);
    CHECK(count_of(text, ">Trace</text>") == 2, "not two quantities");
    CHECK(strstr(text, "<h3>theta[2]") < strstr(text, "<h3>mu"), "not in the order of names");
    free(text);
    o.names = unknown;
    CHECK(gpumc_write_report(&h.fit, &o, path_of("refused"), &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "theta[9]"), "%s", error.text);
    o.n_names = 6;
    CHECK(refused(&h, &o), "six names");
    o.n_names = 2;
    for (size_t i = 0; i < 300; i++) *value_of(&h, 0, i, 0) = 3.25;
    *value_of(&h, 0, 9, 4) = NAN;
    *value_of(&h, 0, 9, 3) = INFINITY;
    warn_of(&h);
    o.names = names;
    p = report_on(&h, &o, "constant", &text);
    CHECK(strstr(text, "It never changes.") && strstr(text, "note CONSTANT") == NULL, "a constant parameter");
    CHECK(strstr(text, "warning CONSTANT") && strstr(text, "warning NOT_FINITE"), "no warnings");
    free(text);
    stats = h.fit.stats;
    h.fit.stats = NULL;
    report_on(&h, NULL, "no_statistics", NULL);
    h.fit.stats = stats;
    for (size_t i = 0; i < 300 * 10; i++) h.fit.draws[i] = 1;
    report_on(&h, NULL, "all_constant", NULL);
    h.fit.status = GPUMC_ERROR_DEVICE;
    snprintf(h.fit.message, sizeof h.fit.message, "the device is gone & away");
    report_on(&h, NULL, "failed", &text);
    CHECK(strstr(text, "warning the GPU failed") && strstr(text, "gone &amp; away"), "no failure");
    free(text);
    release(&h);
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        h = schools(4, 200);
        for (size_t i = 0; i < 4 * 201; i++)
            for (size_t j = 0; j < 10; j++) h.fit.draws[i * 10 + j] *= scales[k] * (j % 2 ? 1 : -1);
        report_on(&h, NULL, "scales", NULL);
        for (size_t i = 0; i < 4 * 201; i++)
            for (size_t j = 0; j < 10; j++) h.fit.draws[i * 10 + j] += 1e7 * scales[k];
        report_on(&h, NULL, "offset", NULL);
        release(&h);
    }
    for (size_t k = 0; k < sizeof draws / sizeof *draws; k++)
        for (size_t c = 1; c < 20; c += 6) {
            h = schools(c, draws[k]);
            warn_of(&h);
            report_on(&h, NULL, "few", NULL);
            release(&h);
        }
    h = schools(3, 200);                                        /* ties: counts, and of a heavy tail */
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 200; i++) {
            *value_of(&h, c, i, 0) = floor(fabs(*value_of(&h, c, i, 0)) * 3);
            *value_of(&h, c, i, 1) = tan(3.14 * ((double)((i * 7919 + c * 104729) % 1000) / 1000 - 0.4999));
        }
    report_on(&h, NULL, "counts_and_tails", NULL);
    release(&h);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void check_refusals(void)
{
    hand h = schools(2, 50), other = schools(2, 40);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_report_options o;
    size_t calls, tried = 0;
    memset(&o, 0, sizeof o);
    o.other = &other.fit;
    for (memory.refuse_at = 1;; memory.refuse_at++) {
        const size_t live = memory.live;
        gpumc_status status;
        memory.calls = 0;
        status = gpumc_write_report(&h.fit, &o, path_of("refused"), &error);
        CHECK(memory.live == live, "blocks are left when allocation %zu is refused", memory.refuse_at);
        if (memory.calls < memory.refuse_at) { CHECK(status == GPUMC_OK, "%s", error.text); break; }
        CHECK(status == GPUMC_ERROR_MEMORY, "allocation %zu: %d", memory.refuse_at, status);
        CHECK(!exists(path_of("refused")), "a file is left when allocation %zu is refused", memory.refuse_at);
    }
    CHECK(memory.refuse_at > 3, "only %zu allocations", memory.refuse_at);
    memory.refuse_at = 0;
    io_calls = 0;
    report_on(&h, &o, "refused", NULL);
    calls = io_calls;
    remove(path_of("refused"));
    for (size_t n = 1, left; n <= calls; n += n < 30 || left < 6 ? 1 : n / 7 < left - 5 ? n / 7 : left - 5) {
        left = calls - n;
        io_calls = 0;
        io_refuse_at = n;
        CHECK(gpumc_write_report(&h.fit, &o, path_of("refused"), &error) == GPUMC_ERROR_FILE, "call %zu", n);
        CHECK(!exists(path_of("refused")), "a file is left when call %zu fails", n);
        CHECK(!exists(path_of("refused.html.tmp")), "half a file is left by call %zu", n);
        tried++;
    }
    io_refuse_at = 0;
    CHECK(tried > 60, "only %zu of %zu calls", tried, calls);
    h.fit.n_draws = 0;
    CHECK(gpumc_write_report(&h.fit, NULL, path_of("refused"), &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "no draws"), "%s", error.text);
    CHECK(gpumc_write_report(NULL, NULL, "x", &error) == GPUMC_ERROR_ARGUMENT, "no fit");
    h.fit.n_draws = 50;
    CHECK(gpumc_write_report(&h.fit, NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "no path");
    CHECK(gpumc_write_report(&h.fit, NULL, "/nowhere/at/all", &error) == GPUMC_ERROR_FILE, "no such folder");
    release(&h);
    release(&other);
}

/* The reader must reject each of these changes. */
static void check_reader(void)
{
    static const char *const damage[][2] = {
        { "</h2>", "</h3>" }, { "</svg>", "" }, { "<td>", "" }, { "&#8212;", "&" }, { "</body>", "" },
        { "<!DOCTYPE html>", "" }, { "</h1>", "<script></script></h1>" }, { "</h1>", "<b></h1>" },
        { "</h1>", "> </h1>" }, { "</h1>", "http://x</h1>" }, { "<h2>", "<h2 <b>" }, { "<dd>", "<dd>nan" },
        { " d=\"M", " d=\"Mnan " }, { " d=\"M", " d=\"M-90 " }, { " d=\"M", " d=\"M1e5 " },
        { " d=\"M", " d=\"" }, { "<title>Trace", "<b>Trace" }, { "class=\"m\" x=\"", "class=\"m\" x=\"9" },
        { "class=\"m\" x=\"", "class=\"m\" x=\"nan" }, { ">0.5</text>", ">inf</text>" },
        { ">0.5</text>", ">500000000000000000000000</text>" },
    };
    hand h = schools(4, 100);
    char *text;
    report_on(&h, NULL, "reader", &text);
    for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
        const char *at = strstr(text, damage[k][0]);
        char *damaged = malloc(strlen(text) + 100);
        CHECK(at != NULL, "nothing to damage: %s", damage[k][0]);
        if (at) {
            const size_t before = (size_t)(at - text);
            memcpy(damaged, text, before);
            strcpy(damaged + before, damage[k][1]);
            strcat(damaged + before, at + strlen(damage[k][0]));
            CHECK(read_page(damaged).said[0], "%s for %s goes unseen", damage[k][1], damage[k][0]);
        }
        free(damaged);
    }
    free(text);
    release(&h);
}

/* ---- what the curves promise --------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The band's coverage: the ECDF of a uniform sample of size n stays in it, at the points that the panel evaluates,
   with probability 99 % or slightly more. */
static void check_band(void)
{
    enum { TRIES = 4000 };
    static const size_t sizes[] = { 20, 100, 500 };
    for (size_t s = 0; s < 3; s++) {
        const size_t n = sizes[s];
        const double level = gpumc_Phi(-gpumc__band_width(1));
        double x[500], low[100], high[100];
        int inside = 0;
        gpumc_rng rng = gpumc_rng_at(5, 0, 0, (uint32_t)s);
        for (int k = 1; k < 100; k++) {
            low[k] = gpumc_binomial_quantile(level, (double)n, k / 100.0);
            high[k] = gpumc_binomial_quantile(1 - level, (double)n, k / 100.0);
        }
        for (int t = 0; t < TRIES; t++) {
            size_t below = 0;
            int ok = 1;
            for (size_t i = 0; i < n; i++) x[i] = gpumc_rng_uniform(&rng);
            qsort(x, n, sizeof *x, ascending);
            for (int k = 1; k < 100; k++) {
                while (below < n && x[below] <= k / 100.0) below++;
                ok &= (double)below >= low[k] && (double)below <= high[k];
            }
            inside += ok;
        }
        printf("band for %zu numbers holds %.4f of all samples\n", n, (double)inside / TRIES);
        CHECK(inside >= 0.985 * TRIES, "n = %zu: %d of %d", n, inside, TRIES);
        CHECK(inside <= (n < 500 ? 0.999 : 0.996) * TRIES, "n = %zu: %d of %d", n, inside, TRIES);
    }
}

/* Rank ECDFs of chains that agree stay in the band, whatever their autocorrelation; that of a chain shifted by half a
   standard deviation must leave it. */
static void check_ranks(void)
{
    int outside[2] = { 0, 0 };
    for (int shifted = 0; shifted < 2; shifted++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            hand h;
            char *text;
            memset(&h, 0, sizeof h);
            add_block(&h, "x", 1, GPUMC_GENERATED);
            fill(&h, 4, 400, 100 + seed);
            for (size_t i = 0; i < 400 && shifted; i++) *value_of(&h, 1, i, 0) += 0.5;
            report_on(&h, NULL, "ranks", &text);
            outside[shifted] += leaves_band(text, ">Ranks<", 4);
            free(text);
            release(&h);
        }
    printf("ranks outside: %d of 40 even ones, %d of 40 with a shifted chain\n", outside[0], outside[1]);
    CHECK(outside[0] <= 3, "%d of 40", outside[0]);
    CHECK(outside[1] >= 38, "%d of 40", outside[1]);
}

static void check_density(void)
{
    static double x[20000], u[GPUMC__POINTS], d[GPUMC__POINTS];
    gpumc_rng rng = gpumc_rng_at(6, 0, 0, 0);
    for (int half = 0; half < 2; half++) {
        const double low = half ? 0 : -4;
        double sum = 0, worst = 0;
        for (size_t i = 0; i < 20000; i++) x[i] = gpumc_rng_normal(&rng);
        for (size_t i = 0; i < 20000 && half; i++) x[i] = fabs(x[i]);
        gpumc__estimate_density(x, 20000, low, 4, 0.12, u, d);
        for (size_t i = 0; i < GPUMC__POINTS; i++) {
            const double true_density = (1 + half) * exp(-0.5 * u[i] * u[i]) / sqrt(2 * GPUMC_PI);
            sum += d[i] * (u[1] - u[0]) * (i == 0 || i + 1 == GPUMC__POINTS ? 0.5 : 1);
            worst = check_worst(worst, fabs(d[i] - true_density));
        }
        CHECK(fabs(sum - 1) < 2e-3, "a density of %g", sum);
        CHECK(worst < 0.03 * (1 + half), "off by %g", worst);
    }
    /* of draws of which all but one in 500 are 0 the curve still has a range */
    const gpumc_series atom = { x, 4, 5000, 5000, 1 };
    double low = 0, high = 0;
    gpumc__sheet s;
    for (size_t i = 0; i < 20000; i++) x[i] = i % 500 ? 0 : 1 + (double)i;
    CHECK(gpumc__open_series(&s, atom, NULL), "no sheet");
    gpumc__clip(&s, &low, &high);
    CHECK(low == 0 && high == 19501, "%g to %g", low, high);
    const double peak = gpumc__estimate_density(x, 20000, low, high, gpumc__kernel_width(&s), u, d);
    CHECK(peak > 0 && isfinite(peak), "a density up to %g", peak);
    gpumc__close_sheet(&s);
}

int main(void)
{
    const int quick = getenv("QUICK") != NULL;
    if (!folder_open("report")) return 1;
    check_plain();
    check_trouble();
    if (!quick) {
        check_large();
        check_bounds();
    }
    check_predictions();
    check_edges_of_options();
    check_steps();
    check_comparison();
    check_odd();
    if (!getenv("ONLY_PAGES")) {
        check_refusals();
        check_reader();
        check_density();
    }
    if (!getenv("ONLY_PAGES") && !quick) {
        check_band();
        check_ranks();
    }
    {
        char command[100];
        snprintf(command, sizeof command, "rm -r %s", folder);
        if (system(command) != 0) return 1;
    }
    return check_end();
}
