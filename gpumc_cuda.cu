// gpumc_cuda.cu: the hot loops of gpumc.h on an NVIDIA GPU.
//
//     nvcc -O3 -c gpumc_cuda.cu -DGPUMC_ROWS='"my_rows.h"'
//     cc -O2 -DGPUMC_CUDA main.c gpumc_cuda.o -lm -pthread -lcudart -lstdc++      (or link with nvcc)
//
// my_rows.h holds the program's GPUMC_ROW and GPUMC_CELLS functions, the very text that cc compiles for the CPU; several files
// go into one that includes them. The program itself does not change: gpumc.h finds the table below.
//
// Every sum is taken by a team of threads: each member adds up its own share in a fixed order, a tree adds the
// members, the first one stores. No atomics, so that results repeat bit for bit and do not depend on how many
// points are evaluated in one call. A job says what a member adds up and where the sum goes. Only the functions
// of the first part (memory, copies, one launch) know the GPU; compiled by a C++ compiler with
// -DGPUMC_CUDA_ON_HOST the same jobs run on the CPU, which is how they are tested where there is no GPU.
//
// -DGPUMC_REAL=float does the arithmetic of a row in single precision. Sums are always double.
#include "gpumc.h"

#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#if !defined(__CUDACC__) && !defined(GPUMC_CUDA_ON_HOST)
#error "gpumc_cuda.cu: compile with nvcc (or, for tests without a GPU, define GPUMC_CUDA_ON_HOST)"
#endif

namespace {

gpumc_status fail(gpumc_error *error, gpumc_status status, const char *format, ...)
{
    if (error) {
        va_list list;
        va_start(list, format);
        std::vsnprintf(error->text, sizeof error->text, format, list);
        va_end(list);
        error->status = status;
    }
    return status;
}

// ---- memory, copies, launches: all that differs between GPU and CPU ---------------------------------------
#if defined(__CUDACC__)
#define BOTH __host__ __device__ __forceinline__

gpumc_status driver(cudaError_t code, const char *what, gpumc_error *error)
{
    if (code == cudaSuccess) return GPUMC_OK;
    cudaGetLastError();         // forgets it: the next call starts afresh
    return fail(error, code == cudaErrorMemoryAllocation ? GPUMC_ERROR_MEMORY : GPUMC_ERROR_DEVICE,
                "GPU: %s: %s", what, cudaGetErrorString(code));
}

void *device_allocate(std::size_t bytes, gpumc_error *error)
{
    void *memory = NULL;
    return driver(cudaMalloc(&memory, bytes), "cudaMalloc", error) == GPUMC_OK ? memory : NULL;
}
void device_free(void *memory) { cudaFree(memory); }
gpumc_status to_device(void *to, const void *from, std::size_t bytes, gpumc_error *error)
{
    return driver(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload", error);
}
gpumc_status from_device(void *to, const void *from, std::size_t bytes, gpumc_error *error)
{
    return driver(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "kernel or download", error);
}

template <class Job> __global__ void run_teams(Job job, std::size_t n_teams)
{
    const std::size_t thread = (std::size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const std::size_t team = thread / Job::team;
    const int rank = (int)(thread % Job::team);
    double sum[Job::n_sums];
    for (int k = 0; k < Job::n_sums; k++) sum[k] = 0;
    if (team < n_teams) job.share(team, rank, sum);
    for (int offset = Job::team / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int k = 0; k < Job::n_sums; k++) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], offset);
    if (team < n_teams && rank == 0) job.store(team, sum);
}

template <class Job> gpumc_status run(const Job &job, std::size_t n_teams, gpumc_error *error)
{
    const std::size_t blocks = (n_teams * Job::team + 127) / 128;
    if (blocks > INT_MAX)
        return fail(error, GPUMC_ERROR_ARGUMENT, "GPU: %zu teams are too many for one launch", n_teams);
    if (blocks) run_teams<Job><<<(unsigned)blocks, 128>>>(job, n_teams);
    return driver(cudaGetLastError(), "launch", error);
}
#else
#define BOTH inline

void *device_allocate(std::size_t bytes, gpumc_error *error)
{
    void *memory = std::malloc(bytes);
    if (!memory) fail(error, GPUMC_ERROR_MEMORY, "%zu bytes were not to be had", bytes);
    return memory;
}
void device_free(void *memory) { std::free(memory); }
gpumc_status to_device(void *to, const void *from, std::size_t bytes, gpumc_error *)
{
    std::memcpy(to, from, bytes);
    return GPUMC_OK;
}
gpumc_status from_device(void *to, const void *from, std::size_t bytes, gpumc_error *)
{
    std::memcpy(to, from, bytes);
    return GPUMC_OK;
}

// The tree of the shuffles above, in the same order.
template <class Job> gpumc_status run(const Job &job, std::size_t n_teams, gpumc_error *)
{
    for (std::size_t team = 0; team < n_teams; team++) {
        double sum[Job::team][Job::n_sums] = {}, other[Job::team][Job::n_sums];
        for (int rank = 0; rank < Job::team; rank++) job.share(team, rank, sum[rank]);
        for (int offset = Job::team / 2; offset > 0; offset /= 2) {
            std::memcpy(other, sum, sizeof sum);
            for (int rank = 0; rank < Job::team; rank++)
                for (int k = 0; k < Job::n_sums; k++) sum[rank][k] += other[rank ^ offset][k];
        }
        job.store(team, sum[0]);
    }
    return GPUMC_OK;
}
#endif

template <class T> class device_array {
public:
    T *at;
    std::size_t size;
    device_array() : at(NULL), size(0) {}
    ~device_array() { device_free(at); }
    gpumc_status allocate(std::size_t n, gpumc_error *error)
    {
        if (n > (std::size_t)-1 / sizeof(T))
            return fail(error, GPUMC_ERROR_MEMORY, "GPU: %zu values are too many", n);
        at = (T *)device_allocate(n ? n * sizeof(T) : 1, error);
        size = n;
        return at ? GPUMC_OK : GPUMC_ERROR_MEMORY;
    }
    gpumc_status upload(const std::vector<T> &from, gpumc_error *error)
    {
        const gpumc_status status = allocate(from.size(), error);
        return status == GPUMC_OK && size ? to_device(at, from.data(), size * sizeof(T), error) : status;
    }
private:
    device_array(const device_array &);
    device_array &operator=(const device_array &);
};

// ---- what has been uploaded once and is evaluated many times ----------------------------------------------
// The result of a point is its value, then its derivatives.
class gpu_hot : public gpumc_hot {
public:
    std::size_t max_points;
    device_array<double> points, results;
    std::vector<double> host;
    gpu_hot() : gpumc_hot(), max_points(0)
    {
        where = "GPU";
        eval = evaluate;
        release = discard;
    }
    virtual ~gpu_hot() {}
    virtual gpumc_status launch(std::size_t n_points, gpumc_error *error) = 0;

