/* stop_signal_figures.h: one HTML page with SVG figures: predictions beside data, estimates beside the truth,
   one fit beside another. Nothing is fetched and no script runs. C99; include after gpumc.h. */
#ifndef STOP_SIGNAL_FIGURES_H
#define STOP_SIGNAL_FIGURES_H

#include "stop_signal_check.h"

#define SS_BLUE "#2b6cb0"
#define SS_ORANGE "#c05621"
#define SS_DASHED "#718096\" stroke-dasharray=\"5 4"      /* a colour and, past its quote, dashes */

/* ---- a panel: axes, and what is drawn in their units --------------------------------------------- */

enum { SS_WIDTH = 380, SS_HEIGHT = 270, SS_WEST = 52, SS_EAST = 10, SS_NORTH = 26, SS_SOUTH = 42 };   /* margins */

typedef struct ss_panel { FILE *file; double x0, x1, y0, y1; } ss_panel;

static inline double ss_x(const ss_panel *p, double x)
{
    return (double)SS_WEST + (x - p->x0) / (p->x1 - p->x0) * (SS_WIDTH - SS_WEST - SS_EAST);
}
static inline double ss_y(const ss_panel *p, double y)
{
    return SS_HEIGHT - SS_SOUTH - (y - p->y0) / (p->y1 - p->y0) * (SS_HEIGHT - SS_NORTH - SS_SOUTH);
}

/* Writes a text with the special characters of HTML escaped. */
static inline void ss_put_text(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '<') fputs("&lt;", file);
        else if (*text == '&') fputs("&amp;", file);
        else if (*text == '>') fputs("&gt;", file);
        else fputc(*text, file);
}

static inline void ss_panel_label(ss_panel *p, double x, double y, const char *anchor, const char *text)
{
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    ss_put_text(p->file, text);
    fprintf(p->file, "</text>\n");
}

/* The distance of ticks: 1, 2 or 5 times a power of ten, about five ticks to a range. */
static inline double ss_tick(double range)
{
    const double power = pow(10, floor(log10(range / 4))), part = range / 4 / power;
    return power * (part >= 5 ? 5 : part >= 2 ? 2 : 1);
}

static inline void ss_panel_ticks(ss_panel *p, int vertical)
{
    const double from = vertical ? p->y0 : p->x0, to = vertical ? p->y1 : p->x1, step = ss_tick(to - from);
    const double end = SS_HEIGHT - SS_SOUTH;
    char text[32];
    for (double k = ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) {
        const double at = vertical ? ss_y(p, k * step) : ss_x(p, k * step);
        snprintf(text, sizeof text, "%.4g", k == 0 ? 0 : k * step);
        if (vertical)
            fprintf(p->file, "<path class=\"g\" d=\"M%d %.1fH%d\"/>", SS_WEST, at, SS_WIDTH - SS_EAST);
        else fprintf(p->file, "<path class=\"g\" d=\"M%.1f %dV%.1f\"/>", at, SS_NORTH, end);
        if (vertical) ss_panel_label(p, SS_WEST - 5, at + 4, "end", text);
        else ss_panel_label(p, at, end + 15, "middle", text);
    }
}

static inline ss_panel ss_panel_begin(FILE *file, const char *title, const char *x_name,
                                      const double range[4])
{
    ss_panel p = { file, range[0], range[1], range[2], range[3] };
    fprintf(file, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", SS_WIDTH,
            SS_HEIGHT, SS_WIDTH, SS_HEIGHT);
    fprintf(file, "<text x=\"%d\" y=\"16\" class=\"t\">", SS_WEST);
    ss_put_text(file, title);
    fprintf(file, "</text>\n");
    ss_panel_ticks(&p, 0);
    ss_panel_ticks(&p, 1);
    ss_panel_label(&p, (SS_WEST + SS_WIDTH - SS_EAST) / 2.0, SS_HEIGHT - 8, "middle", x_name);
    return p;
}

static inline void ss_panel_end(ss_panel *p) { fprintf(p->file, "</svg>\n"); }

static inline void ss_panel_point(ss_panel *p, double x, double y, const char *colour)
{
    fprintf(p->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", ss_x(p, x), ss_y(p, y),
            colour);
}

static inline void ss_panel_segment(ss_panel *p, const double from[2], const double to[2], const char *colour)
{
    fprintf(p->file, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", ss_x(p, from[0]), ss_y(p, from[1]),
            ss_x(p, to[0]), ss_y(p, to[1]), colour);
}

