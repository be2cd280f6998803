/* Files in and out: numbers as text, the JSON and CSV readers, the summary and Stan CSV writers. Checked are
   every rule of the formats, every trap of their readers and the exact place of every error; that an allocation
   or write that fails leaves nothing behind; and that two hundred thousand damaged inputs do no harm. For each
   kind of check there is a broken variant that it must reject. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

/* ---- a system that refuses, and one whose decimal sign is a comma -------------------------------------- */

static size_t io_calls, io_refuse_at;
static int io_refuse_later, io_refuse_renames;

/* Counts a call that may fail; returns 1 if it must fail, as on a full disk. */
static int io_refused(void)
{
    io_calls++;
    if (!io_refuse_at || (io_calls != io_refuse_at && !(io_refuse_later && io_calls > io_refuse_at)))
        return 0;
    errno = ENOSPC;
    return 1;
}

static FILE *fopen_or_not(const char *path, const char *mode)
{
    return io_refused() ? NULL : fopen(path, mode);
}
static int fflush_or_not(FILE *file) { return io_refused() ? EOF : fflush(file); }
static int fsync_or_not(int file)           /* really synchronised only once */
{
    static int done;
    return io_refused() ? -1 : done++ ? 0 : fsync(file);
}
static int rename_or_not(const char *from, const char *to)
{
    if (io_refuse_renames > 0 && --io_refuse_renames == 0) { errno = EACCES; return -1; }
    return io_refused() ? -1 : rename(from, to);
}
static int fclose_or_not(FILE *file)
{
    const int no = io_refused(), result = fclose(file);
    return no ? EOF : result;
}
static int vfprintf_or_not(FILE *file, const char *format, va_list arguments)
{
    const int no = io_refused(), result = vfprintf(file, format, arguments);
    return no ? -1 : result;
}

static int decimal_comma;

static int snprintf_comma(char *text, size_t room, const char *format, ...)
{
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(text, room, format, arguments);
    va_end(arguments);
    if (decimal_comma && strcmp(format, "%.*g") == 0 && strchr(text, '.')) *strchr(text, '.') = ',';
    return n;
}

static double strtod_comma(const char *text, char **end)
{
    static char copy[2000];
    if (!decimal_comma || strlen(text) >= sizeof copy) return strtod(text, end);
    strcpy(copy, text);
    for (char *p = copy; *p; p++) *p = (char)(*p == '.' ? '!' : *p == ',' ? '.' : *p);
    return strtod(copy, end);
}

#define fopen fopen_or_not
#define fflush fflush_or_not
#define fsync fsync_or_not
#define rename rename_or_not
#define fclose fclose_or_not
#define vfprintf vfprintf_or_not
#define snprintf snprintf_comma
#define strtod strtod_comma
#define GPUMC_MAX_FILE_BYTES 1000000
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#undef fopen
#undef fflush
#undef fsync
#undef rename
#undef fclose
#undef vfprintf
#undef snprintf
#undef strtod
#include "ledger.h"
#include "folder.h"

/* ---- tools --------------------------------------------------------------------------------------------- */

static uint64_t random_state = 1;
static uint64_t random_bits(void)      /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static size_t random_below(size_t n) { return (size_t)(random_bits() % n); }

static uint64_t bits_of(double x) { uint64_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
static double from_bits(uint64_t bits) { double x; memcpy(&x, &bits, sizeof x); return x; }
static int same(double a, double b) { return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)); }

static size_t files_in_folder(int remove_them)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    size_t n = 0;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        n++;
        if (remove_them) remove(in_folder(entry->d_name));
    }
    closedir(directory);
    return n;
}

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, n, file) != n || fclose(file) != 0) CHECK(0, "cannot write %s", path);
}

/* The file as a string, to be freed; "" when there is none. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (file) {
        const size_t n = fread(text, 1, (1 << 20) - 1, file);
        text[n] = 0;
        fclose(file);
    }
    return text;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

static double parse(const char *text, size_t length)
{
    int ok;
    const double value = gpumc__parse_number(text, length, &ok);
    return ok ? value : 12345.5;
}

static void check_known_numbers(void)
{
    static const struct { double value; const char *text; } known[] = {
        { 0, "0" }, { -0.0, "-0" }, { 1, "1" }, { -1.5, "-1.5" }, { 0.1, "0.1" }, { 0.3, "0.3" },
        { 100, "100" }, { 1e22, "1e+22" }, { 123456789012345678.0, "1.2345678901234568e+17" },
        { 1 / 3.0, "0.3333333333333333" }, { 2 / 3.0, "0.6666666666666666" },
        { 0.1 + 0.2, "0.30000000000000004" }, { 5e-324, "4.94065645841247e-324" },
        { DBL_MAX, "1.7976931348623157e+308" }, { DBL_MIN, "2.2250738585072014e-308" },
        { 9007199254740993.0, "9007199254740992" }, { -1e-5, "-1e-05" }, { NAN, "nan" },
        { INFINITY, "inf" }, { -INFINITY, "-inf" },
    };
    char text[32];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = gpumc_format_number(known[i].value, text);
        CHECK(strcmp(text, known[i].text) == 0 && n == strlen(text), "%s for %s", text, known[i].text);
        CHECK(same(parse(text, n), known[i].value), "%s does not read back", text);
    }
}

/* Values of all kinds, written and read again, are equal bit for bit, and have the fewest digits possible of 15, 16
   and 17. */
static void check_round_trip(size_t n)
{
    size_t bad = 0, longer = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = i % 2 ? from_bits(random_bits())
                               : ((double)random_below(2000001) - 1e6) / (double)(1 + random_below(1000));
        char text[32], plain[32];
        const size_t length = gpumc_format_number(x, text);
        int digits = 15;
        while (snprintf(plain, sizeof plain, "%.*g", digits, x), digits < 17 && strtod(plain, NULL) != x)
            digits++;
        bad += !same(parse(text, length), x) || length != strlen(text);
        longer += isfinite(x) && strcmp(text, plain) != 0;
    }
    CHECK(bad == 0, "%zu of %zu numbers do not read back", bad, n);
    CHECK(longer == 0, "%zu of %zu numbers have too many digits", longer, n);
}

/* Decimal texts round as the library's strtod rounds them in the C locale. */
static void check_against_strtod(size_t n)
{
    size_t bad = 0, bad_fast = 0;
    char text[64];
    for (size_t i = 0; i < n; i++) {
        const size_t digits = 1 + random_below(i % 3 ? 20 : 40), point = random_below(digits + 1);
        size_t at = 0;
        if (random_below(2)) text[at++] = '-';
        for (size_t d = 0; d < digits; d++) {
            if (d == point) text[at++] = '.';
            text[at++] = (char)('0' + random_below(10));
        }
        if (random_below(2)) at += (size_t)snprintf(text + at, 16, "e%d", (int)random_below(660) - 340);
        text[at] = 0;
        bad += !same(parse(text, at), isinf(strtod(text, NULL)) ? 12345.5 : strtod(text, NULL));
        bad_fast += !same(strtod(text, NULL) * (1 + DBL_EPSILON), strtod(text, NULL));
    }
    CHECK(bad == 0, "%zu of %zu texts are misread", bad, n);
    CHECK(bad_fast > n / 2, "the check does not notice an error of one unit");
}

/* Halves a decimal number in place; text ends in enough zeros to hold the result. */
static void halve_text(char *text)
{
    int rest = 0;
    for (; *text; text++) {
        if (*text == '.') continue;
        rest = rest * 10 + (*text - '0');
        *text = (char)('0' + rest / 2);
        rest %= 2;
    }
}

/* Decimal texts half way between two doubles, of up to 767 digits; and the same with a 1 a thousand digits later. */
static void check_half_way(void)
{
    static char text[3000], expected[64];
    for (size_t i = 0; i < 300; i++) {
        const uint64_t mantissa = i < 100 ? 2 * i + 1 : random_bits() >> (12 + random_below(40)) | 1;
        const double odd = from_bits((i % 3 == 2 ? random_below(1000) << 52 : 0)
                                     | (mantissa & 0xfffffffffffff));
        int n = snprintf(text, sizeof text, "%.1100f", odd);
        halve_text(text);
        CHECK(same(parse(text, (size_t)n), strtod(text, NULL)), "half of %a", odd);
        memset(text + n, '0', 1000);
        strcpy(text + n + 1000, "1");
        CHECK(same(parse(text, strlen(text)), strtod(text, NULL)), "just above half of %a", odd);
    }
    snprintf(expected, sizeof expected, "%.17g",
             parse("1.00000000000000011102230246251565404236316680908203125", 55));
    CHECK(strcmp(expected, "1") == 0, "1 + 2^-53 goes to even, not %s", expected);
    snprintf(expected, sizeof expected, "%.17g",
             parse("1.00000000000000011102230246251565404236316680908203126", 55));
    CHECK(strcmp(expected, "1.0000000000000002") == 0, "just above 1 + 2^-53 goes up, not to %s", expected);
}

static void check_number_grammar(void)
{
    static const struct { const char *text; double value; } good[] = {
        { "1", 1 }, { "+1", 1 }, { "-1", -1 }, { "1.", 1 }, { ".5", 0.5 }, { "1e3", 1000 },
        { "1E+3", 1000 }, { "1.5e-3", 0.0015 }, { "00012", 12 }, { "0e999999999999999999999", 0 },
        { "1e-999999999999999999999", 0 }, { "-0", -0.0 }, { "nan", NAN }, { "-NaN", NAN },
        { "Inf", INFINITY }, { "+inf", INFINITY }, { "-INFINITY", -INFINITY },
        { "0.000000000000000000000000000000000000001e39", 1 },
    };
    static const char *const bad[] = {
        "", "+", "-", ".", "e5", "1e", "1e+", "1x", "x1", "0x10", "1,5", "1 ", " 1", "--1", "1e5.5",
        "1.2.3", "infinit", "nann", "in", "1e309", "-1e400", "1_000", ("\xc2\xa0" "1"),
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(same(parse(good[i].text, strlen(good[i].text)), good[i].value), "%s", good[i].text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse(bad[i], strlen(bad[i])) == 12345.5, "%s was taken for a number", bad[i]);
    CHECK(parse("12345", 3) == 123, "a number ends with its length");
}

/* ---- readers: what they make of texts ------------------------------------------------------------------ */

/* All data read, as one text: x=1; y[2,3]=1 2 3 4 5 6; z~=0.5, where ~ marks variables that are not integer. */
static const char *describe(const gpumc_data *data)
{
    static char text[4000];
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < data->n_variables; i++) {
        const gpumc_variable *v = &data->variables[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? "; " : "", v->name);
        for (size_t d = 0; d < v->n_dims; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%zu%s", d ? "," : "[", v->dims[d],
                                  d + 1 < v->n_dims ? "" : "]");
        n += (size_t)snprintf(text + n, sizeof text - n, v->is_integer ? "=" : "~=");
        for (size_t k = 0; k < v->n_values; k++) {
            char number[32];
            gpumc_format_number(v->values[k], number);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k ? " " : "", number);
        }
    }
    return text;
}

