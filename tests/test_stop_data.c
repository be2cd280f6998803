/* Data of the stop-signal task. Valid files give the same trials whatever their format; invalid ones are refused with
   line and column, truncated ones too. Simulated trials have the probabilities that the likelihood gives, and the
   published statistics; files written are read back unchanged; predictive bands contain data drawn from the model and
   reveal what another model cannot reproduce. */
#define _POSIX_C_SOURCE 200809L
#include "../gpumc.h"
#include "check.h"
#include "folder.h"
#include "../examples/stop_signal_data.h"

/* One instruction set suffices: test_stop_signal.c tests all, and each takes seconds to compile. */
#undef GPUMC__ISA_COPIES
#undef GPUMC__ISA_TABLE
#define GPUMC__ISA_COPIES(X, ...) X(baseline, GPUMC_LOOP, GPUMC__LANE_LOOP, __VA_ARGS__)
#define GPUMC__ISA_TABLE(name) { name##_baseline, name##_baseline, name##_baseline }
#include "../examples/stop_signal_rows.h"
#include "../examples/stop_signal_model.h"
#include "../examples/stop_signal_figures.h"

#include <time.h>

static const char *write_text(const char *name, const char *text, size_t length)
{
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    if (!file) return path;
    fwrite(text, 1, length, file);
    fclose(file);
    return path;
}

static int read_text(const char *text, const ss_read_options *options, ss_reading *r, gpumc_error *error)
{
    const char *path = write_text("trials.csv", text, strlen(text));
    return ss_read(path, options, r, error);
}

/* ---- files that are right ------------------------------------------------------------------------ */

#define HEAD "subject,stimulus,response,rt,ssd\n"
#define ROWS "a,left,left,0.5,\na,right,left,0.61,0.25\nb,left,right,0.45,\nb,left,,,0.1\n"

static int same_data(const ss_data *a, const ss_data *b)
{
    if (a->n_subjects != b->n_subjects || a->n_trials != b->n_trials) return 0;
    for (size_t i = 0; i < a->n_subjects; i++)
        if (strcmp(a->subject_names[i], b->subject_names[i]) != 0) return 0;
    for (size_t i = 0; i < a->n_trials; i++) {
        const ss_trial *x = &a->trials[i], *y = &b->trials[i];
        if (x->subject != y->subject || x->stimulus != y->stimulus || x->response != y->response) return 0;
        if (x->ssd_ms != y->ssd_ms || x->run != y->run) return 0;
        if (!(fabs(x->rt - y->rt) < 1e-12) && !(isnan(x->rt) && isnan(y->rt))) return 0;
    }
    return 1;
}

static void test_forms(void)
{
    static const ss_read_options plain = { 0 }, ms = { .milliseconds = 1 }, zero = { .none = "0" };
    static const ss_read_options named = { .columns = "id,stim,resp,time,delay" };
    static const struct { const char *what, *text; const ss_read_options *options;
    } list[] = {
        { "another order",
          "rt,ssd,response,subject,stimulus\n0.5,,left,a,left\n0.61,0.25,left,a,right\n"
          "0.45,,right,b,left\n,0.1,,b,left\n",
          &plain },
        { "subjects in turn",
          HEAD "a,left,left,0.5,\nb,left,right,0.45,\na,right,left,0.61,0.25\nb,left,,,0.1\n", &plain },
        { "byte order mark", "\xef\xbb\xbf" HEAD ROWS, &plain },
        { "returns before new lines",
          "subject,stimulus,response,rt,ssd\r\na,left,left,0.5,\r\n"
          "a,right,left,0.61,0.25\r\nb,left,right,0.45,\r\nb,left,,,0.1\r\n",
          &plain },
        { "quotes",
          "\"subject\",stimulus,response,\"rt\",ssd\n\"a\",left,\"left\",0.5,\"\"\n"
          "a,\"right\",left,\"0.61\",0.25\nb,left,right,0.45,\nb,left,,,0.1\n",
          &plain },
        { "semicolons",
          "subject;stimulus;response;rt;ssd\na;left;left;0.5;\na;right;left;0.61;0.25\n"
          "b;left;right;0.45;\nb;left;;;0.1\n",
          &plain },
        { "tabs",
          "subject\tstimulus\tresponse\trt\tssd\na\tleft\tleft\t0.5\t\na\tright\tleft\t0.61\t0.25\n"
          "b\tleft\tright\t0.45\t\nb\tleft\t\t\t0.1\n",
          &plain },
        { "milliseconds", HEAD "a,left,left,500,\na,right,left,610,250\nb,left,right,450,\nb,left,,,100\n",
          &ms },
        { "a code and a time for none",
          HEAD "a,left,left,0.5,NA\na,right,left,0.61,0.25\nb,left,right,0.45,NA\n"
               "b,left,0,0,0.1\n",
          &zero },
        { "words for none",
          HEAD "a,left,left,0.5,NA\na,right,left,0.61,0.25\nb,left,right,0.45,nan\n"
               "b,left,None,NaN,0.1\n",
          &plain },
        { "other names", "id,stim,resp,time,delay\n" ROWS, &named },
        { "more columns",
          "site,subject,stimulus,response,rt,ssd\nx,a,left,left,0.5,\nx,a,right,left,0.61,0.25\n"
          "y,b,left,right,0.45,\ny,b,left,,,0.1\n",
          &plain },
        { "blanks and empty lines behind",
          "subject , stimulus,response, rt,ssd\n a , left,left , 0.5 ,\n"
          "a,right,left,0.61,0.25\nb,left,right,0.45,\nb,left,,,0.1\n\n\r\n",
          &plain },
        { "signals",
          "subject,stimulus,response,rt,ssd,signal\na,left,left,0.5,,go\na,right,left,0.61,0.25,1\n"
          "b,left,right,0.45,,0\nb,left,,,0.1,stop\n",
          &plain },
    };
    ss_reading want, got;
    gpumc_error error;
    CHECK(read_text(HEAD ROWS, NULL, &want, &error), "%s", error.text);
    CHECK(want.data.n_subjects == 2 && want.data.n_trials == 4 && want.n_excluded == 0, "sizes");
    CHECK(want.data.trials[1].ssd_ms == 250 && want.data.trials[1].stimulus == 1, "second trial");
    CHECK(want.data.trials[3].response == SS_NONE && isnan(want.data.trials[3].rt), "last trial");
    CHECK(strcmp(want.codes[0], "left") == 0 && strcmp(want.codes[1], "right") == 0, "codes");
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const int ok = read_text(list[k].text, list[k].options, &got, &error);
        CHECK(ok, "%s: %s", list[k].what, error.text);
        if (!ok) continue;
        CHECK(same_data(&want.data, &got.data), "%s", list[k].what);
        ss_reading_free(&got);
    }
    ss_reading_free(&want);
}