    gpumc_status allocate(gpumc_error *error)
    {
        const gpumc_status status = points.allocate(max_points * n_params, error);
        if (status == GPUMC_OK) host.resize(max_points * (1 + n_params));
        return status == GPUMC_OK ? results.allocate(host.size(), error) : status;
    }

private:
    static void discard(gpumc_hot *hot) { delete static_cast<gpu_hot *>(hot); }
    static gpumc_status evaluate(gpumc_hot *hot, std::size_t n, const double *p, double *grad, double *lp,
                                 gpumc_error *error)
    {
        gpu_hot *const h = static_cast<gpu_hot *>(hot);
        gpumc_status status = GPUMC_OK;
        for (std::size_t done = 0, some; done < n && status == GPUMC_OK; done += some) {
            some = n - done < h->max_points ? n - done : h->max_points;
            status = h->turn(some, p + done * h->n_params, grad + done * h->n_params, lp + done, error);
        }
        return status;
    }
    gpumc_status turn(std::size_t n, const double *p, double *grad, double *lp, gpumc_error *error)
    {
        const std::size_t stride = 1 + n_params;
        gpumc_status status = to_device(points.at, p, n * n_params * sizeof(double), error);
        if (status == GPUMC_OK) status = launch(n, error);
        if (status == GPUMC_OK)
            status = from_device(host.data(), results.at, n * stride * sizeof(double), error);
        for (std::size_t i = 0; i < n && status == GPUMC_OK; i++) {
            lp[i] = host[i * stride];
            for (std::size_t k = 0; k < n_params; k++) grad[i * n_params + k] += host[i * stride + 1 + k];
        }
        return status;
    }
};

// Sums first .. first + n - 1 of partial[point][n_sums_each][n_partials], into out[point][at ..].
struct total_job {
    enum { team = 32, n_sums = 1 };
    const double *partial;
    std::size_t n_sums_each, n_partials, first, n;
    double *out;
    std::size_t stride, at;
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const double *p = partial + (t / n * n_sums_each + first + t % n) * n_partials;
        for (std::size_t i = (std::size_t)rank; i < n_partials; i += team) sum[0] += p[i];
    }
    BOTH void store(std::size_t t, const double *sum) const { out[t / n * stride + at + t % n] = sum[0]; }
};

gpumc_status run_total(const total_job &job, std::size_t n_points, gpumc_error *error)
{
    return job.n ? run(job, n_points * job.n, error) : GPUMC_OK;
}

// ---- rows: sorted by group, cut into segments of at most SEGMENT rows -------------------------------------
const std::size_t SEGMENT = 1024;

// A row of weight 0 is left out, whatever its value is.
BOTH double weighed(double weight, double value) { return weight > 0 ? weight * value : 0; }

struct segment { std::size_t begin, length, group; };

template <class Column> struct rows_view {
    const Column *columns;              // one after the other
    const double *weights;              // NULL: 1
    const segment *segments;
    std::size_t n_rows, n_groups, n_segments;
};