typedef struct reader_case { const char *text, *result; } reader_case;

/* Compares what is read, or the text of the error, with what the case expects. The text is passed without a
   terminating zero. */
static void check_case(const reader_case *c, const gpumc_csv_options *options, int csv)
{
    const size_t length = strlen(c->text);
    ledger l = { 0 };
    char *exact = malloc(length + 1);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_data data;
    gpumc_status status;
    memset(&data, 0, sizeof data);
    data.allocator = ledger_allocator(&l);
    exact = realloc(memcpy(exact, c->text, length), length ? length : 1);
    status = csv ? gpumc_parse_csv(exact, length, options, &data, &error)
                 : gpumc_parse_json(exact, length, &data, &error);
    if (status == GPUMC_OK)
        CHECK(strcmp(describe(&data), c->result) == 0, "%s\n    gave %s\n    not  %s", c->text,
              describe(&data), c->result);
    else {
        CHECK(strcmp(error.text, c->result) == 0, "%s\n    gave %s\n    not  %s", c->text, error.text,
              c->result);
        CHECK(status == GPUMC_ERROR_FORMAT && error.status == status && data.n_variables == 0
                  && !data.variables,
              "status %d", status);
    }
    gpumc_data_free(&data);
    CHECK(l.live == 0, "%zu blocks are left after %s", l.live, c->text);
    free(exact);
}

static const reader_case json_cases[] = {
    { "{}", "" },
    { " \t\r\n{ } \n", "" },
    { "\xef\xbb\xbf{\"a\":1}", "a=1" },
    { "{\"J\": 8, \"y\": [28, 8, -3], \"sigma\": [15, 1e1, 16.5]}",
      "J=8; y[3]=28 8 -3; sigma[3]~=15 10 16.5" },
    { "{\"A\":[[1,2,3],[4,5,6]]}", "A[2,3]=1 2 3 4 5 6" },
    { "{\"A\":[[[1],[2]],[[3],[4]],[[5],[6]]]}", "A[3,2,1]=1 2 3 4 5 6" },
    { "{\"a\":[],\"b\":[[],[]],\"c\":[[[]],[[]],[[]]]}", "a[0]=; b[2,0]=; c[3,1,0]=" },
    { "{\"a\":[ [ 1 , 2 ] ,\n[ 3 , 4 ] ] , \"b\" : -0 }", "a[2,2]=1 2 3 4; b=-0" },
    { "{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}", "a[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]=1" },
    { "{\"a\":[NaN,Infinity,-Infinity],\"b\":\"NaN\"}", "a[3]~=nan inf -inf; b~=nan" },
    { "{\"a\":[\"inf\",\"-Inf\",\"+inf\",\"+INFINITY\",\"nan\",\"-iNfInItY\"]}",
      "a[6]~=inf -inf inf inf nan -inf" },
    { "{\"a\":9007199254740992,\"b\":9007199254740993,\"c\":-9007199254740992,\"d\":1e2,\"e\":1.0}",
      "a=9007199254740992; b~=9007199254740992; c=-9007199254740992; d~=100; e~=1" },
    { "{\"a\":123456789012345678901234567890}", "a~=1.2345678901234568e+29" },
    { "{\"\xc3\xa9t\xc3\xa9\":1,\"\xf0\x9f\x98\x80\":3,\"a b\":4}",
      "\xc3\xa9t\xc3\xa9=1; \xf0\x9f\x98\x80=3; a b=4" },
    { "{\"a\":1,\"A\":2,\"aa\":3}", "a=1; A=2; aa=3" },
    { "{\"a\":0,\"b\":-0.0,\"c\":0e5,\"d\":1E+2,\"e\":5e-324}",
      "a=0; b~=-0; c~=0; d~=100; e~=4.94065645841247e-324" },

    { "", "line 1, column 1: the text ends where the { of an object should be" },
    { "[1]", "line 1, column 1: \"[1\" where the { of an object should be" },
    { "{", "line 1, column 2: the text ends where the name of a variable in quotes should be" },
    { "{a:1}", "line 1, column 2: \"a\" where the name of a variable in quotes should be" },
    { "{\"a\":1,}", "line 1, column 8: \"}\" where the name of a variable in quotes should be" },
    { "{\"a\" 1}", "line 1, column 6: variable \"a\": \"1\" where a colon should be" },
    { "{\"a\":}", "line 1, column 6: variable \"a\": \"}\" where a number or an array should be" },
    { "{\"a\":", "line 1, column 6: variable \"a\": the text ends where a number or an array should be" },
    { "{\"a\":1", "line 1, column 7: the text ends where a comma or } should be" },
    { "{\"a\":1 \"b\":2}", "line 1, column 8: \"\"b\"\" where a comma or } should be" },
    { "{\"a\":1}\n\n x", "line 3, column 2: \"x\" where the end of the text should be" },
    { "{\"a\":1}{}", "line 1, column 8: \"{\" where the end of the text should be" },
    { "{\"a\":1,\n \"b\":2,\n  \"a\":3}", "line 3, column 3: variable \"a\": the second of this name" },
    { "{\"\":1}", "line 1, column 2: a variable without a name" },
    { "{\"a\":[1,2,[3]]}",
      "line 1, column 11: variable \"a\": ragged array: an array where there were numbers before" },
    { "{\"a\":[[1,2],\n[3]]}",
      "line 2, column 3: variable \"a\": ragged array: 1 elements where there were 2 before" },
    { "{\"a\":[[1],[]]}",
      "line 1, column 12: variable \"a\": ragged array: 0 elements where there were 1 before" },
    { "{\"a\":[[],[1]]}",
      "line 1, column 12: variable \"a\": ragged array: 1 elements where there were 0 before" },
    { "{\"a\":[[],[[]]]}",
      "line 1, column 13: variable \"a\": ragged array: 1 elements where there were 0 before" },
    { "{\"a\":[[1],2]}",
      "line 1, column 11: variable \"a\": ragged array: a number where there were arrays before" },
    { "{\"a\":[[],2]}",
      "line 1, column 10: variable \"a\": ragged array: a number where there were arrays before" },
    { "{\"a\":[[[1]],[2]]}",
      "line 1, column 14: variable \"a\": ragged array: a number where there were arrays before" },
    { "{\"a\":[1,]}", "line 1, column 9: variable \"a\": \"]\" where a number or an array should be" },
    { "{\"a\":[[1],]}", "line 1, column 11: variable \"a\": \"]\" where a number or an array should be" },
    { "{\"a\":[,1]}", "line 1, column 7: variable \"a\": \",1\" where a number or an array should be" },
    { "{\"a\":[1 2]}", "line 1, column 9: variable \"a\": \"2\" where a comma or ] should be" },
    { "{\"a\":[1", "line 1, column 8: variable \"a\": the text ends where a comma or ] should be" },
    { "{\"a\":[", "line 1, column 7: variable \"a\": the text ends where a number or an array should be" },
    { "{\"a\":[1}}", "line 1, column 8: variable \"a\": \"}\" where a comma or ] should be" },
    { "{\"a\":1]}", "line 1, column 7: \"]\" where a comma or } should be" },
    { "{\"a\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}",
      "line 1, column 22: variable \"a\": more than 16 nested arrays" },
    { "{\"a\":null}", "line 1, column 6: variable \"a\": \"null\" where a number or an array should be" },
    { "{\"a\":[true]}", "line 1, column 7: variable \"a\": \"true\" where a number or an array should be" },
    { "{\"a\":false}", "line 1, column 6: variable \"a\": \"false\" where a number or an array should be" },
    { "{\"a\":{\"1\":2}}",
      "line 1, column 6: variable \"a\": \"{\"1\"\" where a number or an array should be" },
    { "{\"a\":\"text\"}",
      "line 1, column 6: variable \"a\": \"\"text\"\" where a number or an array should be" },
    { "{\"a\":\"\"}", "line 1, column 6: variable \"a\": \"\"\"\" where a number or an array should be" },
    { "{\"a\":\"1\"}", "line 1, column 6: variable \"a\": \"\"1\"\" where a number or an array should be" },
    { "{\"a\":\"NaN}", "line 1, column 6: variable \"a\": \"\"NaN\" where a number or an array should be" },
    { "{\"a\":a_text_that_goes_on_and_on}",
      "line 1, column 6: variable \"a\": \"a_text_that_goes_on_and_\" where a number or an array should be" },
    { "{\"a\":01}", "line 1, column 6: variable \"a\": \"01\" where a number or an array should be" },
    { "{\"a\":-00.5}", "line 1, column 6: variable \"a\": \"-00.5\" where a number or an array should be" },
    { "{\"a\":1.}", "line 1, column 6: variable \"a\": \"1.\" where a number or an array should be" },
    { "{\"a\":1.e5}", "line 1, column 6: variable \"a\": \"1.e5\" where a number or an array should be" },
    { "{\"a\":.5}", "line 1, column 6: variable \"a\": \".5\" where a number or an array should be" },
    { "{\"a\":+1}", "line 1, column 6: variable \"a\": \"+1\" where a number or an array should be" },
    { "{\"a\":-}", "line 1, column 6: variable \"a\": \"-\" where a number or an array should be" },
    { "{\"a\":1e}", "line 1, column 6: variable \"a\": \"1e\" where a number or an array should be" },
    { "{\"a\":[1,\n  -1e999]}", "line 2, column 3: variable \"a\": a number too large for a double" },
    { "{\"a\":nan}", "line 1, column 6: variable \"a\": \"nan\" where a number or an array should be" },
    { "{\"a\":NaNa}", "line 1, column 9: \"a\" where a comma or } should be" },
    { "{\"a\":0x10}", "line 1, column 7: \"x10\" where a comma or } should be" },
    { "{\"a", "line 1, column 2: a name that does not end" },
    { "{\"a\\", "line 1, column 4: an escape in a name: write the character itself" },
    { "{\"\\u00e9\":1}", "line 1, column 3: an escape in a name: write the character itself" },
    { "{\"a\nb\":1}", "line 1, column 2: a name with control characters, or not UTF-8" },
    { "{\"a\xff\":1}", "line 1, column 2: a name with control characters, or not UTF-8" },
    { "{\"\xc0\xaf\":1}", "line 1, column 2: a name with control characters, or not UTF-8" },         /* overlong */
    { "{\"\xed\xa0\x80\":1}", "line 1, column 2: a name with control characters, or not UTF-8" },     /* surrogate */
    { "{\"\xf4\x90\x80\x80\":1}", "line 1, column 2: a name with control characters, or not UTF-8" }, /* above U+10FFFF */
    { "{\"\xe0\x80\x80\":1}", "line 1, column 2: a name with control characters, or not UTF-8" },
    { "{\"\xf0\x9f\x98\":1}", "line 1, column 2: a name with control characters, or not UTF-8" }, /* cut off */
    { "{\"\xc3\xa9\":1, \xe2\x82\xac}",
      "line 1, column 9: \"\xe2\x82\xac\" where the name of a variable in quotes should be" },
};