/* ---- files that are wrong ------------------------------------------------------------------------ */

static void test_refused(void)
{
    static const ss_read_options plain = { 0 }, ms = { .milliseconds = 1 }, any = { .step_ms = 1 };
    static const ss_read_options four = { .columns = "subject,stimulus,response,rt" },
                                 age = { .covariates = "age" };
    static const struct { const char *text, *place, *what; const ss_read_options *options;
    } list[] = {
        { "", "empty", "file", &plain },
        { HEAD, "no rows", "below", &plain },
        { "subject,stim,response,rt,ssd\n" ROWS, "line 1", "no column \"stimulus\"; found: subject, stim, ",
          &plain },
        { HEAD ROWS, "five names", "subject", &four },
        { HEAD ROWS, "no column \"age\"", "found", &age },
        { "subject,rt,stimulus,response,rt,ssd\n", "line 1", "two columns \"rt\"", &plain },
        { HEAD ROWS "b,up,left,0.5,\n", "line 6, column 2 (stimulus)", "unknown code \"up\"", &plain },
        { HEAD ROWS "b,left,x,0.5,\n", "line 6, column 3 (response)", "unknown code \"x\"", &plain },
        { HEAD ROWS "b,,left,0.5,\n", "line 6, column 2 (stimulus)", "missing", &plain },
        { HEAD ROWS ",left,left,0.5,\n", "line 6, column 1 (subject)", "missing", &plain },
        { HEAD ROWS "b,left,left,-0.5,\n", "line 6, column 4 (rt)", "negative", &plain },
        { HEAD ROWS "b,left,left,0.5,-1\n", "line 6, column 5 (ssd)", "negative", &plain },
        { HEAD ROWS "b,left,left,512,\n", "line 6, column 4 (rt)", "unit=ms", &plain },
        { HEAD ROWS "b,left,left,fast,\n", "line 6, column 4 (rt)", "\"fast\" is not a number", &plain },
        { HEAD ROWS "b,left,left,inf,\n", "line 6, column 4 (rt)", "not a number", &plain },
        { HEAD ROWS "b,left,left,\"0,5\",\n", "line 6, column 4 (rt)", "want a point", &plain },
        { HEAD ROWS "b,left,left,,\n", "line 6, column 4 (rt)", "without a time", &plain },
        { HEAD ROWS "b,left,,0.5,\n", "line 6, column 4 (rt)", "without a response", &plain },
        { HEAD ROWS "b,left,left,0.5,0.137\n", "line 6, column 5 (ssd)", "no multiple of 50 ms", &plain },
        { HEAD ROWS "b,left,left,0.5,250\n", "line 6, column 5 (ssd)", "unit=ms", &plain },
        { HEAD "a,left,left,0.5,\na,left,left,0.6,\na,left,,,\n", "10 ms", "unit=s", &ms },
        { HEAD "a,left,left,0.5,0\na,left,left,0.6,0\na,left,,,0.05\n", "\"a\"", "every trial has a delay",
          &any },
        { HEAD ROWS "b,left,left,0.5\n", "line 6, column 5 (ssd)", "ends after 4 of 5", &plain },
        { HEAD ROWS "b,left,left,0.5,,7\n", "line 6", "more fields", &plain },
        { HEAD "a,left,left,0.5,\n\na,left,left,0.5,\n", "line 3, column 2", "ends after 1", &plain },
        { HEAD ROWS "b,\"left,left,0.5,\n", "line 6, column 2 (stimulus)", "quote", &plain },
        { HEAD ROWS "b,\"left\"x,left,0.5,\n", "line 6, column 2 (stimulus)", "quote", &plain },
        { HEAD ROWS "b,left,left,0.5,", "line 6", "does not end", &plain },
        { "\xff\xfes\1", "UTF-16", "UTF-8", &plain },
        { "\x80" HEAD ROWS, "line 1", "not UTF-8", &plain },
        { HEAD "caf" "\xe9" ",left,left,0.5,\n", "line 2", "not UTF-8", &plain },
        { HEAD "caf" "\xc3\xa9\x80" ",left,left,0.5,\n", "line 2", "not UTF-8", &plain },
        { HEAD ROWS "b\7,left,left,0.5,\n", "line 6", "a control character", &plain },
        { "subject,stimulus,response,rt,ssd,signal\na,left,left,0.5,0.1,go\n", "line 2, column 5 (ssd)",
          "a go trial with a delay, 100 ms", &plain },
        { "subject,stimulus,response,rt,ssd,signal\na,left,left,0.5,,stop\n", "line 2, column 5 (ssd)",
          "a stop trial without", &plain },
        { "subject,stimulus,response,rt,ssd,signal\na,left,left,0.5,,2\n", "line 2, column 6 (signal)",
          "neither", &plain },
        { "subject,stimulus,response,rt,ssd,run\na,left,left,0.5,,x\n", "line 2, column 6 (run)",
          "not a number", &plain },
        { "subject,stimulus,response,rt,ssd,run\na,left,left,0.5,,\n", "line 2, column 6 (run)",
          "whole number", &plain },
        { "subject,stimulus,response,rt,ssd,age\na,left,left,0.5,,9\na,left,left,0.5,,10\n",
          "line 3, column 6 (age)", "10, but 9 before", &age },
        { "subject,stimulus,response,rt,ssd,age\na,left,left,0.5,,\n", "line 2, column 6 (age)", "missing",
          &age },
        { HEAD "a,left,left,0.5,\n", "no subject is left", "go_only=keep", &plain },
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        ss_reading r;
        gpumc_error error = { GPUMC_OK, "" };
        CHECK(!read_text(list[k].text, list[k].options, &r, &error), "taken: %s", list[k].text);
        CHECK(strstr(error.text, list[k].place) && strstr(error.text, list[k].what),
              "[%s] of [%s], wanted %s: %s", error.text, list[k].text, list[k].place, list[k].what);
        CHECK(error.status != GPUMC_OK && r.data.trials == NULL && r.excluded == NULL, "something is left");
    }
}