// Value and derivatives of one segment. Parameters of a point: n_group times n_groups values, then n_shared.
template <class Leaf, class Column, int Team> struct segment_job {
    enum { team = Team, n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_sums = 1 + n_group + n_shared };
    rows_view<Column> v;
    const double *points;
    double *partial;                    // [point][sum][segment]
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const segment s = v.segments[t % v.n_segments];
        const double *from = points + t / v.n_segments * (n_group * v.n_groups + n_shared);
        gpumc_real p[n_sums];
        for (int k = 0; k < n_group; k++) p[k] = (gpumc_real)from[k * v.n_groups + s.group];
        for (int k = 0; k < n_shared; k++) p[n_group + k] = (gpumc_real)from[n_group * v.n_groups + k];
        for (std::size_t i = s.begin + (std::size_t)rank; i < s.begin + s.length; i += team) {
            gpumc_real x[Leaf::n_columns], g[n_sums] = {};
            for (int c = 0; c < Leaf::n_columns; c++) x[c] = (gpumc_real)v.columns[c * v.n_rows + i];
            const double value = (double)Leaf::call(p, x, g), w = v.weights ? v.weights[i] : 1;
            sum[0] += weighed(w, value);
            for (int k = 1; k < n_sums; k++) sum[k] += weighed(w, (double)g[k - 1]);
        }
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        double *to = partial + t / v.n_segments * n_sums * v.n_segments + t % v.n_segments;
        for (int k = 0; k < n_sums; k++) to[k * v.n_segments] = sum[k];
    }
};

// Rows in two stages: the members of a team share the nodes of one row, and the first makes its value and
// derivatives of their sums. A row is a segment of its own.
template <class Leaf, class Column> struct cell_job {
    enum { team = 16, n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_columns = Leaf::n_columns,
           n_nodes = Leaf::n_nodes, n_p = n_group + n_shared, n_sums = 1 + n_p };
    rows_view<Column> v;
    const double *nodes;                // column after column
    std::size_t n;                      // of each
    const double *points;
    double *partial;                    // [point][sum][row]
    BOTH void gather(std::size_t t, gpumc_real *p, gpumc_real *x) const
    {
        const std::size_t i = v.segments[t % v.n_segments].begin, group = v.segments[t % v.n_segments].group;
        const double *from = points + t / v.n_segments * (n_group * v.n_groups + n_shared);
        for (int k = 0; k < n_group; k++) p[k] = (gpumc_real)from[k * v.n_groups + group];
        for (int k = 0; k < n_shared; k++) p[n_group + k] = (gpumc_real)from[n_group * v.n_groups + k];
        for (int c = 0; c < n_columns; c++) x[c] = (gpumc_real)v.columns[c * v.n_rows + i];
    }
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        gpumc_real p[n_sums], x[n_columns + n_nodes];
        gather(t, p, x);
        for (std::size_t i = (std::size_t)rank; i < n; i += team) {
            gpumc_real g[n_sums] = {};
            for (int c = 0; c < n_nodes; c++) x[n_columns + c] = (gpumc_real)nodes[c * n + i];
            sum[0] += (double)Leaf::node(p, x, g);
            for (int k = 1; k < n_sums; k++) sum[k] += (double)g[k - 1];
        }
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        const std::size_t at = t % v.n_segments, i = v.segments[at].begin;
        gpumc_real p[n_sums], x[n_columns + n_nodes], g[n_sums] = {}, s[n_sums];
        gather(t, p, x);
        for (int k = 0; k < n_sums; k++) s[k] = (gpumc_real)sum[k];
        const double value = (double)Leaf::finish(s, p, x, g), w = v.weights ? v.weights[i] : 1;
        double *to = partial + t / v.n_segments * n_sums * v.n_segments + at;
        to[0] = weighed(w, value);
        for (int k = 1; k < n_sums; k++) to[k * v.n_segments] = weighed(w, (double)g[k - 1]);
    }
};

// The segments of each group, for the derivatives of group parameters.
template <int Team, int N_GROUP, int N_SUMS> struct group_job {
    enum { team = Team, n_sums = N_GROUP };
    const double *partial;
    const std::size_t *first_segment;   // n_groups + 1
    std::size_t n_groups, n_segments;
    double *out;
    std::size_t stride;
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const std::size_t group = t % n_groups;
        const double *from = partial + (t / n_groups * N_SUMS + 1) * n_segments;
        for (std::size_t s = first_segment[group] + (std::size_t)rank; s < first_segment[group + 1];
             s += team)
            for (int k = 0; k < N_GROUP; k++) sum[k] += from[k * n_segments + s];
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        double *to = out + t / n_groups * stride + 1 + t % n_groups;
        for (int k = 0; k < N_GROUP; k++) to[k * n_groups] = sum[k];
    }
};