static const reader_case csv_cases[] = {
    { "a,b\n1,2\n3,4\n", "a[2]=1 3; b[2]=2 4" },
    { "\xef\xbb\xbf"
      "a,b\r\n1,2\r\n3,4",
      "a[2]=1 3; b[2]=2 4" },
    { "a\n1\n2.5\r", "a[2]~=1 2.5" },
    { "a,b\n", "a[0]=; b[0]=" },
    { "a,b", "a[0]=; b[0]=" },
    { "\"L[2,1]\",\"say \"\"hi\"\"\", c \n 1 ,\"2\",\t3\n", "L[2,1][1]=1; say \"hi\"[1]=2; c[1]=3" },
    { "\"\",y\n\"1\",0.5\n\"2\",1e1\n", "V1[2]=1 2; y[2]~=0.5 10" },
    { "a,b,c,d,e\n,NA,NaN,nan,\"NA\"\n1,1,1,1,1\n",
      "a[2]~=nan 1; b[2]~=nan 1; c[2]~=nan 1; d[2]~=nan 1; e[2]~=nan 1" },
    { "a,b\n1,\n,2", "a[2]~=1 nan; b[2]~=nan 2" },
    { "a,b\ninf,-Inf\nInfinity,+inf\n", "a[2]~=inf inf; b[2]~=-inf inf" },
    { "a,b\n+1,.5\n1.,-2e-3\n", "a[2]~=1 1; b[2]~=0.5 -0.002" },
    { "a\n1\n\n\r\n\n", "a[1]=1" },
    { "a\n1\n\r", "a[1]=1" },
    { "a\n9007199254740993\n", "a[1]~=9007199254740992" },
    { "\xc3\xa9,b\n1,2\n", "\xc3\xa9[1]=1; b[1]=2" },
    { "#a\n1\n", "#a[1]=1" },
    { "a,b\n\"1\"  ,2\n", "a[1]=1; b[1]=2" },

    { "", "line 1, column 1: no line that names or holds anything" },
    { "\n\n", "line 3, column 1: no line that names or holds anything" },
    { "\na\n1\n", "line 1, column 1: an empty line before others (a missing value is NA)" },
    { "a,b\n1,2\n3\n", "line 3, column 2: a row of fewer than 2 fields" },
    { "a,b\n1,2,3\n", "line 2, column 4: a row of more than 2 fields" },
    { "a,b\n1,2,\n", "line 2, column 4: a row of more than 2 fields" },
    { "a,b\n1,2,", "line 2, column 4: a row of more than 2 fields" },
    { "a\n1\n\n2\n", "line 3, column 1: an empty line before others (a missing value is NA)" },
    { "a,b\n1,x\n", "line 2, column 3: variable \"b\": \"x\" is not a number" },
    { "a,b\n1,2;5\n", "line 2, column 3: variable \"b\": \"2;5\" is not a number" },
    { "a,b\n1,\"2,5\"\n", "line 2, column 3: variable \"b\": \"2,5\" is not a number" },
    { "a,b\n1,2 3\n", "line 2, column 3: variable \"b\": \"2 3\" is not a number" },
    { "a,b\n1,0x1p3\n", "line 2, column 3: variable \"b\": \"0x1p3\" is not a number" },
    { "a,b\n1,1e999\n", "line 2, column 3: variable \"b\": \"1e999\" is too large for a double" },
    { "a,b\n1,na\n", "line 2, column 3: variable \"b\": \"na\" is not a number" },
    { "a,b\n1,\"2\n3\"\n", "line 2, column 3: variable \"b\": a quote that does not end in its line" },
    { "a,b\n1,\"2\"x\n", "line 2, column 3: variable \"b\": \"\"2\"x\" is not a number" },
    { "a,b\n1,2\"\"\n", "line 2, column 3: variable \"b\": \"2\"\"\" is not a number" },
    { "a,b\n1,2\r3\n", "line 2, column 4: a return without a new line, which must end each line" },
    { "a,b\r1,2\r3,4\r", "line 1, column 4: a return without a new line, which must end each line" },
    { "a,b\n1,\r2\n", "line 2, column 3: a return without a new line, which must end each line" },
    { "\ra\n1\n", "line 1, column 1: a return without a new line, which must end each line" },
    { "a,b\r\r\n1,2\r\r\n", "a[1]=1; b[1]=2" },
    { "a,a\n1,2\n", "line 1, column 3: variable \"a\": the second of this name" },
    { "V2,\n1,2\n", "line 1, column 4: variable \"V2\": the second of this name" },
    { "a,b\xff\n1,2\n", "line 1, column 3: a name with control characters, or not UTF-8" },
    { "a,\x01\n1,2\n", "line 1, column 3: a name with control characters, or not UTF-8" },
    { "a,b\"\"c\"\"\"\"\n1,2\n", "a[1]=1; b\"c\"\"[1]=2" },
    { "a,\"b\"c\"d\"\n1,2\n", "line 1, column 3: a stray quote" },
    { "a,\"b\"c\n1,2\n", "line 1, column 3: a stray quote" },
    { "a,b\n1,\xff\n", "line 2, column 3: variable \"b\": \"\xff\" is not a number" },
};

static void check_readers(void)
{
    static const reader_case semicolon[] = {
        { "a;b\n1;2,5\n", "line 2, column 3: variable \"b\": \"2,5\" is not a number" },
        { "a;\"b;c\"\n1;2.5\n", "a[1]=1; b;c[1]~=2.5" },
    };
    static const reader_case tabs[] = { { "a\tb\n 1 \t\n\t2\n", "a[2]~=1 nan; b[2]~=nan 2" } };
    static const reader_case blanks[] = { { "a b\n1 2\n", "a[1]=1; b[1]=2" } };
    static const reader_case no_header[] = {
        { "1,2\n3,4.5\n", "V1[2]=1 3; V2[2]~=2 4.5" },
        { "", "line 1, column 1: no line that names or holds anything" },
        { "1,2\n3\n", "line 2, column 2: a row of fewer than 2 fields" },
    };
    static const reader_case comments[] = {
        { "# first\n#\n\"a\",b\n# 1,2,3\n1,2\n#", "a[1]=1; b[1]=2" },
        { "# only", "line 1, column 7: no line that names or holds anything" },
        { "a,b\n1,2\n 1,#\n", "line 3, column 4: variable \"b\": \"#\" is not a number" },
    };
    static const reader_case missing[] = {
        { "a,b\n1,2\n", "a[1]=1; b[1]=2" },
        { "a,b\n1,\n", "line 2, column 3: variable \"b\": the value is missing" },
        { "a,b\n1,NA\n", "line 2, column 3: variable \"b\": the value is missing" },
        { "a,b\n1,2\nnan,1\n", "line 3, column 1: variable \"a\": the value is missing" },
        { "a,b\n1,inf\n", "a[1]=1; b[1]~=inf" },
    };
    static const struct { gpumc_csv_options options; const reader_case *cases; size_t n; } sets[] = {
        { { 0, 0, 0, 0 }, csv_cases, sizeof csv_cases / sizeof *csv_cases },
        { { ';', 0, 0, 0 }, semicolon, 2 }, { { '\t', 0, 0, 0 }, tabs, 1 }, { { ' ', 0, 0, 0 }, blanks, 1 },
        { { 0, 1, 0, 0 }, no_header, 3 }, { { 0, 0, 1, 0 }, comments, 3 }, { { 0, 0, 0, 1 }, missing, 5 },
    };
    for (size_t i = 0; i < sizeof json_cases / sizeof *json_cases; i++) check_case(&json_cases[i], NULL, 0);
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
        for (size_t i = 0; i < sets[s].n; i++) check_case(&sets[s].cases[i], &sets[s].options, 1);
    check_case(&csv_cases[0], NULL, 1);
}