/* Widens [range[0], range[1]] to hold x. */
static inline void ss_range_add(double *range, double x)
{
    if (isnan(x)) return;
    if (isnan(range[0]) || x < range[0]) range[0] = x;
    if (isnan(range[1]) || x > range[1]) range[1] = x;
}

static inline void ss_range_widen(double *range)
{
    double margin;
    if (isnan(range[0])) range[0] = range[1] = 0;
    margin = range[1] > range[0] ? 0.06 * (range[1] - range[0]) : fmax(0.05, 0.1 * fabs(range[0]));
    range[0] -= margin;
    range[1] += margin;
}

/* ---- pages --------------------------------------------------------------------------------------- */

static inline int ss_page_open(ss_writer *w, const char *path, const char *title, gpumc_error *error)
{
    if (!ss_writer_open(w, path, error)) return 0;
    fprintf(w->file, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    ss_put_text(w->file, title);
    fprintf(w->file, "</title>\n<style>\n"
            "body{font:15px/1.45 sans-serif;max-width:1180px;margin:1.5em auto;padding:0 1em;color:#1a202c}\n"
            "svg{margin:4px}text{font:12px sans-serif;fill:#1a202c}.t{font-weight:bold}\n"
            ".g{stroke:#e2e8f0;fill:none}table{border-collapse:collapse;font-size:14px}\n"
            "td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #e2e8f0}\n"
            "td:first-child,th:first-child{text-align:left}.o{font-weight:bold;color:%s}\n"
            "</style></head><body>\n<h1>", SS_ORANGE);
    ss_put_text(w->file, title);
    fprintf(w->file, "</h1>\n");
    return 1;
}

static inline int ss_page_close(ss_writer *w)
{
    fprintf(w->file, "</body></html>\n");
    return ss_writer_close(w);
}

/* ---- predictions beside data --------------------------------------------------------------------- */

/* The first statistic of one kind, and their number *n; those of a kind are adjacent. */
static inline size_t ss_check_find(const ss_check *c, ss_what what, size_t *n)
{
    size_t first = 0;
    while (first < c->n && c->list[first].what != what) first++;
    for (*n = 0; first + *n < c->n && c->list[first + *n].what == what; ++*n) {}
    return first;
}

static inline int ss_is_drawn(const ss_statistic *s) { return !isnan(s->median) && !isnan(s->observed); }

static inline void ss_draw_band(ss_panel *p, const ss_statistic *s, size_t n, const char *colour)
{
    char letter = 'M';
    fprintf(p->file, "<path fill=\"%s\" fill-opacity=\"0.22\" d=\"", colour);
    for (size_t k = 0; k < n; k++) {
        if (!ss_is_drawn(&s[k])) continue;
        fprintf(p->file, "%c%.1f %.1f", letter, ss_x(p, s[k].x), ss_y(p, s[k].low));
        letter = 'L';
    }
    for (size_t k = n; k-- > 0;)
        if (ss_is_drawn(&s[k])) fprintf(p->file, "L%.1f %.1f", ss_x(p, s[k].x), ss_y(p, s[k].high));
    fprintf(p->file, "Z\"/>\n<path fill=\"none\" stroke=\"%s\" d=\"", colour);
    letter = 'M';
    for (size_t k = 0; k < n; k++) {
        if (!ss_is_drawn(&s[k])) continue;
        fprintf(p->file, "%c%.1f %.1f", letter, ss_x(p, s[k].x), ss_y(p, s[k].median));
        letter = 'L';
    }
    fprintf(p->file, "\"/>\n");
    for (size_t k = 0; k < n; k++)
        if (ss_is_drawn(&s[k]))
            ss_panel_point(p, s[k].x, s[k].observed, ss_is_outside(&s[k]) ? SS_ORANGE : "#1a202c");
}

/* Draws the statistics of one kind in a panel; `level`: one to compare them with, or SS_N_WHATS. */
static inline void ss_check_panel(FILE *file, const ss_check *c, ss_what what, ss_what level,
                                  const char *title, const char *x_name)
{
    double range[4] = { NAN, NAN, NAN, NAN };
    size_t n, one;
    const ss_statistic *s = c->list + ss_check_find(c, what, &n);
    const ss_statistic *at = c->list + ss_check_find(c, level, &one);
    ss_panel p;
    for (size_t k = 0; k < n; k++) {
        if (!ss_is_drawn(&s[k])) continue;
        ss_range_add(range, s[k].x);
        ss_range_add(range + 2, s[k].low);
        ss_range_add(range + 2, s[k].high);
        ss_range_add(range + 2, s[k].observed);
    }
    if (one) ss_range_add(range + 2, at->observed);
    ss_range_widen(range);
    ss_range_widen(range + 2);
    p = ss_panel_begin(file, title, x_name, range);
    if (one) {
        const double from[2] = { range[0], at->observed }, to[2] = { range[1], at->observed };
        ss_panel_segment(&p, from, to, SS_DASHED);
        ss_panel_label(&p, SS_WEST + 4, ss_y(&p, to[1]) - 4, "start", ss_what_text(level));
    }
    ss_draw_band(&p, s, n, SS_BLUE);
    ss_panel_end(&p);
}

static inline void ss_check_table(FILE *file, const ss_check *c)
{
    fprintf(file, "<table><tr><th>statistic<th>at<th>trials<th>observed"
            "<th>2.5 %%<th>50 %%<th>97.5 %%<th>p</tr>\n");
    for (size_t k = 0; k < c->n; k++) {
        const ss_statistic *s = &c->list[k];
        if (!ss_is_drawn(s)) continue;
        fprintf(file, "<tr%s><td>%s<td>", ss_is_outside(s) ? " class=\"o\"" : "", ss_what_text(s->what));
        if (!isnan(s->x)) fprintf(file, "%.2f", s->x);
        fprintf(file, "<td>");
        if (s->n_trials) fprintf(file, "%.0f", (double)s->n_trials);
        fprintf(file, "<td>%.4f<td>%.4f<td>%.4f<td>%.4f<td>%.3f</tr>\n", s->observed, s->low, s->median,
                s->high, s->p);
    }
    fprintf(file, "</table>\n");
}

static inline void ss_check_figures(FILE *file, const ss_check *c)
{
    static const struct { ss_what what, level; const char *title, *x_name; } panels[] = {
        { SS_INHIBITION, SS_RESPONDED, "Inhibition function: P(respond)", "delay (s)" },
        { SS_SIGNAL_RT, SS_GO_MEAN, "Median failed-stop RT (s)", "delay (s)" },
        { SS_SIGNAL_ACCURACY, SS_GO_ACCURACY, "Accuracy of failed stops", "delay (s)" },
        { SS_GO_CORRECT, SS_N_WHATS, "Correct go RT (s)", "quantile" },
        { SS_GO_ERROR, SS_N_WHATS, "Wrong go RT (s)", "quantile" },
    };
    fprintf(file, "<h2>Predictions of the model beside the data</h2>\n<p>Points: data, averaged over "
            "subjects; line and band: median and 95 %% of %.0f simulated studies. Orange: outside.</p>\n",
            (double)c->n_draws);
    for (size_t k = 0; k < sizeof panels / sizeof *panels; k++)
        ss_check_panel(file, c, panels[k].what, panels[k].level, panels[k].title, panels[k].x_name);
    fprintf(file, "\n");
    ss_check_table(file, c);
}

/* ---- estimates beside the truth ------------------------------------------------------------------ */

/* One quantity: its true value, and the estimate with its interval. */
typedef struct ss_estimate { double truth, low, median, high; } ss_estimate;

static inline void ss_scatter_panel(FILE *file, const char *title, const char *x_name,
                                    const ss_estimate *list, size_t n)
{
    double both[2] = { NAN, NAN }, range[4];
    ss_panel p;
    for (size_t i = 0; i < n; i++) {
        ss_range_add(both, list[i].truth);
        ss_range_add(both, list[i].low);
        ss_range_add(both, list[i].high);
    }
    ss_range_widen(both);
    memcpy(range, both, sizeof both);
    memcpy(range + 2, both, sizeof both);
    p = ss_panel_begin(file, title, x_name, range);
    {
        const double from[2] = { both[0], both[0] }, to[2] = { both[1], both[1] };
        ss_panel_segment(&p, from, to, SS_DASHED);
    }
    for (size_t i = 0; i < n; i++) {
        const int holds = list[i].low <= list[i].truth && list[i].truth <= list[i].high;
        const char *colour = holds ? SS_BLUE : SS_ORANGE;
        const double low[2] = { list[i].truth, list[i].low }, high[2] = { list[i].truth, list[i].high };
        ss_panel_segment(&p, low, high, colour);
        ss_panel_point(&p, list[i].truth, list[i].median, colour);
    }
    ss_panel_end(&p);
}
#endif