struct sorted_rows {
    std::vector<std::size_t> order, first_segment, begin;   // begin: n_groups + 1 places in order
    std::vector<segment> segments;
    sorted_rows(const std::size_t *group, std::size_t n_rows, std::size_t n_groups,
                std::size_t longest = SEGMENT)
        : order(n_rows), first_segment(n_groups + 1), begin(n_groups + 1)
    {
        for (std::size_t i = 0; i < n_rows; i++) begin[(group ? group[i] : 0) + 1]++;
        for (std::size_t g = 0; g < n_groups; g++) begin[g + 1] += begin[g];
        std::vector<std::size_t> next(begin);
        for (std::size_t i = 0; i < n_rows; i++) order[next[group ? group[i] : 0]++] = i;
        for (std::size_t g = 0; g < n_groups; g++) {
            first_segment[g] = segments.size();
            for (std::size_t at = begin[g]; at < begin[g + 1]; at += longest) {
                const segment s = { at, begin[g + 1] - at < longest ? begin[g + 1] - at : longest, g };
                segments.push_back(s);
            }
        }
        first_segment[n_groups] = segments.size();
    }
    template <class T> void append(std::vector<T> &to, const double *from) const
    {
        for (std::size_t i = 0; i < order.size(); i++) to.push_back((T)from[order[i]]);
    }
};

// What both kinds of rows have in common: run_rows fills partial.
template <class Leaf, class Column> struct hot_sums : gpu_hot {
    enum { n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_sums = 1 + n_group + n_shared };
    device_array<Column> columns;
    device_array<double> weights, partial;
    device_array<segment> segments;
    device_array<std::size_t> first_segment;
    std::size_t n_rows, n_groups, n_segments;
    virtual gpumc_status run_rows(std::size_t n_points, gpumc_error *error) = 0;

    gpumc_status upload_sorted(const gpumc_rows_data &d, std::size_t longest, std::size_t points_at_once,
                               gpumc_error *error)
    {
        const sorted_rows rows(d.group, d.n_rows, d.n_groups, longest);
        std::vector<Column> all;
        std::vector<double> all_weights;
        for (int c = 0; c < Leaf::n_columns; c++) rows.append(all, d.columns[c]);
        if (d.weights) rows.append(all_weights, d.weights);
        n_rows = d.n_rows;
        n_groups = d.n_groups;
        n_segments = rows.segments.size();
        n_params = n_group * n_groups + n_shared;
        max_points = points_at_once;
        gpumc_status status = columns.upload(all, error);
        if (status == GPUMC_OK && d.weights) status = weights.upload(all_weights, error);
        if (status == GPUMC_OK) status = segments.upload(rows.segments, error);
        if (status == GPUMC_OK) status = first_segment.upload(rows.first_segment, error);
        if (status == GPUMC_OK) status = partial.allocate(max_points * n_sums * n_segments, error);
        return status == GPUMC_OK ? allocate(error) : status;
    }

    rows_view<Column> view() const
    {
        const rows_view<Column> v = { columns.at, weights.at, segments.at, n_rows, n_groups, n_segments };
        return v;
    }
    gpumc_status launch(std::size_t n_points, gpumc_error *error)
    {
        const std::size_t stride = 1 + n_params;
        const total_job value = { partial.at, n_sums, n_segments, 0, 1, results.at, stride, 0 };
        const total_job shared = { partial.at, n_sums, n_segments, 1 + n_group, n_shared, results.at, stride,
                                   1 + n_group * n_groups };
        gpumc_status status = run_rows(n_points, error);
        if (status == GPUMC_OK && n_group > 0)
            status =
                n_segments > 8 * n_groups ? run_groups<32>(n_points, error) : run_groups<1>(n_points, error);
        if (status == GPUMC_OK) status = run_total(value, n_points, error);
        return status == GPUMC_OK ? run_total(shared, n_points, error) : status;
    }
    template <int Team> gpumc_status run_groups(std::size_t n_points, gpumc_error *error)
    {
        const group_job<Team, (int)n_group + (n_group == 0), n_sums> job = { partial.at, first_segment.at,
                                                                             n_groups,   n_segments,
                                                                             results.at, 1 + n_params };
        return run(job, n_points * n_groups, error);
    }
};

template <class Leaf, class Column> struct hot_rows : hot_sums<Leaf, Column> {
    gpumc_status upload(const gpumc_rows_data &d, std::size_t points_at_once, gpumc_error *error)
    {
        return this->upload_sorted(d, SEGMENT, points_at_once, error);
    }
    // A large team would be idle for the most part where segments are short.
    gpumc_status run_rows(std::size_t n_points, gpumc_error *error)
    {
        return this->n_rows < 4 * this->n_segments    ? run_segments<1>(n_points, error)
               : this->n_rows < 32 * this->n_segments ? run_segments<8>(n_points, error)
                                                      : run_segments<32>(n_points, error);
    }
    template <int Team> gpumc_status run_segments(std::size_t n_points, gpumc_error *error)
    {
        const segment_job<Leaf, Column, Team> job = { this->view(), this->points.at, this->partial.at };
        return run(job, n_points * this->n_segments, error);
    }
};