/* A truncated file is refused unless it ends at the end of a line, and is never read beyond its end. */
static void test_cut(void)
{
    static const char text[] = HEAD ROWS;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        const char *path = write_text("cut.csv", text, n);
        gpumc_error error;
        ss_reading r;
        const int ok = ss_read(path, NULL, &r, &error);
        CHECK(!ok || text[n - 1] == '\n', "cut after %d bytes it is read", (int)n);
        if (ok) ss_reading_free(&r);
    }
}

static void test_zero_byte(void)
{
    static const char text[] = HEAD "a,left,left,0.5,\n\0,left,left,0.5,\n";
    gpumc_error error;
    ss_reading r;
    CHECK(!ss_read(write_text("zero.csv", text, sizeof text - 1), NULL, &r, &error), "a zero byte is taken");
    CHECK(strstr(error.text, "zero byte") != NULL, "%s", error.text);
    CHECK(!ss_read("/nowhere/trials.csv", NULL, &r, &error) && strstr(error.text, "/nowhere/trials.csv"),
          "%s", error.text);
}

/* ---- exclusions, several files ------------------------------------------------------------------- */

static void test_excluded(void)
{
    static const char text[] = HEAD
        "a,left,left,0.5,\na,left,left,0.14,\na,left,,,0.1\na,right,right,0.15,\n"
        "silent,left,,,\nsilent,left,,,0.1\n"
        "early,left,left,0.1,\nearly,left,left,0.5,0.1\n"
        "nostop,left,left,0.5,\n";
    ss_read_options all = { .fastest = -1 };
    ss_reading r;
    gpumc_error error;
    CHECK(read_text(text, NULL, &r, &error), "%s", error.text);
    CHECK(r.n_read == 9 && r.n_subjects_read == 4, "read %d of %d", (int)r.n_read, (int)r.n_subjects_read);
    CHECK(r.data.n_subjects == 1 && r.data.n_trials == 3, "kept %d of %d", (int)r.data.n_trials,
          (int)r.data.n_subjects);
    CHECK(r.n_excluded == 4, "%d exclusions", (int)r.n_excluded);
    if (r.n_excluded == 4) {
        CHECK(r.excluded[0].reason == SS_NO_GO_RESPONSES && strcmp(r.excluded[0].subject, "silent") == 0,
              "first");
        CHECK(r.excluded[1].reason == SS_NO_GO_RESPONSES && strcmp(r.excluded[1].subject, "early") == 0,
              "second");
        CHECK(r.excluded[2].reason == SS_NO_STOP_TRIALS && r.excluded[2].n_trials == 1, "third");
        CHECK(r.excluded[3].reason == SS_TOO_FAST && r.excluded[3].line == 3, "line %d",
              (int)r.excluded[3].line);
        CHECK(fabs(r.excluded[3].rt - 0.14) < 1e-12, "rt %g", r.excluded[3].rt);
    }
    ss_reading_free(&r);
    CHECK(read_text(text, &all, &r, &error) && r.data.n_subjects == 2 && r.data.n_trials == 6,
          "with all of them");
    ss_reading_free(&r);
    all.deadline = 0.3;
    CHECK(read_text(text, &all, &r, &error) && r.n_late == 3 && r.data.n_subjects == 2, "%d late",
          (int)r.n_late);
    ss_reading_free(&r);
}