/* Texts with a zero byte inside, and arguments that no text could have. */
static void check_reader_arguments(void)
{
    static const char *const delimiters = "e5.-+\"#\n\r";
    gpumc_error error;
    gpumc_data data;
    memset(&data, 0, sizeof data);
    CHECK(gpumc_parse_json("{\"a\0b\":1}", 9, &data, &error) == GPUMC_ERROR_FORMAT, "zero byte in a name");
    CHECK(gpumc_parse_json("{\"a\":1}\0", 8, &data, &error) == GPUMC_ERROR_FORMAT, "zero byte at the end");
    CHECK(gpumc_parse_json("{\"a\":\"\0\"}", 9, &data, &error) == GPUMC_ERROR_FORMAT,
          "zero byte behind a backslash");
    CHECK(gpumc_parse_csv("a\n1\0\n", 5, NULL, &data, &error) == GPUMC_ERROR_FORMAT, "zero byte in a number");
    CHECK(gpumc_parse_csv("a\0\n1\n", 5, NULL, &data, &error) == GPUMC_ERROR_FORMAT, "zero byte in a header");
    CHECK(gpumc_parse_json(NULL, 0, &data, &error) == GPUMC_ERROR_FORMAT, "no text");
    CHECK(gpumc_parse_json(NULL, 1, &data, NULL) == GPUMC_ERROR_ARGUMENT, "NULL text");
    CHECK(gpumc_parse_json("{}", 2, NULL, &error) == GPUMC_ERROR_ARGUMENT, "NULL data");
    CHECK(gpumc_parse_csv("a", 1, NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "NULL data");
    CHECK(gpumc_read_json(NULL, &data, &error) == GPUMC_ERROR_ARGUMENT, "NULL path");
    CHECK(gpumc_read_csv(in_folder("x"), NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "NULL data");
    for (const char *d = delimiters; *d; d++) {
        const gpumc_csv_options options = { *d, 0, 0, 0 };
        CHECK(gpumc_parse_csv("a", 1, &options, &data, &error) == GPUMC_ERROR_FORMAT
                  && strstr(error.text, "cannot separate"),
              "delimiter %d", *d);
    }
    gpumc_data_free(&data);
    gpumc_data_free(NULL);
}

static void check_data_get(void)
{
    static const char text[] = "{\"J\":8,\"y\":[1,2.5,3],\"z\":[1,2.0],\"e\":[]}";
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_data data;
    memset(&data, 0, sizeof data);
    CHECK(gpumc_parse_json(text, strlen(text), &data, &error) == GPUMC_OK, "%s", error.text);
    CHECK(gpumc_data_get(&data, "J", 1, 1, &error) == &data.variables[0], "J");
    CHECK(gpumc_data_get(&data, "y", 0, 0, NULL) == &data.variables[1], "y of any size");
    CHECK(gpumc_data_get(&data, "e", 0, 1, NULL) == &data.variables[3], "an empty array holds integers");
    CHECK(!gpumc_data_get(&data, "x", 1, 0, &error), "x");
    CHECK(strcmp(error.text, "no variable \"x\" in the data") == 0, "%s", error.text);
    CHECK(!gpumc_data_get(&data, "y", 8, 0, &error), "y of 8");
    CHECK(strcmp(error.text, "variable \"y\": 3 values where 8 should be") == 0, "%s", error.text);
    CHECK(!gpumc_data_get(&data, "y", 3, 1, &error), "y of integers");
    CHECK(strcmp(error.text, "variable \"y\" must hold integers, without point or exponent, up to 2^53") == 0,
          "%s", error.text);
    CHECK(!gpumc_data_get(&data, "z", 2, 1, &error), "z of integers");
    CHECK(strncmp(error.text, "variable \"z\" must hold integers", 31) == 0, "%s", error.text);
    CHECK(!gpumc_data_get(&data, NULL, 0, 0, NULL) && !gpumc_data_get(NULL, "x", 0, 0, &error), "NULL");
    gpumc_data_free(&data);
}

/* The time for names grows with their number, not with its square: then it would be a minute. */
static void check_many_names(void)
{
    const size_t n = 100000, two = 2, dims[] = { 50, 2000 };
    gpumc_block array = { "array", dims, 2, 0, 100000, 0, GPUMC_GENERATED };
    char *text = malloc(n * 16 + 16), name[32];
    gpumc_block *blocks = malloc(n * sizeof *blocks);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_fit fit;
    gpumc_data data;
    size_t at = 0, n_right = 0;
    const clock_t begin = clock();
    memset(&data, 0, sizeof data);
    memset(&fit, 0, sizeof fit);
    for (size_t i = 0; i < n; i++) at += (size_t)sprintf(text + at, "%s\"v%zu\":%zu", i ? "," : "{", i, i);
    CHECK(gpumc_parse_json(text, at + (size_t)sprintf(text + at, "}"), &data, &error) == GPUMC_OK, "%s",
          error.text);
    CHECK(data.n_variables == n && data.variables[n - 1].values[0] == (double)(n - 1), "%zu names",
          data.n_variables);
    gpumc_data_free(&data);
    sprintf(text + at, ",\"v777\":1}");
    CHECK(gpumc_parse_json(text, strlen(text), &data, &error) == GPUMC_ERROR_FORMAT
              && strstr(error.text, "\"v777\""),
          "%s", error.text);
    fit.blocks = blocks;
    for (; fit.n_blocks < n; fit.n_blocks++) {             /* a, b[1], b[2], a, b[1], b[2], ... */
        const size_t k = fit.n_blocks % 2;
        const gpumc_block b = { k ? "b" : "a", &two, k, fit.n_columns, 1 + k, 0, GPUMC_GENERATED };
        blocks[fit.n_blocks] = b;
        fit.n_columns += b.size;
    }
    for (size_t i = 0; i < fit.n_columns; i++) {
        gpumc_column_name(&fit, i, name, sizeof name);
        n_right += strcmp(name, i % 3 == 0 ? "a" : i % 3 == 1 ? "b[1]" : "b[2]") == 0;
    }
    CHECK(n_right == 3 * n / 2 && gpumc_column_name(&fit, 3 * n / 2, name, sizeof name) == 0, "%zu names", n_right);
    fit.blocks = &array;
    fit.n_blocks = 1;
    fit.n_columns = n;
    for (size_t i = n_right = 0; i < n; i += 50) {
        sprintf(name, "array[%zu,%zu]", i / 2000 + 1, i % 2000 + 1);
        n_right += gpumc_column(&fit, name) == i;
    }
    CHECK(n_right == n / 50, "%zu columns", n_right);
    static const char *const absent[] = { "array", "arra[1,1]", "array[1]", "array[1,1", "array[ 1,1]", "array[1,1]x",
        "array[0,1]", "array[51,1]", "array[1,2001]", "array[01,1]", "array[1,1,1]", "array[-1,1]", "array[" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK(gpumc_column(&fit, absent[i]) == SIZE_MAX, "%s is there", absent[i]);
    CHECK(clock() - begin < 5 * CLOCKS_PER_SEC, "%g s", (double)(clock() - begin) / CLOCKS_PER_SEC);
    free(blocks);
    free(text);
}

static void check_reading_files(void)
{
    static const char json[] = "{\"a\":[1,2],\n\"b\":x}", csv[] = "a,b\n1,2\n";
    char *large = malloc(1000002);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_data data;
    memset(&data, 0, sizeof data);
    write_text(in_folder("d.json"), json, strlen(json));
    CHECK(gpumc_read_json(in_folder("d.json"), &data, &error) == GPUMC_ERROR_FORMAT, "bad file");
    CHECK(strstr(error.text, "d.json: line 2, column 5: variable \"b\": \"x\" where a number") != NULL, "%s",
          error.text);
    write_text(in_folder("d.csv"), csv, strlen(csv));
    CHECK(gpumc_read_csv(in_folder("d.csv"), NULL, &data, &error) == GPUMC_OK
              && strcmp(describe(&data), "a[1]=1; b[1]=2") == 0,
          "%s %s", error.text, describe(&data));
    gpumc_data_free(&data);
    CHECK(gpumc_read_json(in_folder("none.json"), &data, &error) == GPUMC_ERROR_FILE
          && strstr(error.text, "none.json: cannot be opened: no such file or directory"), "%s", error.text);
    CHECK(gpumc_read_csv(folder, NULL, &data, &error) == GPUMC_ERROR_FILE
              && strstr(error.text, "cannot be read"),
          "%s", error.text);
    memset(large, ' ', 1000002);
    memcpy(large, "{}", 2);
    write_text(in_folder("large.json"), large, 1000000);
    CHECK(gpumc_read_json(in_folder("large.json"), &data, &error) == GPUMC_OK, "%s", error.text);
    write_text(in_folder("large.json"), large, 1000001);
    CHECK(gpumc_read_json(in_folder("large.json"), &data, &error) == GPUMC_ERROR_FILE
          && strstr(error.text, "larger than GPUMC_MAX_FILE_BYTES, 1000000"), "%s", error.text);
    free(large);
    files_in_folder(1);
}

/* ---- a fit made by hand -------------------------------------------------------------------------------- */

enum { CHAINS = 2, DRAWS = 7, CAPACITY = 9, WARMUP = 5, COLUMNS = 11, FREE = 3 };

static size_t vector_dims[] = { 3 }, matrix_dims[] = { 2, 3 };
static gpumc_block hand_blocks[] = {
    { "mu", NULL, 0, 0, 1, 0, GPUMC_GENERATED }, { "theta", vector_dims, 1, 1, 3, 0, GPUMC_GENERATED },
    { "A", matrix_dims, 2, 4, 6, 0, GPUMC_GENERATED }, { "twice", NULL, 0, 10, 1, 1, GPUMC_GENERATED },
};
/* Columns of hand_blocks in the order of a Stan file: the first index of A runs fastest. */
static const size_t stan_columns[COLUMNS] = { 0, 1, 2, 3, 4, 7, 5, 8, 6, 9, 10 };
static const char stan_names[] =
    "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,mu,theta.1,theta.2,theta.3,"
    "A.1.1,A.2.1,A.1.2,A.2.2,A.1.3,A.2.3,twice";

static double hand_draws[CHAINS * CAPACITY * COLUMNS], hand_warmup[CHAINS * WARMUP * COLUMNS];
static gpumc_draw_stats hand_stats[CHAINS * CAPACITY], hand_warmup_stats[CHAINS * WARMUP];
static double hand_scale[FREE] = { 1, 2, 0.1 }, hand_vectors[2 * FREE] = { 0.6, 0.8, 0, 0, 0, 1 },
              hand_lambda[2] = { 4, 0.25 };
static double hand_factor[FREE * FREE] = { 2, 0, 0, 1, 3, 0, 0.5, -1, 0.25 }, hand_covariance[FREE * FREE];

static void hand_rows(double *values, gpumc_draw_stats *stats, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memset(&stats[i], 0, sizeof stats[i]);
        stats[i].lp = -((double)i + 1) / 3;
        stats[i].accept_stat = 0.875;
        stats[i].step_size = 0.1;
        stats[i].energy = (double)i / 7;
        stats[i].tree_depth = (int32_t)(i % 4);
        stats[i].n_leapfrog = (1 << i % 4) - 1;
        stats[i].divergent = i == 2 ? 7 : 0;      /* any value but 0 counts */
        for (size_t k = 0; k < COLUMNS; k++)
            values[i * COLUMNS + k] = (double)k + (double)(1 + random_below(1000)) / 1001;
    }
}

static gpumc_fit hand_fit(void)
{
    gpumc_fit fit;
    memset(&fit, 0, sizeof fit);
    fit.model_name = "hand";
    fit.n_chains = CHAINS;
    fit.n_draws = DRAWS;
    fit.draw_capacity = CAPACITY;
    fit.n_columns = COLUMNS;
    fit.n_params_columns = 10;
    fit.n_free = FREE;
    fit.blocks = hand_blocks;
    fit.n_blocks = 4;
    fit.draws = hand_draws;
    fit.stats = hand_stats;
    fit.step_size = 0.4321;
    fit.warmup_seconds = 0.5;
    fit.sampling_seconds = 0.25;
    fit.options.num_chains = CHAINS;
    fit.options.num_samples = CAPACITY;
    fit.options.num_warmup = 200;
    fit.options.thin = 1;
    fit.options.target_accept = 0.8;
    fit.options.max_treedepth = 10;
    fit.options.seed = 18446744073709551615u;
    fit.metric.kind = GPUMC_METRIC_DIAG;
    fit.metric.dim = FREE;
    fit.metric.scale = hand_scale;
    fit.metric.vectors = hand_vectors;
    fit.metric.lambda = hand_lambda;
    fit.metric.factor = hand_factor;
    fit.metric.covariance = hand_covariance;
    for (size_t i = 0; i < FREE; i++)
        for (size_t j = 0; j < FREE; j++) {
            hand_covariance[i * FREE + j] = 0;
            for (size_t k = 0; k < FREE; k++)
                hand_covariance[i * FREE + j] += hand_factor[i * FREE + k] * hand_factor[j * FREE + k];
        }
    random_state = 7;
    hand_rows(hand_draws, hand_stats, CHAINS * CAPACITY);
    hand_rows(hand_warmup, hand_warmup_stats, CHAINS * WARMUP);
    return fit;
}

static void keep_warmup(gpumc_fit *fit)
{
    fit->warmup_draws = hand_warmup;
    fit->warmup_stats = hand_warmup_stats;
    fit->n_warmup = WARMUP;
}

/* ---- a reader of Stan CSV that insists on everything its readers were seen to insist on ---------------- */

typedef struct stan_file { const char *at; char said[256]; } stan_file;

/* Records a complaint, unless there was one before; returns 0. */
static int stan_wrong(stan_file *f, const char *format, ...)
{
    va_list arguments;
    if (f->said[0]) return 0;
    va_start(arguments, format);
    vsnprintf(f->said, sizeof f->said, format, arguments);
    va_end(arguments);
    return 0;
}

/* Reads one line, without its newline, into line[600]; returns 0 at the end of the file. */
static int stan_line(stan_file *f, char *line)
{
    const size_t n = strcspn(f->at, "\n");
    line[0] = 0;
    if (!*f->at) return 0;
    if (f->at[n] != '\n') return stan_wrong(f, "the last line does not end");
    if (n >= 600) return stan_wrong(f, "a line of %zu characters", n);
    memcpy(line, f->at, n);
    line[n] = 0;
    f->at += n + 1;
    return 1;
}

static int stan_expect(stan_file *f, const char *wanted)
{
    char line[600];
    if (stan_line(f, line) && strcmp(line, wanted) == 0) return 1;
    return stan_wrong(f, "\"%s\" instead of \"%s\"", line, wanted);
}

/* The settings, in their order. Each line has one = and a value; Stan's own reader aborts on an empty value. */
static int stan_header(stan_file *f, const gpumc_fit *fit, size_t chain)
{
    static const char *const metrics[] = { "diag_e", "diag_e", "diag_e", "dense_e", "unit_e" };
    const int planned = fit->options.num_warmup > 0 ? fit->options.num_warmup : 0;
    const int warmup = fit->n_warmup > 0 ? (int)fit->n_warmup : planned;
    char wanted[1000], line[600];
    snprintf(wanted, sizeof wanted,
             "# stan_version_major = 2\n# stan_version_minor = 36\n# stan_version_patch = 0\n# model = %s\n"
             "# method = sample\n# num_samples = %zu\n# num_warmup = %zu\n# save_warmup = %d\n# thin = %d\n"
             "# engaged = %d\n# delta = 0.8\n# algorithm = hmc\n# engine = nuts\n# max_depth = %d\n"
             "# metric = %s\n# stepsize = %s\n# id = %zu\n# seed = %llu\n"
             "# generated_by = gpumc " GPUMC_VERSION "\n",
             fit->model_name, fit->n_draws * (size_t)fit->options.thin,
             fit->warmup_draws ? fit->n_warmup : (size_t)warmup, fit->warmup_draws != NULL, fit->options.thin,
             warmup > 0, fit->options.max_treedepth, metrics[fit->metric.kind],
             fit->options.step_size > 0 ? "0.25" : "1", fit->options.first_chain_id + chain + 1,
             (unsigned long long)fit->options.seed);
    for (const char *at = wanted; *at; at += strlen(line) + 1) {
        memcpy(line, at, strcspn(at, "\n"));
        line[strcspn(at, "\n")] = 0;
        if (!stan_expect(f, line)) return 0;
    }
    return 1;
}

/* One row, in Stan's order: integers without a decimal point, all other values equal bit for bit. */
static int stan_row(stan_file *f, const double *values, const gpumc_draw_stats *s)
{
    const double sampler[7] = { s->lp,         s->accept_stat,    s->step_size, s->tree_depth,
                                s->n_leapfrog, s->divergent != 0, s->energy };
    char line[600], *at = line, *end;
    if (!stan_line(f, line)) return stan_wrong(f, "a row is missing");
    for (size_t k = 0; k < 7 + COLUMNS; k++) {
        const double wanted = k < 7 ? sampler[k] : values[stan_columns[k - 7]];
        const double seen = strtod(at, &end);
        if (!same(seen, wanted))
            return stan_wrong(f, "field %zu is %.17g instead of %.17g", k + 1, seen, wanted);
        if (k >= 3 && k <= 5 && strspn(at, "0123456789") != (size_t)(end - at))
            return stan_wrong(f, "field %zu is not written whole", k + 1);
        if (*end != (k < 6 + COLUMNS ? ',' : 0)) return stan_wrong(f, "field %zu ends with %d", k + 1, *end);
        at = end + 1;
    }
    return 1;
}

/* A row `# 1, 2, 3` of the metric: FREE numbers, equal to within 1e-14 relative. */
static int stan_metric_row(stan_file *f, const double *wanted)
{
    char line[600], *at = line + 2, *end;
    if (!stan_line(f, line) || strncmp(line, "# ", 2) != 0) return stan_wrong(f, "metric row \"%s\"", line);
    for (size_t i = 0; i < FREE; i++) {
        const double seen = strtod(at, &end);
        if (check_distance(seen, wanted[i], 1e-300) > 1e-14)
            return stan_wrong(f, "metric %.17g instead of %.17g", seen, wanted[i]);
        if (i + 1 < FREE ? strncmp(end, ", ", 2) != 0 : *end != 0)
            return stan_wrong(f, "metric row \"%s\"", line);
        at = end + 2;
    }
    return 1;
}

static int stan_adaptation(stan_file *f, const gpumc_fit *fit)
{
    static const double diagonal[FREE] = { 1, 4, 0.1 * 0.1 };
    static const double low_rank[FREE] = { 1 + 3 * 0.36, 4 * (1 + 3 * 0.64),
                                           0.1 * 0.1 * 0.25 }; /* s^2 (1 + sum (lambda - 1) u^2) */
    static const double dense[FREE * FREE] = {
        4, 2, 1, 2, 10, -2.5, 1, -2.5, 1.3125
    }; /* L L' of hand_factor */
    if (!stan_expect(f, "# Adaptation terminated") || !stan_expect(f, "# Step size = 0.4321")) return 0;
    switch (fit->metric.kind) {
    case GPUMC_METRIC_UNIT: return stan_expect(f, "# No free parameters for unit metric");
    case GPUMC_METRIC_DENSE:
        if (!stan_expect(f, "# Elements of inverse mass matrix:")) return 0;
        for (size_t i = 0; i < FREE; i++) if (!stan_metric_row(f, dense + i * FREE)) return 0;
        return 1;
    default: return stan_expect(f, "# Diagonal elements of inverse mass matrix:")
                    && stan_metric_row(f, fit->metric.kind == GPUMC_METRIC_LOW_RANK ? low_rank : diagonal);
    }
}

/* The times, which readers expect at column 18. */
static int stan_times(stan_file *f)
{
    static const char *const tails[3] = { " seconds (Warm-up)", " seconds (Sampling)", " seconds (Total)" };
    static const double times[3] = { 0.5, 0.25, 0.75 };
    char line[600], *end;
    if (!stan_expect(f, "# ")) return 0;
    for (int i = 0; i < 3; i++) {
        if (!stan_line(f, line) || strncmp(line, i == 0 ? "#  Elapsed Time: " : "#                ", 17) != 0
            || line[17] == ' ')
            return stan_wrong(f, "time line \"%s\"", line);
        if (strtod(line + 17, &end) != times[i] || strcmp(end, tails[i]) != 0)
            return stan_wrong(f, "time line \"%s\"", line);
    }
    return stan_expect(f, "# ");
}

/* "" when text is the file of a chain of fit in every detail, otherwise the first complaint. */
static const char *stan_read(const char *text, const gpumc_fit *fit, size_t chain)
{
    static stan_file f;
    const size_t thin = (size_t)fit->options.thin;
    f.at = text;
    f.said[0] = 0;
    if (!stan_header(&f, fit, chain) || !stan_expect(&f, stan_names)) return f.said;
    for (size_t i = 0; fit->warmup_draws && i < fit->n_warmup; i += thin)
        if (!stan_row(&f, hand_warmup + (chain * WARMUP + i) * COLUMNS,
                      &hand_warmup_stats[chain * WARMUP + i]))
            return f.said;
    if (!stan_adaptation(&f, fit)) return f.said;
    for (size_t i = 0; i < fit->n_draws; i++)
        if (!stan_row(&f, hand_draws + (chain * CAPACITY + i) * COLUMNS, &hand_stats[chain * CAPACITY + i]))
            return f.said;
    if (stan_times(&f) && *f.at) stan_wrong(&f, "text behind the times");
    return f.said;
}

static void check_stan_files(const gpumc_fit *fit, const char *what)
{
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(gpumc_write_stan_csv(fit, in_folder("fit"), &error) == GPUMC_OK, "%s: %s", what, error.text);
    for (size_t c = 0; c < CHAINS; c++) {
        char name[32], *text;
        snprintf(name, sizeof name, "fit_%zu.csv", fit->options.first_chain_id + c + 1);
        text = read_text(in_folder(name));
        CHECK(strcmp(stan_read(text, fit, c), "") == 0, "%s, chain %zu: %s", what, c + 1,
              stan_read(text, fit, c));
        CHECK(strcmp(stan_read(text, fit, 1 - c), "") != 0, "%s: the other chain passes for this one", what);
        free(text);
    }
    CHECK(files_in_folder(1) == CHAINS, "%s: other files were left", what);
}

static void check_stan(void)
{
    static const struct {
        const char *what;
        gpumc_metric_kind kind;
        int warmup, thin;
        uint32_t first;
        double step_size;
    } cases[] = {
        { "diag", GPUMC_METRIC_DIAG, 0, 1, 0, 0 },
        { "dense", GPUMC_METRIC_DENSE, 0, 1, 0, 0 },
        { "unit", GPUMC_METRIC_UNIT, 0, 1, 0, 0 },
        { "low rank", GPUMC_METRIC_LOW_RANK, 0, 1, 0, 0 },
        { "warm-up", GPUMC_METRIC_DIAG, 1, 1, 0, 0 },
        { "thin", GPUMC_METRIC_DIAG, 0, 3, 0, 0 },
        { "warm-up, thin", GPUMC_METRIC_DENSE, 1, 2, 0, 0 },
        { "warm-up, thin, all", GPUMC_METRIC_UNIT, 1, 5, 0, 0 },
        { "later chains", GPUMC_METRIC_DIAG, 0, 1, 100, 0 },
        { "no warm-up", GPUMC_METRIC_UNIT, -1, 1, 0, 0.25 },
        { "warm-up that stopped early", GPUMC_METRIC_UNIT, 2, 1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpumc_fit fit = hand_fit();
        fit.metric.kind = cases[i].kind;
        fit.metric.rank = cases[i].kind == GPUMC_METRIC_LOW_RANK ? 2 : 0;
        fit.options.thin = cases[i].thin;
        fit.options.first_chain_id = cases[i].first;
        fit.options.step_size = cases[i].step_size;
        if (cases[i].warmup == 1) keep_warmup(&fit);
        if (cases[i].warmup == 2) fit.n_warmup = 110;
        if (cases[i].warmup < 0) fit.options.num_warmup = -1;
        check_stan_files(&fit, cases[i].what);
    }
}

/* The text with the first `from` replaced by `to`, to be freed. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *result = calloc(1, strlen(text) + strlen(to) + 1);
    CHECK(at != NULL, "no \"%s\" to replace", from);
    if (!at) return result;
    memcpy(result, text, (size_t)(at - text));
    strcat(strcat(result, to), at + strlen(from));
    return result;
}

/* A file with any one of these faults, at which readers fail, must be rejected. */
static void check_broken_stan(void)
{
    static const char *const traps[][2] = {
        { "# Step size", "# \n# Step size" },
        { "# Adaptation", "# a comment\n# Adaptation" },
        { "# 1, 4", "# 1,4" },
        { "# method = sample\n", "" },
        { "# id = 1\n", "" },
        { "# model = hand\n", "# model = \n" },
        { "# model = hand", "# model = a=b" },
        { "save_warmup = 0", "save_warmup = false" },
        { "num_samples = 7", "num_samples = 9" },
        { ",0,0,0,", ",0,0,0.0," },
        { ",0,0,0,", ",0.0,0,0," },
        { "A.2.1,A.1.2", "A.1.2,A.2.1" },
        { "lp__,accept_stat__", "accept_stat__,lp__" },
        { "#                0.25", "#               0.25" },
        { "Time: 0.5", "Time:  0.5" },
        { "(Total)\n# \n", "(Total)\n" },
        { "# Diagonal elements of", "# Elements of" },
        { "\n-", "\n#\n-" },
    };
    gpumc_fit fit = hand_fit(), row_major;
    gpumc_block blocks[4];
    size_t flat[] = { 6 };
    char *good, *bad, *body;
    gpumc_write_stan_csv(&fit, in_folder("fit"), NULL);
    good = read_text(in_folder("fit_1.csv"));
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        bad = replaced(good, traps[i][0], traps[i][1]);
        CHECK(strcmp(stan_read(bad, &fit, 0), "") != 0, "not noticed: \"%s\" for \"%s\"", traps[i][1],
              traps[i][0]);
        free(bad);
    }
    bad = strdup(good);
    strcpy(strrchr(bad, '#') - 200, strstr(good, "# \n#  Elapsed"));
    CHECK(strcmp(stan_read(bad, &fit, 0), "") != 0, "a file that is cut short is not noticed");
    free(bad);

    row_major = fit; /* names in Stan's order over a matrix written with its last index fastest */
    memcpy(blocks, hand_blocks, sizeof blocks);
    blocks[2].dims = flat;
    blocks[2].n_dims = 1;
    row_major.blocks = blocks;
    gpumc_write_stan_csv(&row_major, in_folder("fit"), NULL);
    body = read_text(in_folder("fit_1.csv"));
    bad = replaced(body, "A.1,A.2,A.3,A.4,A.5,A.6", "A.1.1,A.2.1,A.1.2,A.2.2,A.1.3,A.2.3");
    CHECK(strstr(stan_read(bad, &fit, 0), "field 13 is") != NULL, "row-major order is not noticed: %s",
          stan_read(bad, &fit, 0));
    free(bad);
    free(body);
    free(good);
    files_in_folder(1);
}

/* The library's CSV reader reads the names and draws that the library has written. */
static void check_stan_read_back(void)
{
    const gpumc_csv_options options = { 0, 0, 1, 0 };
    gpumc_fit fit = hand_fit();
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_data data;
    const gpumc_variable *v;
    size_t bad = 0;
    memset(&data, 0, sizeof data);
    gpumc_write_stan_csv(&fit, in_folder("fit"), NULL);
    CHECK(gpumc_read_csv(in_folder("fit_2.csv"), &options, &data, &error) == GPUMC_OK, "%s", error.text);
    CHECK(data.n_variables == 7 + COLUMNS, "%zu columns", data.n_variables);
    v = gpumc_data_get(&data, "A.2.3", DRAWS, 0, &error);
    for (size_t i = 0; v && i < DRAWS; i++)
        bad += !same(v->values[i], hand_draws[(CAPACITY + i) * COLUMNS + 9]);
    CHECK(v && bad == 0, "%zu draws of A[2,3] differ; %s", bad, error.text);
    CHECK(gpumc_data_get(&data, "treedepth__", DRAWS, 1, &error) != NULL, "%s", error.text);
    gpumc_data_free(&data);
    files_in_folder(1);
}

static void check_odd_fits(void)
{
    gpumc_fit fit = hand_fit();
    gpumc_error error = { GPUMC_OK, "" };
    char *text;
    hand_draws[(CAPACITY + 3) * COLUMNS + 5] = NAN;
    hand_draws[(CAPACITY + 4) * COLUMNS + 0] = -INFINITY;
    CHECK(gpumc_write_stan_csv(&fit, in_folder("fit"), &error) == GPUMC_OK && error.status == GPUMC_OK, "%s",
          error.text);
    CHECK(strcmp(error.text, "note: A[1,2] is not always finite: Stan's reader sees 0") == 0, "%s",
          error.text);
    text = read_text(in_folder("fit_2.csv"));
    CHECK(strcmp(stan_read(text, &fit, 1), "") == 0 && strstr(text, ",nan,") && strstr(text, ",-inf,"), "%s",
          stan_read(text, &fit, 1));
    free(text);
    fit = hand_fit();
    fit.model_name = "a=b\nc";                             /* would break the header */
    CHECK(gpumc_write_stan_csv(&fit, in_folder("fit"), NULL) == GPUMC_OK, "an odd name");
    text = read_text(in_folder("fit_1.csv"));
    CHECK(strstr(text, "# model = a_b_c\n") && strstr(text, ",mu,theta.1,theta.2,theta.3,A.1.1,"), "%.300s",
          text);
    free(text);
    files_in_folder(1);
    fit = hand_fit();
    fit.draws = NULL;
    fit.options.discard_draws = 1;
    CHECK(gpumc_write_stan_csv(&fit, in_folder("fit"), &error) == GPUMC_ERROR_ARGUMENT
          && strcmp(error.text, "the fit holds no draws: discard_draws was set") == 0, "%s", error.text);
    fit = hand_fit();
    CHECK(gpumc_write_stan_csv(NULL, "x", &error) == GPUMC_ERROR_ARGUMENT
              && gpumc_write_stan_csv(&fit, NULL, NULL) == GPUMC_ERROR_ARGUMENT
              && gpumc_write_summary_csv(&fit, "", &error) == GPUMC_ERROR_ARGUMENT
              && gpumc_write_summary_csv(NULL, "x", &error) == GPUMC_ERROR_ARGUMENT,
          "missing arguments");
    CHECK(gpumc_write_summary_csv(&fit, in_folder("no/such/folder.csv"), &error) == GPUMC_ERROR_FILE
              && strstr(error.text, "folder.csv.tmp: cannot be created: no such file or directory"),
          "%s", error.text);
    CHECK(gpumc_write_summary_csv(&fit, folder, &error) == GPUMC_ERROR_FILE
              && strstr(error.text, "exists and is not an ordinary file"),
          "%s", error.text);
    CHECK(files_in_folder(1) == 0, "files were left");
}

/* ---- summary ------------------------------------------------------------------------------------------- */

/* "" when text is the summary of fit, otherwise the first complaint. */
static const char *summary_read(const char *text, const gpumc_fit *fit)
{
    static stan_file f;
    char line[600], name[64], quoted[80], *at, *end;
    f.at = text;
    f.said[0] = 0;
    if (!stan_expect(&f, "variable,mean,mcse,sd,q5,q50,q95,ess_bulk,ess_tail,r_hat")) return f.said;
    for (size_t k = 0; k < fit->n_columns; k++) {
        const gpumc_summary s = gpumc_summarise(fit, k);
        const double values[9] = {
            s.mean, s.mcse, s.sd, s.q5, s.q50, s.q95, s.ess_bulk, s.ess_tail, s.r_hat
        };
        gpumc_column_name(fit, k, name, sizeof name);
        snprintf(quoted, sizeof quoted, strchr(name, ',') ? "\"%s\"" : "%s", name);
        if (!stan_line(&f, line) || strncmp(line, quoted, strlen(quoted)) != 0) {
            stan_wrong(&f, "row \"%s\"", line);
            return f.said;
        }
        at = line + strlen(quoted);
        for (int i = 0; i < 9; i++) {
            if (*at != ',' || !same(strtod(at + 1, &end), values[i])) {
                stan_wrong(&f, "%s, number %d: %s", name, i + 1, at);
                return f.said;
            }
            at = end;
        }
        if (*at) stan_wrong(&f, "%s: more than nine numbers", name);
    }
    if (*f.at) stan_wrong(&f, "too many rows");
    return f.said;
}

static void check_summary(void)
{
    static const char *const traps[][2] = {
        { "\"A[1,2]\"", "A[1,2]" }, { "theta[2]", "theta.2" }, { ",mcse", "" },
        { "r_hat", "rhat" },        { "twice", "other" },      { "\nmu,", "\nmu,1" }
    };
    gpumc_fit fit = hand_fit();
    gpumc_error error = { GPUMC_OK, "" };
    char *text, *bad;
    CHECK(gpumc_write_summary_csv(&fit, in_folder("summary.csv"), &error) == GPUMC_OK, "%s", error.text);
    text = read_text(in_folder("summary.csv"));
    CHECK(strcmp(summary_read(text, &fit), "") == 0, "%s", summary_read(text, &fit));
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        bad = replaced(text, traps[i][0], traps[i][1]);
        CHECK(strcmp(summary_read(bad, &fit), "") != 0, "not noticed: \"%s\" for \"%s\"", traps[i][1],
              traps[i][0]);
        free(bad);
    }
    free(text);
    CHECK(files_in_folder(1) == 1, "other files were left");
}

/* ---- a decimal comma ----------------------------------------------------------------------------------- */

static void check_files_under_comma(void)
{
    static const char json[] = "{\"a\":[1.5,-2.25e-3,0.30000000000000004,1e25,123456789.123456789]}";
    gpumc_fit fit = hand_fit();
    gpumc_data data;
    char *text[3], number[32];
    double a = 0;
    memset(&data, 0, sizeof data);
    gpumc_write_stan_csv(&fit, in_folder("fit"), NULL);
    gpumc_write_summary_csv(&fit, in_folder("summary.csv"), NULL);
    gpumc_format_number(0.1 + 0.2, number);
    CHECK(gpumc_parse_json(json, strlen(json), &data, NULL) == GPUMC_OK, "JSON");
    for (size_t i = 0; data.n_variables && i < 5; i++) a += data.variables[0].values[i];
    gpumc_data_free(&data);
    CHECK(gpumc_parse_csv("a\n0.1234567890123456789\n", 24, NULL, &data, NULL) == GPUMC_OK, "CSV");
    if (data.n_variables) a += data.variables[0].values[0];
    gpumc_data_free(&data);
    decimal_comma = 0;
    setlocale(LC_ALL, "C");
    text[0] = read_text(in_folder("fit_1.csv"));
    text[1] = read_text(in_folder("fit_2.csv"));
    text[2] = read_text(in_folder("summary.csv"));
    CHECK(strcmp(number, "0.30000000000000004") == 0, "%s", number);
    CHECK(a == 1.5 - 2.25e-3 + 0.30000000000000004 + 1e25 + 123456789.123456789 + 0.1234567890123456789,
          "sum %.17g", a);
    CHECK(strcmp(stan_read(text[0], &fit, 0), "") == 0, "%s", stan_read(text[0], &fit, 0));
    CHECK(strcmp(stan_read(text[1], &fit, 1), "") == 0, "%s", stan_read(text[1], &fit, 1));
    CHECK(strcmp(summary_read(text[2], &fit), "") == 0, "%s", summary_read(text[2], &fit));
    for (int i = 0; i < 3; i++) free(text[i]);
    files_in_folder(1);
}

static void check_locale(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8",
                                         "fr_FR.utf8",  "nl_NL.UTF-8", "ps_AF.UTF-8" };
    char number[32];
    int found = 0;
    decimal_comma = 1;
    snprintf_comma(number, sizeof number, "%.*g", 3, 0.5);
    CHECK(strcmp(number, "0,5") == 0 && strtod_comma("0,5", NULL) == 0.5 && strtod_comma("0.5", NULL) == 0,
          "no comma to test with");
    check_files_under_comma();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_ALL, names[i])) continue;
        found = 1;
        check_files_under_comma();
    }
    if (!found) check_skip("no locale with a decimal comma is installed (one was imitated)");
}