template <class Leaf, class Column> struct hot_cells : hot_sums<Leaf, Column> {
    device_array<double> nodes;
    std::size_t n_nodes;
    gpumc_status upload(const gpumc_rows_data &d, std::size_t points_at_once, gpumc_error *error)
    {
        std::vector<double> all;
        n_nodes = d.n_nodes;
        for (int c = 0; c < Leaf::n_nodes; c++) all.insert(all.end(), d.nodes[c], d.nodes[c] + n_nodes);
        const gpumc_status status = nodes.upload(all, error);
        return status == GPUMC_OK ? this->upload_sorted(d, 1, points_at_once, error) : status;
    }
    gpumc_status run_rows(std::size_t n_points, gpumc_error *error)
    {
        const cell_job<Leaf, Column> job = { this->view(), nodes.at, n_nodes, this->points.at,
                                             this->partial.at };
        return run(job, n_points * this->n_segments, error);
    }
};

// ---- linear predictors ------------------------------------------------------------------------------------
// One thread a row computes eta, the density and its derivative by eta, the residual; then a team for every
// column and block of rows adds up column times residual for a few points at once, so that X is read twice.

struct normal_family {
    enum { n_aux = 1 };
    static BOTH gpumc_real density(gpumc_real y, gpumc_real eta, const gpumc_real *a, gpumc_real *r,
                                   gpumc_real *da)
    { return gpumc_normal_lpdf(y, eta, a[0], NULL, r, &da[0]); }
};
struct bernoulli_logit_family {
    enum { n_aux = 0 };
    static BOTH gpumc_real density(gpumc_real y, gpumc_real eta, const gpumc_real *, gpumc_real *r,
                                   gpumc_real *)
    { return gpumc_bernoulli_logit_lpmf(y, eta, r); }
};
struct poisson_log_family {
    enum { n_aux = 0 };
    static BOTH gpumc_real density(gpumc_real y, gpumc_real eta, const gpumc_real *, gpumc_real *r,
                                   gpumc_real *)
    { return gpumc_poisson_log_lpmf(y, eta, r); }
};
struct neg_binomial_2_log_family {
    enum { n_aux = 1 };
    static BOTH gpumc_real density(gpumc_real y, gpumc_real eta, const gpumc_real *a, gpumc_real *r,
                                   gpumc_real *da)
    { return gpumc_neg_binomial_2_log_lpmf(y, eta, a[0], r, &da[0]); }
};
struct student_t_family {
    enum { n_aux = 2 };
    static BOTH gpumc_real density(gpumc_real y, gpumc_real eta, const gpumc_real *a, gpumc_real *r,
                                   gpumc_real *da)
    { return gpumc_student_t_lpdf(y, a[1], eta, a[0], NULL, &da[1], r, &da[0]); }
};

const std::size_t ROW_BLOCK = 512, COLUMN_BLOCK = 4096;
enum { POINTS_A_PASS = 4 };

// Parameters of a point: intercept, slopes, the effects of each factor, then sigma or phi, then nu.
template <class Column> struct glm_view {
    const Column *x;                    // column after column
    const double *y, *offset, *weights; // offset, weights: NULL for 0 and 1
    const std::size_t *levels;          // factor after factor: which parameter a row takes
    std::size_t n_rows, n_columns, n_factors, n_params, first_aux;
};

template <class Family, class Column> struct glm_rows_job {
    enum { team = 32, n_aux = Family::n_aux, n_sums = 2 + n_aux };
    glm_view<Column> v;
    const double *points;
    double *residuals;                  // [point][row]
    double *partial;                    // [point][sum][block]: value, intercept, sigma or phi, nu
    std::size_t n_blocks;
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const std::size_t point = t / n_blocks, begin = t % n_blocks * ROW_BLOCK;
        const std::size_t end = begin + ROW_BLOCK < v.n_rows ? begin + ROW_BLOCK : v.n_rows;
        const double *p = points + point * v.n_params;
        gpumc_real a[n_aux + 1];
        for (int k = 0; k < n_aux; k++) a[k] = (gpumc_real)p[v.first_aux + k];
        for (std::size_t i = begin + (std::size_t)rank; i < end; i += team) {
            gpumc_real eta = (gpumc_real)(p[0] + (v.offset ? v.offset[i] : 0)), r = 0, da[n_aux + 1] = {};
            for (std::size_t c = 0; c < v.n_columns; c++)
                eta += (gpumc_real)v.x[c * v.n_rows + i] * (gpumc_real)p[1 + c];
            for (std::size_t f = 0; f < v.n_factors; f++) eta += (gpumc_real)p[v.levels[f * v.n_rows + i]];
            const double w = v.weights ? v.weights[i] : 1;
            sum[0] += weighed(w, (double)Family::density((gpumc_real)v.y[i], eta, a, &r, da));
            sum[1] += weighed(w, (double)r);
            for (int k = 0; k < n_aux; k++) sum[2 + k] += weighed(w, (double)da[k]);
            residuals[point * v.n_rows + i] = weighed(w, (double)r);
        }
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        for (int k = 0; k < n_sums; k++)
            partial[(t / n_blocks * n_sums + k) * n_blocks + t % n_blocks] = sum[k];
    }
};