static void test_files(void)
{
    ss_read_options join = { .join = 1 };
    ss_reading r;
    gpumc_error error;
    char both[1500];
    snprintf(both, sizeof both, "%s,", write_text("one.csv", HEAD ROWS, strlen(HEAD ROWS)));
    strcat(both, write_text("two.csv", HEAD ROWS, strlen(HEAD ROWS)));
    CHECK(!ss_read(both, NULL, &r, &error), "the same subjects in two files");
    CHECK(strstr(error.text, "two.csv: line 2, column 1 (subject): \"a\" is in an earlier file"), "%s",
          error.text);
    CHECK(ss_read(both, &join, &r, &error), "%s", error.text);
    CHECK(r.data.n_subjects == 2 && r.data.n_trials == 8, "joined");
    CHECK(r.data.trials[1].run == 0 && r.data.trials[2].run == 1, "a file is a run");
    ss_reading_free(&r);
}

static void test_million_rows(void)
{
    const size_t n = getenv("QUICK") ? 100000 : 1000000;
    char *text = (char *)malloc(40 * n), *at = text;
    clock_t begin;
    gpumc_error error;
    ss_reading r;
    if (!text) { check_skip("a million rows: no memory"); return; }
    at += sprintf(at, HEAD);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "s%05u,%s,left,0.%03u,%s\n", (unsigned)(i * 7919 % 5000), i % 2 ? "left" : "right",
                      200 + (unsigned)(i % 700), i % 7 ? "" : i % 14 ? "0.25" : "0.3");
    begin = clock();
    CHECK(ss_read(write_text("million.csv", text, (size_t)(at - text)), NULL, &r, &error), "%s", error.text);
    CHECK(r.data.n_subjects == 5000 && r.data.n_trials == n, "%d trials", (int)r.data.n_trials);
    printf("a million rows: %.2f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    ss_reading_free(&r);
    remove(in_folder("million.csv"));
    free(text);
}

/* ---- the simulator ------------------------------------------------------------------------------- */

static double typical[SS_N_PARAMETERS];

/* By how many standard errors the mean of n draws differs from the expected mean (tests allow 4). */
static double errors_off(double sum, double squares, double n, double mean)
{
    const double m = sum / n, variance = squares / n - m * m;
    return (m - mean) / sqrt(variance / n);
}