/* ---- whatever can fail fails --------------------------------------------------------------------------- */

enum { JOBS = 6 };
static const char *const job_names[JOBS] = { "JSON", "CSV", "JSON file", "CSV file", "summary", "Stan CSV" };

static gpumc_status do_job(int job, ledger *l, gpumc_error *error)
{
    static const char json[] = "{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18],\"b\":2,\"c\":3,\"d\":"
                               "4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,"
                               "\"i\":9,\"j\":10,\"k\":11,\"l\":12,\"m\":13,\"n\":14,\"o\":15,\"p\":16,\"q\":"
                               "17,\"r\":\"NaN\",\"long name of a variable\":1}";
    static const char csv[] =
        "a,\"b\"\"\",c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\n1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n"
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,\"NA\"\n";
    gpumc_fit fit = hand_fit();
    gpumc_status status = GPUMC_OK;
    gpumc_data data;
    memset(&data, 0, sizeof data);
    data.allocator = fit.allocator = fit.options.allocator = ledger_allocator(l);
    if (job == 2) write_text(in_folder("../data"), json, strlen(json));
    if (job == 3) write_text(in_folder("../data"), csv, strlen(csv));
    switch (job) {
    case 0: status = gpumc_parse_json(json, strlen(json), &data, error); break;
    case 1: status = gpumc_parse_csv(csv, strlen(csv), NULL, &data, error); break;
    case 2: status = gpumc_read_json(in_folder("../data"), &data, error); break;
    case 3: status = gpumc_read_csv(in_folder("../data"), NULL, &data, error); break;
    case 4: status = gpumc_write_summary_csv(&fit, in_folder("fit_0.csv"), error); break;
    default: status = gpumc_write_stan_csv(&fit, in_folder("fit"), error);
    }
    if (job < 4)
        CHECK((status == GPUMC_OK) == (data.n_variables > 0) && !data.variables == !data.n_variables,
              "%s: data and status disagree", job_names[job]);
    gpumc_data_free(&data);
    remove(in_folder("../data"));
    return status;
}