template <class Column> struct glm_columns_job {
    enum { team = 32, n_sums = POINTS_A_PASS };
    glm_view<Column> v;
    const double *residuals;
    double *partial;                    // [point][column][block]
    std::size_t n_blocks, n_points;
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const std::size_t b = t % n_blocks, c = t / n_blocks % v.n_columns,
                          first = t / n_blocks / v.n_columns * n_sums;
        const std::size_t begin = b * COLUMN_BLOCK;
        const std::size_t end = begin + COLUMN_BLOCK < v.n_rows ? begin + COLUMN_BLOCK : v.n_rows;
        const int n = n_points - first < n_sums ? (int)(n_points - first) : n_sums;
        for (std::size_t i = begin + (std::size_t)rank; i < end; i += team) {
            const double x = (double)v.x[c * v.n_rows + i];
            for (int k = 0; k < n_sums; k++)
                if (k < n) sum[k] += x * residuals[(first + (std::size_t)k) * v.n_rows + i];
        }
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        const std::size_t b = t % n_blocks, c = t / n_blocks % v.n_columns,
                          first = t / n_blocks / v.n_columns * n_sums;
        for (std::size_t k = 0; k < n_sums && first + k < n_points; k++)
            partial[((first + k) * v.n_columns + c) * n_blocks + b] = sum[k];
    }
};

// The rows of each level of every factor; the sum is final.
struct glm_levels_job {
    enum { team = 32, n_sums = 1 };
    const double *residuals;
    const std::size_t *order, *begin;   // rows by level, n_levels + 1 places in them
    std::size_t n_rows, n_levels, stride, at;
    double *out;
    BOTH void share(std::size_t t, int rank, double *sum) const
    {
        const double *r = residuals + t / n_levels * n_rows;
        const std::size_t level = t % n_levels;
        for (std::size_t i = begin[level] + (std::size_t)rank; i < begin[level + 1]; i += team)
            sum[0] += r[order[i]];
    }
    BOTH void store(std::size_t t, const double *sum) const
    {
        out[t / n_levels * stride + at + t % n_levels] = sum[0];
    }
};