static void test_draws(void)
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    double sums[3][2] = { { 0 } }, early[SS_N_PARAMETERS], first = INFINITY;
    const double n = 200000, b = 1.2, v = 2.5;
    memcpy(early, typical, sizeof early);
    early[SS_MU_GO] = early[SS_MU_ERR] = 0.1;
    early[SS_SIGMA_GO] = early[SS_SIGMA_ERR] = 0.2;
    early[SS_TAU_GO] = early[SS_TAU_ERR] = 0.05;
    for (int i = 0; i < 2000; i++) {
        double time[2];
        ss_draw_go(SS_BEESTS2, early, SS_NONE, &rng, time);
        first = fmin(first, fmin(time[0], time[1]));
    }
    CHECK(first > 0, "a response %g s after the stimulus", first);
    for (int i = 0; i < (int)n; i++) {
        const double w = ss_draw_wald(b, v, &rng), square = (w - b / v) * (w - b / v);
        const double s = ss_draw_ex_gaussian(typical[SS_MU], typical[SS_SIGMA], typical[SS_TAU], 0.1, &rng);
        sums[0][0] += w;
        sums[0][1] += w * w;
        sums[1][0] += square;
        sums[1][1] += square * square;
        sums[2][0] += s;
        sums[2][1] += s * s;
    }
    CHECK(fabs(errors_off(sums[0][0], sums[0][1], n, b / v)) < 4, "mean of a Wald %g", sums[0][0] / n);
    CHECK(fabs(errors_off(sums[1][0], sums[1][1], n, b / (v * v * v))) < 4, "its variance %g",
          sums[1][0] / n);
    CHECK(fabs(errors_off(sums[2][0], sums[2][1], n, ss_stop_mean(typical, 0.1))) < 4, "stop mean %g, not %g",
          sums[2][0] / n, ss_stop_mean(typical, 0.1));
    memset(sums, 0, sizeof sums);
    for (int k = 0; k < 3; k++)                     /* the normal part dominates; the exponential part; far tail */
        for (int i = 0; i < (int)n / 10; i++) {
            const double tau = k == 0 ? 0.005 : 0.05, above = k == 2 ? 3 : 0.2 + 0.02 * 4.5;
            const double s = ss_draw_ex_gaussian(0.2, k == 2 ? 0.08 : 0.02, tau, above, &rng);
            sums[k][0] += s;
            sums[k][1] += s * s;
        }
    for (int k = 0; k < 3; k++) {
        double theta[SS_N_PARAMETERS] = { 0 };
        theta[SS_MU] = 0.2;
        theta[SS_SIGMA] = k == 2 ? 0.08 : 0.02;
        theta[SS_TAU] = k == 0 ? 0.005 : 0.05;
        const double mean = k == 2 ? 3 + 0.05 : ss_stop_mean(theta, 0.29);
        CHECK(fabs(errors_off(sums[k][0], sums[k][1], n / 10, mean)) < 4, "far out: %g, not %g",
              sums[k][0] / (n / 10), mean);
    }
    CHECK(fabs(ss_stop_mean(typical, -INFINITY) - 0.23) < 1e-15, "mu + tau");
    CHECK(fabs(ss_stop_mean(typical, -1) - 0.23) < 1e-15, "nothing cut off: %g", ss_stop_mean(typical, -1));
}

static void test_design(void)
{
    ss_trial trials[7];
    int seen[7] = { 0 }, pairs = 0;
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    for (int repeat = 0; repeat < 30000; repeat++) {
        int stops = 0;
        ss_draw_positions(7, 3, &rng, trials);
        for (int i = 0; i < 7; i++) {
            stops += trials[i].ssd_ms != SS_NONE;
            seen[i] += trials[i].ssd_ms != SS_NONE;
            pairs += i > 0 && trials[i].ssd_ms != SS_NONE && trials[i - 1].ssd_ms != SS_NONE;
        }
        if (stops != 3) CHECK(0, "%d stop trials instead of 3", stops);
    }
    CHECK(pairs == 0, "%d stop trials beside another", pairs);
    /* of the 10 sets of three trials, 6 contain the first one */
    CHECK(abs(seen[0] - 18000) < 4 * 85 && abs(seen[6] - 18000) < 4 * 85, "%d and %d at the ends", seen[0],
          seen[6]);
}

enum { BINS = 12 };

/* Counts of simulated trials at one delay, binned by response and time, agree with the likelihood (chi-squared test;
   the probabilities of the bins by Simpson's rule). */
static void test_likelihood(int ssd_ms)
{
    const int n = 100000, go = ssd_ms == SS_NONE;
    const double width = 0.08, delay = 0.001 * ssd_ms, v[2] = { 3.3, 0.5 };
    int counts[2][BINS] = { { 0 } }, none = 0;
    double chi = 0, rest = 1, p_none;
    gpumc_rng rng = gpumc_rng_at(3, (uint32_t)(ssd_ms + 10), 0, 0);
    for (int i = 0; i < n; i++) {
        ss_trial t = { 0, 0, 0, 0, ssd_ms, 0 };
        ss_simulate_trial(SS_RDEX_ABCD, typical, 0.05, 0, &rng, &t);
        if (t.response == SS_NONE) none++;
        else if (t.rt >= 0.16 && t.rt < 0.16 + BINS * width)
            counts[t.response != t.stimulus][(int)((t.rt - 0.16) / width)]++;
    }
    p_none = go ? typical[SS_PGF] : exp(ss_typical_trial(&ss_stop, v[0], v[1], 0, delay));
    for (int wrong = 0; wrong < 2; wrong++)
        for (int k = 0; k < BINS; k++) {
            double p = 0;
            for (int j = 0; j <= 8; j++) {
                const double rt = 0.16 + (k + j / 8.0) * width + 1e-9;
                const double value =
                    ss_typical_trial(go ? &ss_go : &ss_failed, v[wrong], v[!wrong], rt, delay);
                p += exp(value) * width / 24 * (j == 0 || j == 8 ? 1 : j % 2 ? 4 : 2);
            }
            rest -= p;
            chi += (counts[wrong][k] - n * p) * (counts[wrong][k] - n * p) / fmax(n * p, 1);
        }
    rest -= p_none;
    CHECK(fabs(none - n * p_none) < 4 * sqrt(n * p_none * (1 - p_none)),
          "delay %d: %d without response, not %g", ssd_ms, none, n * p_none);
    CHECK(rest > -1e-6 && rest < 0.05, "delay %d: probabilities leave %g", ssd_ms, rest);
    CHECK(chi < 2 * BINS + 4 * sqrt(4.0 * BINS), "delay %d: chi-squared %g of %d bins", ssd_ms, chi,
          2 * BINS);
}