/* Refuses the n-th allocation, alone or with all later ones, for n = 1, 2, ... until n exceeds their number. */
static void check_allocation_failures(int job)
{
    for (int later = 0; later < 2; later++)
        for (size_t n = 1;; n++) {
            ledger l = { .refuse_at = n, .refuse_later = later };
            gpumc_error error = { GPUMC_OK, "" };
            const gpumc_status status = do_job(job, &l, &error);
            const size_t files = files_in_folder(1);
            CHECK(l.live == 0, "%s: %zu blocks left when allocation %zu is refused", job_names[job], l.live,
                  n);
            if (l.calls < n) {
                CHECK(status == GPUMC_OK && n > 1, "%s: %s", job_names[job], error.text);
                break;
            }
            CHECK(status == GPUMC_ERROR_MEMORY && strstr(error.text, "out of memory"),
                  "%s, allocation %zu: %d %s", job_names[job], n, status, error.text);
            CHECK(files == 0, "%s: %zu files left when allocation %zu is refused", job_names[job], files, n);
        }
}

/* The same for every system call. */
static void check_write_failures(int job)
{
    const size_t n_files = job == 4 ? 1 : CHAINS;
    size_t tried = 0;
    for (int later = 0; later < 2; later++)
        for (size_t n = 1;; n += later && n > 20 ? 7 : 1) {
            ledger l = { 0 };
            gpumc_error error = { GPUMC_OK, "" };
            gpumc_status status;
            size_t files;
            io_calls = 0;
            io_refuse_at = n;
            io_refuse_later = later;
            status = do_job(job, &l, &error);
            io_refuse_at = 0;
            files = files_in_folder(1);
            CHECK(l.live == 0, "%s: %zu blocks left when call %zu fails", job_names[job], l.live, n);
            if (io_calls < n) {
                CHECK(status == GPUMC_OK && files == n_files, "%s: %s", job_names[job], error.text);
                break;
            }
            CHECK(status == GPUMC_ERROR_FILE && strstr(error.text, "no space left on the device"),
                  "%s, call %zu: %s", job_names[job], n, error.text);
            CHECK(files == 0, "%s: %zu files left when call %zu fails", job_names[job], files, n);
            tried++;
        }
    CHECK(tried > 100, "only %zu calls were tried", tried);
}