template <class Family, class Column> struct hot_glm : gpu_hot {
    typedef glm_rows_job<Family, Column> rows_job;
    device_array<Column> x;
    device_array<double> y, offset, weights, residuals, row_sums, column_sums;
    device_array<std::size_t> levels, order, begin;
    std::size_t n_rows, n_columns, n_factors, n_levels, row_blocks, column_blocks;

    gpumc_status upload(const gpumc_glm_data &d, std::size_t points_at_once, gpumc_error *error)
    {
        gpumc_status status = upload_levels(d, error);
        n_rows = d.n_rows;
        n_columns = d.n_columns;
        row_blocks = (n_rows + ROW_BLOCK - 1) / ROW_BLOCK;
        column_blocks = (n_rows + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
        n_params = 1 + n_columns + n_levels + Family::n_aux;
        max_points = points_at_once;
        if (status == GPUMC_OK) status = upload_design(d, error);
        if (status == GPUMC_OK) status = y.upload(std::vector<double>(d.y, d.y + n_rows), error);
        if (status == GPUMC_OK && d.offset)
            status = offset.upload(std::vector<double>(d.offset, d.offset + n_rows), error);
        if (status == GPUMC_OK && d.weights)
            status = weights.upload(std::vector<double>(d.weights, d.weights + n_rows), error);
        if (status == GPUMC_OK) status = residuals.allocate(max_points * n_rows, error);
        if (status == GPUMC_OK) status = row_sums.allocate(max_points * rows_job::n_sums * row_blocks, error);
        if (status == GPUMC_OK) status = column_sums.allocate(max_points * n_columns * column_blocks, error);
        return status == GPUMC_OK ? allocate(error) : status;
    }
    gpumc_status upload_design(const gpumc_glm_data &d, gpumc_error *error)
    {
        std::vector<Column> all(n_rows * n_columns);
        for (std::size_t i = 0; i < n_rows; i++)
            for (std::size_t c = 0; c < n_columns; c++) {
                const std::size_t from = d.column_major ? c * n_rows + i : i * n_columns + c;
                all[c * n_rows + i] = d.x ? (Column)d.x[from] : (Column)d.x_float[from];
            }
        return x.upload(all, error);
    }
    // Levels are counted through all factors, so that one job serves them all.
    gpumc_status upload_levels(const gpumc_glm_data &d, gpumc_error *error)
    {
        std::vector<std::size_t> which, by_level, places(1, 0);
        n_factors = d.n_factors;
        n_levels = 0;
        for (std::size_t f = 0; f < n_factors; f++) {
            const sorted_rows rows(d.factors[f].level, d.n_rows, d.factors[f].n_levels);
            const std::size_t earlier = by_level.size();
            for (std::size_t i = 0; i < d.n_rows; i++)
                which.push_back(1 + d.n_columns + n_levels + d.factors[f].level[i]);
            by_level.insert(by_level.end(), rows.order.begin(), rows.order.end());
            for (std::size_t k = 0; k < d.factors[f].n_levels; k++)
                places.push_back(earlier + rows.begin[k + 1]);
            n_levels += d.factors[f].n_levels;
        }
        gpumc_status status = levels.upload(which, error);
        if (status == GPUMC_OK) status = order.upload(by_level, error);
        return status == GPUMC_OK ? begin.upload(places, error) : status;
    }

    gpumc_status launch(std::size_t n_points, gpumc_error *error)
    {
        const std::size_t stride = 1 + n_params,
                          groups_of_points = (n_points + POINTS_A_PASS - 1) / POINTS_A_PASS;
        const glm_view<Column> view = { x.at,   y.at,      offset.at, weights.at, levels.at,
                                        n_rows, n_columns, n_factors, n_params,   1 + n_columns + n_levels };
        const rows_job rows = { view, points.at, residuals.at, row_sums.at, row_blocks };
        const glm_columns_job<Column> columns = { view, residuals.at, column_sums.at, column_blocks,
                                                  n_points };
        const glm_levels_job by_level = { residuals.at, order.at, begin.at,      n_rows,
                                          n_levels,     stride,   2 + n_columns, results.at };
        const total_job value = { row_sums.at, rows_job::n_sums, row_blocks, 0, 2, results.at, stride, 0 };
        const total_job aux = { row_sums.at,   rows_job::n_sums, row_blocks, 2,
                                Family::n_aux, results.at,       stride,     2 + n_columns + n_levels };
        const total_job slopes = { column_sums.at, n_columns,  column_blocks, 0,
                                   n_columns,      results.at, stride,        2 };
        gpumc_status status = run(rows, n_points * row_blocks, error);
        if (status == GPUMC_OK) status = run(columns, groups_of_points * n_columns * column_blocks, error);
        if (status == GPUMC_OK && n_levels > 0) status = run(by_level, n_points * n_levels, error);
        if (status == GPUMC_OK) status = run_total(value, n_points, error);
        if (status == GPUMC_OK) status = run_total(aux, n_points, error);
        return status == GPUMC_OK ? run_total(slopes, n_points, error) : status;
    }
};

template <class Hot, class Data>
gpumc_hot *make_hot(const Data &d, std::size_t points_at_once, gpumc_error *error)
{
    std::unique_ptr<Hot> hot(new Hot);
    if (hot->upload(d, points_at_once, error) != GPUMC_OK) return NULL;
    // A first evaluation, at 0: launches fail here where this was compiled for other GPUs than this one.
    const std::size_t n = hot->n_params;
    std::vector<double> trial(2 * n + 1);
    return hot->eval(hot.get(), 1, trial.data(), trial.data() + n, &trial[2 * n], error) == GPUMC_OK
        ? hot.release() : NULL;
}

template <class Family> gpumc_hot *make_glm(const gpumc_glm_data &d, std::size_t points, gpumc_error *error)
{
    return d.single_precision || d.x_float ? make_hot<hot_glm<Family, float> >(d, points, error)
                                           : make_hot<hot_glm<Family, double> >(d, points, error);
}

// ---- the program's row functions --------------------------------------------------------------------------
struct row_entry {
    const char *name;
    int n_group, n_shared, n_columns, n_nodes;
    gpumc_hot *(*make[2])(const gpumc_rows_data &, std::size_t, gpumc_error *);     // double, float columns
};

struct row_list {
    row_entry entry;
    const row_list *next;
    static const row_list *&first()     // filled before main, read only afterwards
    {
        static const row_list *list = NULL;
        return list;
    }
    explicit row_list(const row_entry &e) : entry(e), next(first()) { first() = this; }
};
} // namespace

#undef GPUMC_ROW
#undef GPUMC_CELLS
#define LISTED(row, groups, shared, columns, nodes, hot) \
    const row_entry row##_entry = { #row, groups, shared, columns, nodes, \
                                    { make_hot<hot<row##_leaf, double>, gpumc_rows_data>, \
                                      make_hot<hot<row##_leaf, float>, gpumc_rows_data> } }; \
    const row_list row##_listed(row##_entry);
#define GPUMC_ROW(row, groups, shared, columns) \
    GPUMC_FN gpumc_real row##_row(const gpumc_real *p, const gpumc_real *x, gpumc_real *g); \
    namespace { \
    struct row##_leaf { \
        enum { n_group = groups, n_shared = shared, n_columns = columns }; \
        static BOTH gpumc_real call(const gpumc_real *p, const gpumc_real *x, gpumc_real *g) \
        { return row##_row(p, x, g); } \
    }; \
    LISTED(row, groups, shared, columns, 0, hot_rows) \
    } \
    GPUMC_FN gpumc_real row##_row(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
#define GPUMC_CELLS(row, groups, shared, columns, node_columns) \
    GPUMC_FN gpumc_real row##_node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g); \
    GPUMC_FN gpumc_real row##_finish(const gpumc_real *sum, const gpumc_real *p, const gpumc_real *x, \
                                     gpumc_real *g); \
    namespace { \
    struct row##_leaf { \
        enum { n_group = groups, n_shared = shared, n_columns = columns, n_nodes = node_columns }; \
        static BOTH gpumc_real node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g) \
        { return row##_node(p, x, g); } \
        static BOTH gpumc_real finish(const gpumc_real *sum, const gpumc_real *p, const gpumc_real *x, \
                                      gpumc_real *g) \
        { return row##_finish(sum, p, x, g); } \
    }; \
    LISTED(row, groups, shared, columns, node_columns, hot_cells) \
    } \
    GPUMC_FN gpumc_real row##_node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