/* Trials simulated at the typical values have the published statistics of the ABCD task. */
static void test_published(void)
{
    const size_t n = 1000;
    const ss_group group = ss_group_default();
    const ss_task task = ss_task_default();
    double *theta = (double *)malloc(n * SS_N_PARAMETERS * sizeof *theta), sums[10] = { 0 };
    ss_data d;
    gpumc_error error;
    CHECK(theta && ss_simulate(SS_RDEX_ABCD, &group, &task, 0.05, n, 1, &d, theta, &error), "simulation");
    for (size_t i = 0; i < d.n_trials; i++) {
        const ss_trial *t = &d.trials[i];
        const int stop = t->ssd_ms != SS_NONE, responded = t->response != SS_NONE;
        if (responded) {
            sums[stop] += 1;
            sums[2 + stop] += t->rt;
            sums[4 + stop] += t->response == t->stimulus;
        }
        if (stop) {
            sums[6] += 1;
            sums[7] += 0.001 * t->ssd_ms;
            sums[8] += t->ssd_ms == 0;
            sums[9] += t->ssd_ms == 0 && !responded;
        }
    }
    CHECK(fabs(sums[2] / sums[0] - 0.54) < 0.01, "go RT %g", sums[2] / sums[0]);
    CHECK(fabs(sums[4] / sums[0] - 0.90) < 0.01, "go accuracy %g", sums[4] / sums[0]);
    CHECK(fabs(sums[3] / sums[1] - 0.47) < 0.015, "failed-stop RT %g", sums[3] / sums[1]);
    CHECK(fabs(sums[5] / sums[1] - 0.79) < 0.015, "failed-stop accuracy %g", sums[5] / sums[1]);
    CHECK(fabs(sums[7] / sums[6] - 0.22) < 0.01, "mean delay %g", sums[7] / sums[6]);
    CHECK(fabs(sums[9] / sums[8] - 0.64) < 0.03, "stopping at delay 0 %g", sums[9] / sums[8]);
    CHECK(sums[6] == 60.0 * (double)n, "%g stop trials", sums[6]);
    ss_data_free(&d);
    free(theta);
}

/* Responses move the staircase by its rule and within its bounds; runs restart or continue it, as the task says. */
static void test_staircase(void)
{
    ss_task task = { 40, 20, 3, 50, 50, 150, 0, 0 };
    ss_trial trials[120];
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    for (int carry = 0; carry < 2; carry++) {
        int ssd = 50, wrong = 0, restarts = 0;
        task.carry = carry;
        ss_draw_design(&task, 0, &rng, trials);
        ss_simulate_subject(SS_RDEX_ABCD, typical, 0.05, &task, &rng, trials);
        for (int i = 0; i < 120; i++) {
            if (i % 40 == 0 && i > 0 && !carry) { restarts += ssd != 50; ssd = 50; }
            if (trials[i].ssd_ms == SS_NONE) continue;
            wrong += trials[i].ssd_ms != ssd;
            ssd += trials[i].response == SS_NONE ? 50 : -50;
            ssd = ssd < 0 ? 0 : ssd > 150 ? 150 : ssd;
        }
        CHECK(wrong == 0, "%d delays off the staircase", wrong);
        CHECK(carry || restarts > 0, "runs ended where they began");
    }
}

/* ---- files of the simulator ---------------------------------------------------------------------- */