static void check_failures(void)
{
    static const rlim_t sizes[] = { 0, 100, 1000 };
    gpumc_fit fit = hand_fit();
    gpumc_error error = { GPUMC_OK, "" };
    struct rlimit limit;
    char *text;
    for (int job = 0; job < JOBS; job++) check_allocation_failures(job);
    for (int job = 4; job < JOBS; job++) check_write_failures(job);

    write_text(in_folder("fit_1.csv"), "old", 3); /* an old file stays if the new one is not complete */
    io_calls = 0;
    io_refuse_at = 30;
    CHECK(gpumc_write_stan_csv(&fit, in_folder("fit"), &error) == GPUMC_ERROR_FILE, "a failed write");
    io_refuse_at = 0;
    text = read_text(in_folder("fit_1.csv"));
    CHECK(strcmp(text, "old") == 0 && files_in_folder(1) == 1, "the old file is gone");
    free(text);
    for (int at = 1; at <= CHAINS; at++) {                     /* all files of a set, or none */
        io_refuse_renames = at;
        CHECK(gpumc_write_stan_csv(&fit, in_folder("fit"), &error) == GPUMC_ERROR_FILE
              && strstr(error.text, "cannot be replaced: permission denied"), "%s", error.text);
        CHECK(files_in_folder(1) == 0, "half of a set is left");
    }

    if (mkfifo(in_folder("pipe"), 0600) == 0) {                /* as root could a device */
        struct stat there;
        CHECK(gpumc_write_tidy_csv(&fit, in_folder("pipe"), &error) == GPUMC_ERROR_FILE
              && strstr(error.text, "not an ordinary file"), "%s", error.text);
        CHECK(stat(in_folder("pipe"), &there) == 0 && S_ISFIFO(there.st_mode), "a pipe was replaced");
        remove(in_folder("pipe"));
    }

    FILE *foreign = fopen(in_folder("fit.json.tmp"), "w");      /* a .tmp file of others is not removed */
    CHECK(foreign && fclose(foreign) == 0 && mkdir(in_folder("fit.json"), 0700) == 0, "no folder");
    CHECK(gpumc_write_metric_json(&fit, in_folder("fit.json"), &error) == GPUMC_ERROR_FILE
          && access(in_folder("fit.json.tmp"), F_OK) == 0, "a file of others is gone: %s", error.text);
    remove(in_folder("fit.json.tmp"));
    rmdir(in_folder("fit.json"));

    signal(SIGXFSZ, SIG_IGN);                                  /* a limit of the system */
    getrlimit(RLIMIT_FSIZE, &limit);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct rlimit small = { sizes[i], limit.rlim_max };
        gpumc_status status;
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) {
            printf("skipped: file sizes cannot be limited\n");
            break;
        }
        status = gpumc_write_stan_csv(&fit, in_folder("fit"), &error);
        setrlimit(RLIMIT_FSIZE, &limit);
        CHECK(status == GPUMC_ERROR_FILE && strstr(error.text, "fit_1.csv.tmp: cannot be written"), "%s",
              error.text);
        CHECK(files_in_folder(1) == 0, "a partial file is left");
    }
}