#ifdef GPUMC_ROWS
#include GPUMC_ROWS
#endif

// ---- the table --------------------------------------------------------------------------------------------
namespace {

gpumc_status device_info(gpumc_device_info *info, gpumc_error *error)
{
    std::memset(info, 0, sizeof *info);
#if defined(__CUDACC__)
    cudaDeviceProp p;
    int device = 0;
    gpumc_status status = driver(cudaGetDeviceCount(&info->n_devices), "cudaGetDeviceCount", error);
    if (status == GPUMC_OK && !info->n_devices) return fail(error, GPUMC_ERROR_DEVICE, "GPU: there is none");
    if (status == GPUMC_OK) status = driver(cudaGetDevice(&device), "cudaGetDevice", error);
    if (status == GPUMC_OK)
        status = driver(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties", error);
    if (status == GPUMC_OK)
        status = driver(cudaMemGetInfo(&info->bytes_free, &info->bytes), "cudaMemGetInfo", error);
    if (status == GPUMC_OK)
        status = driver(cudaDriverGetVersion(&info->driver), "cudaDriverGetVersion", error);
    if (status == GPUMC_OK)
        status = driver(cudaRuntimeGetVersion(&info->runtime), "cudaRuntimeGetVersion", error);
    if (status != GPUMC_OK) return status;
    std::snprintf(info->name, sizeof info->name, "%s", p.name);
    info->major = p.major;
    info->minor = p.minor;
    return GPUMC_OK;
#else
    std::snprintf(info->name, sizeof info->name, "the CPU, in the GPU's place");
    info->n_devices = 1;
    (void)error;
    return GPUMC_OK;
#endif
}

// Standard containers may throw when memory ends; C callers get a status.
template <class Make> gpumc_hot *guarded(Make make, gpumc_error *error)
{
    try {
        return make();
    } catch (const std::exception &) {
        fail(error, GPUMC_ERROR_MEMORY, "GPU: out of host memory while uploading, or it is too large for it");
        return NULL;
    }
}

gpumc_hot *upload_rows(const gpumc_rows_data *d, std::size_t max_points, gpumc_error *error)
{
    const gpumc_row_kind *kind = d->kind;
    for (const row_list *l = row_list::first(); l; l = l->next) {
        const row_entry &e = l->entry;
        if (std::strcmp(e.name, kind->name)) continue;
        if ((size_t)e.n_group != kind->n_group || (size_t)e.n_shared != kind->n_shared
            || (size_t)e.n_columns != kind->n_columns || (size_t)e.n_nodes != kind->n_node_columns) {
            fail(error, GPUMC_ERROR_DEVICE,
                 "GPU: row %s has other numbers of parameters or columns here: compile "
                 "gpumc_cuda.cu with the same rows as the program",
                 e.name);
            return NULL;
        }
        return guarded([&] { return e.make[d->single_precision != 0](*d, max_points, error); }, error);
    }
    fail(error, GPUMC_ERROR_DEVICE,
         "GPU: row %s was not compiled for it: nvcc -DGPUMC_ROWS='\"file.h\"' with the "
         "file that holds it",
         kind->name);
    return NULL;
}

gpumc_hot *upload_glm(const gpumc_glm_data *d, std::size_t max_points, gpumc_error *error)
{
    return guarded([&]() -> gpumc_hot * {
        switch (d->family) {
        case GPUMC_GLM_NORMAL: return make_glm<normal_family>(*d, max_points, error);
        case GPUMC_GLM_BERNOULLI_LOGIT: return make_glm<bernoulli_logit_family>(*d, max_points, error);
        case GPUMC_GLM_POISSON_LOG: return make_glm<poisson_log_family>(*d, max_points, error);
        case GPUMC_GLM_NEG_BINOMIAL_2_LOG: return make_glm<neg_binomial_2_log_family>(*d, max_points, error);
        case GPUMC_GLM_STUDENT_T: return make_glm<student_t_family>(*d, max_points, error);
        default: fail(error, GPUMC_ERROR_ARGUMENT, "GPU: unknown family %d", (int)d->family); return NULL;
        }
    }, error);
}
} // namespace

extern "C" const gpumc__device *gpumc__cuda_device(void)
{
    static const gpumc__device table = { device_info, upload_rows, upload_glm };
    return &table;
}