static void test_round_trip(void)
{
    ss_group group = ss_group_default();
    const ss_task task = ss_task_default();
    double theta[6 * SS_N_PARAMETERS];
    ss_read_options options = { .covariates = "age", .fastest = -1 };
    ss_data d;
    ss_reading r;
    ss_truth truth;
    gpumc_error error;
    double mean = 0, square = 0;
    size_t seen = 0;
    group.covariate = "age";
    CHECK(ss_simulate(SS_RDEX_ABCD, &group, &task, 0.05, 6, 9, &d, theta, &error), "%s", error.text);
    CHECK(ss_write_trials(&d, in_folder("sim.csv"), &error), "%s", error.text);
    CHECK(ss_read(in_folder("sim.csv"), &options, &r, &error), "%s", error.text);
    for (size_t i = 0; i < d.n_trials; i++) d.trials[i].rt = floor(1e6 * d.trials[i].rt + 0.5) / 1e6;
    CHECK(same_data(&d, &r.data), "trials differ");
    for (size_t i = 0; i < 6; i++) {
        CHECK(d.covariates[i] == r.data.covariates[i], "covariate %g read as %g", d.covariates[i],
              r.data.covariates[i]);
        mean += d.covariates[i] / 6;
        square += d.covariates[i] * d.covariates[i] / 5;
    }
    CHECK(fabs(mean) < 1e-14 && fabs(square - 1) < 1e-14, "covariate with mean %g, variance %g", mean,
          square);
    CHECK(ss_write_truth(SS_RDEX_ABCD, &group, 0.05, &d, theta, in_folder("truth.csv"), &error), "%s",
          error.text);
    CHECK(ss_read_truth(in_folder("truth.csv"), &truth, &error), "%s", error.text);
    CHECK(truth.n == 3 * 11 + 6 * 12, "%d rows of truth", (int)truth.n);
    for (size_t i = 0; i < truth.n; i++)
        if (strcmp(truth.rows[i].name, "tau") == 0 && strcmp(truth.rows[i].subject, "s003") == 0)
            seen += truth.rows[i].value == theta[2 * SS_N_PARAMETERS + SS_TAU];
    CHECK(seen == 1, "tau of s003");
    CHECK(!ss_write_trials(&d, "/nowhere/sim.csv", &error) && strstr(error.text, "/nowhere/sim.csv"), "%s",
          error.text);
    ss_truth_free(&truth);
    ss_reading_free(&r);
    ss_data_free(&d);
}

static void test_group_files(void)
{
    static const struct { const char *text, *what; } wrong[] = {
        { "B=1.2\nC=2\n", "line 2: \"C=2\"" }, { "B=0\n", "outside" }, { "pgf=1\n", "outside" },
        { "sd_B=-1\n", "below 0" }, { "B=x\n", "not a number" }, { "B\n", "not of the form" },
    };
    static const char right[] = "# a comment\n\nB=1.5\nsd_B = 0\npgf=0.5\neffect_v0=-0.2\n",
                      fixed[] = "sd_B=0\nB=1.5\n";
    ss_group group = ss_group_default();
    gpumc_error error;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const char *path = write_text("group.txt", wrong[k].text, strlen(wrong[k].text));
        CHECK(!ss_read_group(path, &group, &error), "taken: %s", wrong[k].text);
        CHECK(strstr(error.text, wrong[k].what) != NULL, "%s", error.text);
    }
    CHECK(!ss_read_group(write_text("group.txt", right, strlen(right)), &group, &error),
          "blanks around = are not taken");
    CHECK(ss_read_group(write_text("group.txt", fixed, strlen(fixed)), &group, &error), "%s", error.text);
    CHECK(fabs(group.location[SS_B] - log(1.5)) < 1e-15 && group.scale[SS_B] == 0, "B");
}

/* ---- predictions --------------------------------------------------------------------------------- */