/* ---- damaged inputs ------------------------------------------------------------------------------------ */

/* Applies one to four changes to a text: bytes changed, pieces removed, doubled or cut off. Returns the new length,
   at most 32 more. */
static size_t mutate(const char *seed, size_t n, char *text)
{
    static const char pieces[] = "[]{},:\"\\\n\r 0129.-+eENaInf#u\xc3\xa9\xff\x80\x01;\t";
    memcpy(text, seed, n);
    for (size_t k = 1 + random_below(4); k > 0 && n > 0; k--) {
        const size_t at = random_below(n), length = 1 + random_below(n - at < 8 ? n - at : 8);
        switch (random_below(5)) {
        case 0: text[at] = (char)random_below(256); break;
        case 1: text[at] = pieces[random_below(sizeof pieces - 1)]; break;
        case 2: memmove(text + at, text + at + length, n - at - length); n -= length; break;
        case 3: memmove(text + at + length, text + at, n - at); n += length; break;
        default: n = at + 1;
        }
    }
    return n;
}

/* Whether data read are consistent. */
static int is_sound(const gpumc_data *data)
{
    for (size_t i = 0; i < data->n_variables; i++) {
        const gpumc_variable *v = &data->variables[i];
        size_t size = 1;
        for (size_t d = 0; d < v->n_dims; d++) size *= v->dims[d];
        if (size != v->n_values || !v->name[0] || v->n_dims > 16) return 0;
        if (gpumc_data_get(data, v->name, 0, 0, NULL) != v) return 0;      /* names are unique */
        for (size_t k = 0; v->is_integer && k < v->n_values; k++)
            if (v->values[k] != floor(v->values[k])) return 0;
    }
    return 1;
}

static void check_damaged(int csv, size_t n)
{
    static const reader_case files[] = {
        { "# "
          "Stan\nlp__,divergent__,mu,\"A[1,1]\",A.2.1\n-1.5,0,0.25,NA,1e-5\r\n-3,1,\"7\",inf,"
          "12345678901234567890\n\n",
          "" },
        { "{\"J\":3,\"y\":[28.5,-8,1e-3],\"A\":[[1,2],[3,\"NaN\"],[-Infinity,NaN]],\"e\":[[],[]],"
          "\"\xc3\xa9\":[[[0]]]}",
          "" },
    };
    const reader_case *cases = csv ? csv_cases : json_cases;
    const size_t n_cases = csv ? sizeof csv_cases / sizeof *csv_cases
                               : sizeof json_cases / sizeof *json_cases;
    size_t accepted = 0, unsound = 0, speechless = 0;
    ledger l = { 0 };
    for (size_t i = 0; i < n; i++) {
        const gpumc_csv_options options = { (char)(i % 19 ? 0 : ';'), i % 17 == 0, i % 13 != 0, i % 11 == 0 };
        const char *seed = i % 2 ? files[!csv].text : cases[random_below(n_cases)].text;
        const size_t length = strlen(seed);
        char *space = malloc(length + 64), *text;
        gpumc_error error = { GPUMC_OK, "" };
        gpumc_data data;
        gpumc_status status;
        const size_t used = mutate(seed, length, space);
        memset(&data, 0, sizeof data);
        data.allocator = ledger_allocator(&l);
        text = memcpy(malloc(used ? used : 1), space, used);   /* exact size, for sanitizers */
        status = csv ? gpumc_parse_csv(text, used, &options, &data, &error)
                     : gpumc_parse_json(text, used, &data, &error);
        accepted += status == GPUMC_OK;
        unsound += !is_sound(&data);
        speechless += status != GPUMC_OK
                      && (status != GPUMC_ERROR_FORMAT || strncmp(error.text, "line ", 5) != 0);
        gpumc_data_free(&data);
        free(space);
        free(text);
    }
    CHECK(unsound == 0 && speechless == 0 && l.live == 0, "%zu unsound, %zu without a place, %zu blocks left",
          unsound, speechless, l.live);
    CHECK(accepted > n / 100 && accepted < n - n / 100, "%zu of %zu were accepted: not a test", accepted, n);
}

static void check_is_sound(void)
{
    double values[2] = { 1, 2.5 };
    size_t dims[1] = { 2 };
    char name[] = "a";
    gpumc_variable two[2] = { { name, dims, 1, 2, 0, values }, { name, dims, 1, 2, 0, values } };
    const gpumc_data data = { two, 1, { NULL, NULL, NULL } }, twice = { two, 2, { NULL, NULL, NULL } };
    CHECK(is_sound(&data) && !is_sound(&twice), "two variables of one name pass");
    two[0].is_integer = 1;
    CHECK(!is_sound(&data), "a false integer passes");
    two[0].is_integer = 0;
    dims[0] = 3;
    CHECK(!is_sound(&data), "a wrong shape passes");
}

/* ---- speed --------------------------------------------------------------------------------------------- */

/* The speed of reading a million rows, printed for information: expect 50 MB/s or more of an optimised build. */
static void check_speed(void)
{
    static const char rows[] = "8,-1.25,0.30000000000000004\n12,3.5e-3,1234.5678901234567\n";
    const size_t n = 500000, length = strlen(rows);
    char *text = malloc(n * length + 16);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_data data;
    clock_t begin;
    memset(&data, 0, sizeof data);
    strcpy(text, "a,b,c\n");
    for (size_t i = 0; i < n; i++) memcpy(text + 6 + i * length, rows, length);
    begin = clock();
    CHECK(gpumc_parse_csv(text, 6 + n * length, NULL, &data, &error) == GPUMC_OK, "%s", error.text);
    printf("a million rows: %.0f MB/s\n",
           (double)(n * length) / 1e6 / ((double)(clock() - begin + 1) / CLOCKS_PER_SEC));
    CHECK(data.n_variables == 3 && data.variables[2].n_values == 2 * n
              && data.variables[2].values[2 * n - 1] == 1234.5678901234567,
          "rows");
    gpumc_data_free(&data);
    free(text);
}

static void overflowing_contents(gpumc__writer *w, const void *of)
{
    for (size_t i = 0; i < 100000; i++) gpumc__put(w, "a line of a file\n");
    errno = ERANGE;                                     /* as a mathematical function may leave it */
    (void)of;
}

/* The reason given for a failed write is that of the write, not a later errno. */
static void check_reason(void)
{
    gpumc_error error = { GPUMC_OK, "" };
    if (access("/dev/full", F_OK) != 0) {
        check_skip("no /dev/full here");
        return;
    }
    CHECK(gpumc__write_file("/dev/full", "wb", 0, NULL, 0, overflowing_contents, &error) == GPUMC_ERROR_FILE
          && strstr(error.text, "no space left"), "%s", error.text);
}

int main(void)
{
    if (!folder_open("output")) return 1;
    strcat(folder, "/files");                   /* files beside it are not counted */
    if (mkdir(folder, 0700) != 0) return 1;
    check_known_numbers();
    check_reason();
    check_round_trip(100000);
    check_against_strtod(200000);
    check_half_way();
    check_number_grammar();
    check_readers();
    check_reader_arguments();
    check_data_get();
    check_many_names();
    check_reading_files();
    check_stan();
    check_broken_stan();
    check_stan_read_back();
    check_odd_fits();
    check_summary();
    check_locale();
    check_failures();
    check_damaged(0, 100000);
    check_damaged(1, 100000);
    check_is_sound();
    check_speed();
    rmdir(folder);
    *strrchr(folder, '/') = 0;
    rmdir(folder);
    return check_end();
}