/* Statistics of two subjects, against values worked out by hand. */
static void test_statistics(void)
{
    static ss_trial trials[] = {
        { 0, 0, 0, 0.4, SS_NONE, 0 }, { 0, 0, 1, 0.6, SS_NONE, 0 }, { 0, 0, SS_NONE, NAN, SS_NONE, 0 },
        { 0, 0, 0, 0.5, 100, 0 },     { 0, 0, SS_NONE, NAN, 100, 0 }, { 0, 0, 0, 0.7, SS_NONE, 0 },
        { 1, 1, 1, 0.8, SS_NONE, 0 }, { 1, 1, 0, 0.3, 100, 0 },       { 1, 1, 1, 0.4, 100, 0 },
        { 1, 1, SS_NONE, NAN, 200, 0 },
    };
    ss_data d = { .n_subjects = 2, .n_trials = 10, .trials = trials };
    ss_check c;
    ss_study study;
    ss_task task = ss_task_default();
    gpumc_error error;
    double out[64];
    size_t n;
    CHECK(ss_check_make(&c, &d, 1, &error) && c.n_levels == 0,
          "delays with fewer than 20 trials are left out");
    ss_check_free(&c);
    CHECK(ss_check_make(&c, &d, 1, &error), "%s", error.text);
    c.n_levels = 2;
    c.levels[0] = 100;
    c.levels[1] = 200;
    c.n = 3 * 2 + 2 * SS_N_QUANTILES + 7;
    CHECK(ss_study_make(&study, &d, c.n, &error), "%s", error.text);
    ss_study_run(&study, &c, SS_RDEX, NULL, 0.05, &task, NULL, out);
    CHECK(fabs(out[0] - 0.75) < 1e-12 && out[1] == 0, "P(respond) %g, %g", out[0], out[1]);
    CHECK(fabs(out[2] - (0.5 + 0.35) / 2) < 1e-12 && isnan(out[3]), "failed-stop RT %g, %g", out[2], out[3]);
    CHECK(fabs(out[4] - 0.75) < 1e-12, "failed-stop accuracy %g", out[4]);
    CHECK(isnan(out[6]), "quantiles of fewer than five responses");
    n = 6 + 2 * SS_N_QUANTILES;
    CHECK(fabs(out[n] - (2.0 / 3 + 1) / 2) < 1e-12, "go accuracy %g", out[n]);
    CHECK(fabs(out[n + 1] - 0.125) < 1e-12, "omissions %g", out[n + 1]);
    CHECK(fabs(out[n + 2] - (1.7 / 3 + 0.8) / 2) < 1e-12, "go RT %g", out[n + 2]);
    CHECK(fabs(out[n + 4] - (0.5 + 2.0 / 3) / 2) < 1e-12, "P(respond | stop) %g", out[n + 4]);
    CHECK(fabs(out[n + 5] - (0.1 + 0.4 / 3) / 2) < 1e-12, "mean delay %g", out[n + 5]);
    ss_study_free(&study);
    ss_check_free(&c);
}

static double *truth_theta;
static size_t truth_subjects;
static void from_truth(size_t draw, double *theta, void *user)
{
    (void)draw;
    (void)user;
    memcpy(theta, truth_theta, truth_subjects * SS_N_PARAMETERS * sizeof *theta);
}

static size_t outside(const ss_check *c, ss_what what, size_t *n)
{
    size_t first = ss_check_find(c, what, n), found = 0;
    for (size_t k = 0; k < *n; k++) found += (size_t)ss_is_outside(&c->list[first + k]);
    return found;
}

/* Data lie within the predictive bands of the model they were drawn from; RDEX, whose rates do not depend on the
   delay, cannot reproduce the errors at short delays. */
static void test_predictions(void)
{
    const ss_group group = ss_group_default();
    const ss_task task = ss_task_default();
    double *theta = (double *)malloc(60 * SS_N_PARAMETERS * sizeof *theta);
    ss_check c;
    ss_data d;
    ss_writer w;
    gpumc_error error;
    size_t n, all = 0;
    const size_t draws = getenv("QUICK") ? 50 : 200;
    CHECK(theta && ss_simulate(SS_RDEX_ABCD, &group, &task, 0.05, 60, 4, &d, theta, &error), "%s",
          error.text);
    truth_theta = theta;
    truth_subjects = 60;
    CHECK(ss_check_run(&c, &d, SS_RDEX_ABCD, 0.05, &task, from_truth, NULL, draws, 1, &error), "%s",
          error.text);
    for (int what = 0; what < SS_N_WHATS; what++) all += outside(&c, (ss_what)what, &n);
    CHECK(all <= 7, "%d of %d outside", (int)all, (int)c.n);
    CHECK(ss_page_open(&w, in_folder("page.html"), "a <b>", &error), "%s", error.text);
    ss_check_figures(w.file, &c);
    CHECK(ss_page_close(&w), "%s", error.text);
    ss_check_free(&c);
    CHECK(ss_check_run(&c, &d, SS_RDEX, 0.05, &task, from_truth, NULL, draws, 1, &error), "%s", error.text);
    all = outside(&c, SS_SIGNAL_ACCURACY, &n);
    CHECK(all >= 3, "the wrong model: accuracy outside at %d of %d delays", (int)all, (int)n);
    ss_check_free(&c);
    ss_data_free(&d);
    free(theta);
}

int main(void)
{
    static const char *const names[] = { "trials.csv", "cut.csv", "zero.csv", "one.csv", "two.csv", "sim.csv",
                                         "truth.csv", "group.txt", "page.html" };
    if (!folder_open("stop")) return 1;
    for (int k = 0; k < SS_N_PARAMETERS; k++) typical[k] = ss_parameter_get(k)->typical;
    test_forms();
    test_refused();
    test_cut();
    test_zero_byte();
    test_excluded();
    test_files();
    test_million_rows();
    test_draws();
    test_design();
    test_likelihood(SS_NONE);
    test_likelihood(0);
    test_likelihood(100);
    test_likelihood(250);
    test_likelihood(600);
    test_published();
    test_staircase();
    test_round_trip();
    test_group_files();
    test_statistics();
    test_predictions();
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) remove(in_folder(names[k]));
    rmdir(folder);
    return check_end();
}
