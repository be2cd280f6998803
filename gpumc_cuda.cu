// gpumc_cuda.cu: the hot loops of gpumc.h on an NVIDIA GPU.
//
//     nvcc -O3 -arch=native -c gpumc_cuda.cu -DGPUMC_ROWS='"my_rows.h"'      (-arch=sm_90 and so on for another GPU)
//     cc -O2 -DGPUMC_CUDA -c main.c && nvcc main.o gpumc_cuda.o        (or link with -lm -pthread -lcudart -lstdc++)
// my_rows.h holds the program's GPUMC_ROW and GPUMC_CELLS functions, exactly the text that cc compiles for the CPU;
// if they are in several files, it includes these. The program itself does not change: gpumc.h finds the table at the
// end of this file.
// Every sum has a fixed order: threads add up their shares, a tree adds the threads' sums, and each block stores its
// sum at a place of its own. There are no atomics, so that results repeat bit for bit and do not depend on how many
// points are evaluated in one call. A job is an object that says what a thread does. Only the functions of the first
// part (memory, copies, launches) and the description of the device at the end are specific to the GPU; compiled by a
// C++ compiler with -DGPUMC_CUDA_ON_HOST the same jobs run on the CPU, which is how they are tested where there is no
// GPU.
//
// -DGPUMC_REAL=float does the arithmetic of a row, linear predictors included, in single precision. Sums over rows
// are always double.
#include "gpumc.h"

#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <vector>
#if defined(__CUDACC__)
#include <cuda_pipeline.h>
#endif

#if !defined(__CUDACC__) && !defined(GPUMC_CUDA_ON_HOST)
#error "gpumc_cuda.cu: compile with nvcc (or, for tests without a GPU, define GPUMC_CUDA_ON_HOST)"
#endif

namespace {

// Types for vector accesses: two values in one access (pair_of), sixteen bytes in one copy (line_of).
template <class T> struct alignas(2 * sizeof(T)) pair_of { T of[2]; };
typedef pair_of<double> pair;
template <class T> struct alignas(16) line_of { T of[16 / sizeof(T)]; };

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
// A job of teams is run for every point, or every pass of points, by `blocks` blocks of BLOCK threads; Job::team
// threads form a team. Each thread adds up its share(); store() gets the sums over the team, the first n_own of which
// are final; the others are added up over the block and go to store_block(). In a job of tiles each block goes
// through the phases of one tile after another, then through rounds in which its threads combine what they have
// summed, with a barrier after every phase and round.
enum { BLOCK = 128, WARP = 32, MOST_GRID = 65535 };

struct place { int thread; std::size_t block, pass, chunk; };
struct tile_grid { int threads; std::size_t passes, blocks, chunks, n_tiles, bytes; };

#if defined(__CUDACC__)
#define BOTH __host__ __device__ __forceinline__

gpumc_status driver(cudaError_t code, const char *what, gpumc_error *error)
{
    if (code == cudaSuccess) return GPUMC_OK;
    cudaGetLastError();         // clears the error, which later calls would report again
    return fail(error, code == cudaErrorMemoryAllocation ? GPUMC_ERROR_MEMORY : GPUMC_ERROR_DEVICE,
                "GPU: %s: %s", what, cudaGetErrorString(code));
}

gpumc_status device_allocate(void **memory, std::size_t bytes, gpumc_error *error)
{ return driver(cudaMalloc(memory, bytes), "cudaMalloc", error); }
void device_free(void *memory) { cudaFree(memory); }
// Pinned host memory, which the GPU reads and writes in place.
gpumc_status shared_allocate(void **memory, std::size_t bytes, gpumc_error *error)
{ return driver(cudaMallocHost(memory, bytes), "cudaMallocHost", error); }
void shared_free(void *memory) { cudaFreeHost(memory); }
gpumc_status to_device(void *to, const void *from, std::size_t bytes, gpumc_error *error)
{
    return driver(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload", error);
}

template <class T> __device__ __forceinline__ void fetch(line_of<T> *to, const line_of<T> *from)
{ __pipeline_memcpy_async(to, from, sizeof *to); }

__global__ void copy_points(double *to, const double *from, std::size_t n)
{
    const std::size_t i = (std::size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) to[i] = from[i];
}

template <class Job> __global__ void run_teams(Job job)
{
    enum { n_own = Job::n_own, n_sums = Job::n_sums, n_all = n_sums - n_own, warps = BLOCK / WARP };
    const int team = (int)Job::team < (int)WARP ? (int)Job::team : (int)WARP, thread = (int)threadIdx.x;
    const std::size_t point = blockIdx.y, block = blockIdx.x;
    double sum[n_sums];
    for (int k = 0; k < n_sums; k++) sum[k] = 0;
    job.share(point, block, thread, sum);
    for (int offset = team / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int k = 0; k < n_sums; k++) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], offset);
    job.store(point, block, thread, sum);
    for (int offset = team; offset < WARP; offset *= 2)
#pragma unroll
        for (int k = n_own; k < n_sums; k++) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], offset);
    __shared__ double of_warp[warps][n_all];
    if (thread % WARP == 0)
        for (int k = 0; k < n_all; k++) of_warp[thread / WARP][k] = sum[n_own + k];
    __syncthreads();
    if (thread != 0) return;
    for (int w = 1; w < warps; w++)
        for (int k = 0; k < n_all; k++) sum[n_own + k] += of_warp[w][k];
    job.store_block(point, block, sum + n_own);
}

template <class Job> __global__ void run_tiles(Job job, std::size_t n_tiles)
{
    extern __shared__ double2 memory[];
    const place at = { (int)threadIdx.x, blockIdx.y, blockIdx.x, blockIdx.z };
    typename Job::state state;
    job.begin(at, state, (double *)memory);
    for (std::size_t tile = at.block; tile < n_tiles; tile += gridDim.y) {
        job.load(at, tile, (double *)memory);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int phase = 0; phase < Job::n_phases; phase++) {
            job.work(phase, at, tile, state, (double *)memory);
            __syncthreads();
        }
    }
    for (int round = 0; round < Job::n_rounds; round++) {
        job.keep(round, at, state, (double *)memory);
        __syncthreads();
        job.finish(round, at, (double *)memory);
        __syncthreads();
    }
}

// A stream. The launches of a call with a given number of points are recorded as a graph the first time and repeated
// as a whole from then on; they are complete when wait() returns.
class queue {
public:
    queue() : stream(NULL), done(NULL), device(0) {}
    ~queue()
    {
        forget();
        if (done) cudaEventDestroy(done);
        if (stream) cudaStreamDestroy(stream);
    }
    // To be called after the last upload, for the end of which it waits.
    gpumc_status open(gpumc_error *error)
    {
        gpumc_status status = driver(cudaStreamSynchronize(0), "upload", error);
        if (status == GPUMC_OK) status = driver(cudaGetDevice(&device), "cudaGetDevice", error);
        if (status == GPUMC_OK)
            status = driver(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", error);
        if (status != GPUMC_OK) return status;
        return driver(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "cudaEventCreate", error);
    }
    // The current device is a property of the calling thread and need not be the stream's.
    template <class Launch> gpumc_status start(std::size_t n_points, Launch launch, gpumc_error *error)
    {
        int before = device;
        gpumc_status status = driver(cudaGetDevice(&before), "cudaGetDevice", error);
        if (status == GPUMC_OK && before != device) status = driver(cudaSetDevice(device), "cudaSetDevice", error);
        if (status == GPUMC_OK) status = start_here(n_points, launch, error);
        if (before != device) cudaSetDevice(before);
        return status;
    }
    gpumc_status wait(gpumc_error *error) { return driver(cudaStreamSynchronize(stream), "kernel", error); }
    // What is launched here from now on waits for all that the other has been given so far; while one of them is
    // being recorded, both become parts of one graph.
    gpumc_status follow(queue &other, gpumc_error *error)
    {
        const gpumc_status status = driver(cudaEventRecord(other.done, other.stream), "cudaEventRecord", error);
        if (status != GPUMC_OK) return status;
        return driver(cudaStreamWaitEvent(stream, other.done, 0), "cudaStreamWaitEvent", error);
    }
    gpumc_status copy(double *to, const double *from, std::size_t n, gpumc_error *error)
    {
        const std::size_t blocks = (n + BLOCK - 1) / BLOCK;
        if (blocks) copy_points<<<(unsigned)blocks, BLOCK, 0, stream>>>(to, from, n);
        return driver(cudaGetLastError(), "launch", error);
    }
    template <class Job>
    gpumc_status teams(const Job &job, std::size_t n_points, std::size_t blocks, gpumc_error *error)
    {
        if (blocks > INT_MAX) return too_many(blocks, error);
        if (blocks) run_teams<<<dim3((unsigned)blocks, (unsigned)n_points), BLOCK, 0, stream>>>(job);
        return driver(cudaGetLastError(), "launch", error);
    }
    template <class Job> gpumc_status tiles(const Job &job, const tile_grid &g, gpumc_error *error)
    {
        if (g.chunks > MOST_GRID) return too_many(g.chunks, error);
        const dim3 grid((unsigned)g.passes, (unsigned)g.blocks, (unsigned)g.chunks);
        run_tiles<<<grid, g.threads, g.bytes, stream>>>(job, g.n_tiles);
        return driver(cudaGetLastError(), "launch", error);
    }

private:
    enum { MOST_RECORDED = 256 };
    cudaStream_t stream;
    cudaEvent_t done;
    int device;
    std::map<std::size_t, cudaGraphExec_t> recorded;

    void forget()
    {
        for (std::map<std::size_t, cudaGraphExec_t>::iterator i = recorded.begin(); i != recorded.end(); ++i)
            if (i->second) cudaGraphExecDestroy(i->second);
        recorded.clear();
    }
    template <class Launch> gpumc_status start_here(std::size_t n_points, Launch launch, gpumc_error *error)
    {
        if (recorded.size() >= MOST_RECORDED && !recorded.count(n_points)) forget();
        cudaGraphExec_t &graph = recorded[n_points];
        cudaGetLastError();                                  // clears errors that others have left unread
        return graph || record(&graph, launch, error) == GPUMC_OK
            ? driver(cudaGraphLaunch(graph, stream), "cudaGraphLaunch", error) : launch();
    }

    gpumc_status too_many(std::size_t blocks, gpumc_error *error)
    {
        return fail(error, GPUMC_ERROR_ARGUMENT, "GPU: %zu blocks are too many for one launch", blocks);
    }
    template <class Launch> gpumc_status record(cudaGraphExec_t *to, Launch launch, gpumc_error *error)
    {
        cudaGraph_t graph = NULL;
        gpumc_status status =
            driver(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture", error);
        if (status != GPUMC_OK) return status;
        status = launch();
        const cudaError_t code = cudaStreamEndCapture(stream, &graph);
        if (status == GPUMC_OK || code != cudaSuccess) status = driver(code, "capture", error);
        if (status == GPUMC_OK)
            status = driver(cudaGraphInstantiateWithFlags(to, graph, 0), "cudaGraphInstantiate", error);
        if (graph) cudaGraphDestroy(graph);
        return status;
    }
};

// The most shared memory that a block may have on this GPU.
std::size_t most_shared_bytes()
{
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess
        || cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return 0;
    return (std::size_t)bytes;
}
// How many blocks of so many threads and bytes of shared memory run at once. The limit of shared memory belongs to
// the kernel, not to the object that launches it: all set the same one.
template <class Job> gpumc_status blocks_at_once(int threads, std::size_t bytes, std::size_t *n, gpumc_error *error)
{
    int device = 0, processors = 0, each = 0;
    gpumc_status status = driver(cudaFuncSetAttribute(run_tiles<Job>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                      (int)most_shared_bytes()), "cudaFuncSetAttribute", error);
    if (status == GPUMC_OK) status = driver(cudaGetDevice(&device), "cudaGetDevice", error);
    if (status == GPUMC_OK)
        status = driver(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                        "cudaDeviceGetAttribute", error);
    if (status == GPUMC_OK)
        status = driver(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run_tiles<Job>, threads, bytes),
                        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", error);
    *n = (std::size_t)processors * (std::size_t)(each > 0 ? each : 1);
    return status;
}
#else
#define BOTH inline

gpumc_status device_allocate(void **memory, std::size_t bytes, gpumc_error *error)
{
    *memory = std::malloc(bytes);
    return *memory ? GPUMC_OK : fail(error, GPUMC_ERROR_MEMORY, "%zu bytes were not to be had", bytes);
}
void device_free(void *memory) { std::free(memory); }
gpumc_status shared_allocate(void **memory, std::size_t bytes, gpumc_error *error)
{ return device_allocate(memory, bytes, error); }
void shared_free(void *memory) { std::free(memory); }
gpumc_status to_device(void *to, const void *from, std::size_t bytes, gpumc_error *)
{
    std::memcpy(to, from, bytes);
    return GPUMC_OK;
}
template <class T> void fetch(line_of<T> *to, const line_of<T> *from) { *to = *from; }

// The GPU's threads as loops on the CPU, with sums in the same order.
class queue {
public:
    gpumc_status open(gpumc_error *) { return GPUMC_OK; }
    template <class Launch> gpumc_status start(std::size_t, Launch launch, gpumc_error *) { return launch(); }
    gpumc_status wait(gpumc_error *) { return GPUMC_OK; }
    gpumc_status follow(queue &, gpumc_error *) { return GPUMC_OK; }
    gpumc_status copy(double *to, const double *from, std::size_t n, gpumc_error *)
    {
        std::memcpy(to, from, n * sizeof *to);
        return GPUMC_OK;
    }
    template <class Job>
    gpumc_status teams(const Job &job, std::size_t n_points, std::size_t blocks, gpumc_error *)
    {
        for (std::size_t t = 0; t < n_points * blocks; t++) one_block(job, t / blocks, t % blocks);
        return GPUMC_OK;
    }
    template <class Job> gpumc_status tiles(const Job &job, const tile_grid &g, gpumc_error *)
    {
        std::vector<pair> memory(g.bytes / sizeof(pair) + 1);
        for (std::size_t t = 0; t < g.passes * g.blocks * g.chunks; t++)
            one_tiled(job, g, t, (double *)memory.data());
        return GPUMC_OK;
    }

private:
    template <class Job> static void add(double (*sum)[Job::n_sums], int first, int offset)
    {
        double other[BLOCK][Job::n_sums];
        std::memcpy(other, sum, sizeof other);
        for (int thread = 0; thread < BLOCK; thread++)
            for (int k = first; k < Job::n_sums; k++) sum[thread][k] += other[thread ^ offset][k];
    }
    template <class Job> static void one_block(const Job &job, std::size_t point, std::size_t block)
    {
        const int team = (int)Job::team < (int)WARP ? (int)Job::team : (int)WARP;
        double sum[BLOCK][Job::n_sums] = {};
        for (int thread = 0; thread < BLOCK; thread++) job.share(point, block, thread, sum[thread]);
        for (int offset = team / 2; offset > 0; offset /= 2) add<Job>(sum, 0, offset);
        for (int thread = 0; thread < BLOCK; thread++) job.store(point, block, thread, sum[thread]);
        for (int offset = team; offset < WARP; offset *= 2) add<Job>(sum, Job::n_own, offset);
        for (int w = WARP; w < BLOCK; w += WARP)
            for (int k = Job::n_own; k < Job::n_sums; k++) sum[0][k] += sum[w][k];
        job.store_block(point, block, sum[0] + Job::n_own);
    }
    template <class Job>
    static void one_tiled(const Job &job, const tile_grid &g, std::size_t t, double *memory)
    {
        std::vector<typename Job::state> state((std::size_t)g.threads);
        place at = { 0, t / g.passes % g.blocks, t % g.passes, t / g.passes / g.blocks };
        int &i = at.thread;
        for (i = 0; i < g.threads; i++) job.begin(at, state[(std::size_t)i], memory);
        for (std::size_t tile = at.block; tile < g.n_tiles; tile += g.blocks) {
            for (i = 0; i < g.threads; i++) job.load(at, tile, memory);
            for (int phase = 0; phase < Job::n_phases; phase++)
                for (i = 0; i < g.threads; i++) job.work(phase, at, tile, state[(std::size_t)i], memory);
        }
        for (int round = 0; round < Job::n_rounds; round++) {
            for (i = 0; i < g.threads; i++) job.keep(round, at, state[(std::size_t)i], memory);
            for (i = 0; i < g.threads; i++) job.finish(round, at, memory);
        }
    }
};

std::size_t most_shared_bytes() { return 232448; }      // as an H100
template <class Job> gpumc_status blocks_at_once(int, std::size_t, std::size_t *n, gpumc_error *)
{
    *n = 7;
    return GPUMC_OK;
}
#endif

BOTH std::size_t team_of(std::size_t block, int thread, int team)
{ return (block * BLOCK + (std::size_t)thread) / (std::size_t)team; }

template <class T, gpumc_status (*get)(void **, std::size_t, gpumc_error *), void (*give_back)(void *)> class array {
public:
    T *at;
    array() : at(NULL) {}
    ~array() { give_back(at); }
    gpumc_status allocate(std::size_t n, gpumc_error *error)
    {
        void *memory = NULL;
        const gpumc_status status = get(&memory, n ? n * sizeof(T) : 1, error);
        at = (T *)memory;
        return status;
    }
    gpumc_status upload(const std::vector<T> &from, gpumc_error *error)
    {
        const gpumc_status status = allocate(from.size(), error);
        return status == GPUMC_OK ? upload_part(0, from, error) : status;
    }
    gpumc_status upload_part(std::size_t first, const std::vector<T> &from, gpumc_error *error)
    { return from.empty() ? GPUMC_OK : to_device(at + first, from.data(), from.size() * sizeof(T), error); }
private:
    array(const array &);
    array &operator=(const array &);
};
template <class T> using device_array = array<T, device_allocate, device_free>;
typedef array<double, shared_allocate, shared_free> shared_array;

// ---- what has been uploaded once and is evaluated many times ----------------------------------------------
// The result of a point is its value, then its derivatives: first `head` totals, which are sums over all rows; then
// n_between sums over the rows of one group or level each; the rest are totals again.

// Sums partial[point][n_totals][n_partials] and writes the whole result to out, in memory that the host reads.
struct deliver_job {
    enum { team = BLOCK, n_own = 0, n_sums = 1 };
    const double *partial, *between;        // between: [point][n_between]
    std::size_t n_totals, n_partials, n_between, head;
    double *out;
    BOTH std::size_t stride() const { return n_totals + n_between; }
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        if (block < n_totals) {
            const double *p = partial + (point * n_totals + block) * n_partials;
            for (std::size_t i = (std::size_t)thread; i < n_partials; i += BLOCK) sum[0] += p[i];
            return;
        }
        const std::size_t i = (block - n_totals) * BLOCK + (std::size_t)thread;
        if (i < n_between) out[point * stride() + head + i] = between[point * n_between + i];
    }
    BOTH void store(std::size_t, std::size_t, int, double *) const {}
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    {
        if (block < n_totals) out[point * stride() + (block < head ? block : block + n_between)] = sum[0];
    }
    std::size_t blocks() const { return n_totals + (n_between + BLOCK - 1) / BLOCK; }
};

class gpu_hot : public gpumc_hot {
public:
    std::size_t max_points, head, n_between;
    device_array<double> points, between, partial;
    const double *source;               // points that launch() reads: ours, or a gpu_joint's during its call
    queue work;
    gpu_hot() : gpumc_hot(), max_points(0), head(0), n_between(0), source(NULL), n_partials_each(0)
    {
        where = "GPU";
        eval = evaluate;
        release = discard;
    }
    virtual ~gpu_hot() {}
    virtual gpumc_status launch(std::size_t n_points, gpumc_error *error) = 0;

    std::size_t n_totals() const { return 1 + n_params - n_between; }
    gpumc_status allocate(std::size_t n_partials, gpumc_error *error)
    {
        n_partials_each = n_partials;
        gpumc_status status = points.allocate(max_points * n_params, error);
        if (status == GPUMC_OK) status = between.allocate(max_points * n_between, error);
        if (status == GPUMC_OK) status = partial.allocate(max_points * n_totals() * n_partials, error);
        if (status == GPUMC_OK) status = given.allocate(max_points * n_params, error);
        if (status == GPUMC_OK) status = results.allocate(max_points * (1 + n_params), error);
        source = points.at;
        return status == GPUMC_OK ? work.open(error) : status;
    }
    deliver_job deliver(double *to) const
    {
        const deliver_job job = { partial.at, between.at, n_totals(), n_partials_each, n_between, head, to };
        return job;
    }

private:
    shared_array given, results;
    std::size_t n_partials_each;
    static void discard(gpumc_hot *hot) { delete static_cast<gpu_hot *>(hot); }
    static gpumc_status evaluate(gpumc_hot *hot, std::size_t n, const double *p, double *grad, double *lp,
                                 gpumc_error *error)
    {
        gpu_hot *const h = static_cast<gpu_hot *>(hot);
        gpumc_status status = GPUMC_OK;
        try {
            for (std::size_t done = 0, some; done < n && status == GPUMC_OK; done += some) {
                some = n - done < h->max_points ? n - done : h->max_points;
                status = h->turn(some, p + done * h->n_params, grad + done * h->n_params, lp + done, error);
            }
        } catch (const std::exception &) {
            return fail(error, GPUMC_ERROR_MEMORY, "GPU: out of host memory");
        }
        return status;
    }
    gpumc_status turn(std::size_t n, const double *p, double *grad, double *lp, gpumc_error *error)
    {
        const std::size_t stride = 1 + n_params;
        std::memcpy(given.at, p, n * n_params * sizeof *p);
        gpumc_status status = work.start(n, [&] { return everything(n, error); }, error);
        if (status == GPUMC_OK) status = work.wait(error);
        for (std::size_t i = 0; i < n && status == GPUMC_OK; i++) {
            lp[i] = results.at[i * stride];
            for (std::size_t k = 0; k < n_params; k++)
                grad[i * n_params + k] += results.at[i * stride + 1 + k];
        }
        return status;
    }
    gpumc_status everything(std::size_t n, gpumc_error *error)
    {
        const deliver_job last = deliver(results.at);
        gpumc_status status = work.copy(points.at, given.at, n * n_params, error);
        if (status == GPUMC_OK) status = launch(n, error);
        return status == GPUMC_OK ? work.teams(last, n, last.blocks(), error) : status;
    }
};

// Delivers the results of several gpu_hot in one launch: the blocks of all deliver_jobs, one after the other.
struct deliver_all_job {
    enum { team = BLOCK, n_own = 0, n_sums = 1 };
    struct part { unsigned member, block; };
    const deliver_job *members;
    const part *parts;                  // what each block does
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    { members[parts[block].member].share(point, parts[block].block, thread, sum); }
    BOTH void store(std::size_t, std::size_t, int, double *) const {}
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    { members[parts[block].member].store_block(point, parts[block].block, sum); }
};

// Evaluates several gpu_hot, one point each: they run side by side, and share the launches that copy the points
// before and deliver the results after.
class gpu_joint : public gpumc__joint {
public:
    gpu_joint() : gpumc__joint()
    {
        start = launched;
        finish = delivered;
        release = discard;
    }
    gpumc_status open(gpumc_hot *const *of, std::size_t n, gpumc_error *error)
    {
        std::vector<deliver_job> delivers;
        std::vector<deliver_all_job::part> all;
        n_values = 0;
        for (std::size_t i = 0; i < n; i++) {
            members.push_back(static_cast<gpu_hot *>(of[i]));
            n_values += of[i]->n_params;
        }
        gpumc_status status = points.allocate(n_values, error);
        if (status == GPUMC_OK) status = given.allocate(n_values, error);
        if (status == GPUMC_OK) status = results.allocate(n_values + n, error);
        if (status != GPUMC_OK) return status;
        p = given.at;
        result = results.at;
        double *to = results.at;
        for (std::size_t i = 0; i < n; to += 1 + members[i++]->n_params) {
            delivers.push_back(members[i]->deliver(to));
            for (std::size_t b = 0; b < delivers[i].blocks(); b++) {
                const deliver_all_job::part part = { (unsigned)i, (unsigned)b };
                all.push_back(part);
            }
        }
        n_blocks = all.size();
        status = jobs.upload(delivers, error);
        if (status == GPUMC_OK) status = parts.upload(all, error);
        return status == GPUMC_OK ? work.open(error) : status;
    }

private:
    std::vector<gpu_hot *> members;
    std::size_t n_values, n_blocks;
    device_array<double> points;
    device_array<deliver_job> jobs;
    device_array<deliver_all_job::part> parts;
    shared_array given, results;
    queue work;
    static void discard(gpumc__joint *joint) { delete static_cast<gpu_joint *>(joint); }
    // What a failed start has launched must have ended before the members are used again.
    static gpumc_status launched(gpumc__joint *joint, gpumc_error *error)
    {
        gpu_joint *const h = static_cast<gpu_joint *>(joint);
        gpumc_status status;
        try {
            status = h->work.start(1, [&] { return h->everything(error); }, error);
        } catch (const std::exception &) {
            status = fail(error, GPUMC_ERROR_MEMORY, "GPU: out of host memory");
        }
        for (std::size_t i = 0; i < h->members.size() && status != GPUMC_OK; i++) h->members[i]->work.wait(NULL);
        if (status != GPUMC_OK) h->work.wait(NULL);
        return status;
    }
    static gpumc_status delivered(gpumc__joint *joint, gpumc_error *error)
    { return static_cast<gpu_joint *>(joint)->work.wait(error); }
    gpumc_status everything(gpumc_error *error)
    {
        const deliver_all_job last = { jobs.at, parts.at };
        const double *from = points.at;
        gpumc_status status = work.copy(points.at, given.at, n_values, error);
        for (std::size_t i = 0; i < members.size() && status == GPUMC_OK; from += members[i++]->n_params) {
            status = members[i]->work.follow(work, error);
            members[i]->source = from;
            if (status == GPUMC_OK) status = members[i]->launch(1, error);
            members[i]->source = members[i]->points.at;
        }
        for (std::size_t i = 0; i < members.size() && status == GPUMC_OK; i++)
            status = work.follow(members[i]->work, error);
        return status == GPUMC_OK ? work.teams(last, 1, n_blocks, error) : status;
    }
};

// ---- rows: sorted by group, cut into segments -------------------------------------------------------------
// A row of weight 0 is left out, even if its value is NaN or infinite.
BOTH double weighed(double weight, double value) { return weight > 0 ? weight * value : 0; }

struct segment { std::size_t begin, length, group; };

template <class Column> struct rows_view {
    const Column *columns;              // one after the other
    const double *weights;              // NULL: 1
    const segment *segments;
    std::size_t n_rows, n_groups, n_segments;
};

// Where sums go: those of a segment, by the group parameters, and those of a block, value and then by the shared
// parameters.
template <int N_GROUP, int N_SUMS> struct rows_sums {
    double *own, *partial;              // [point][group parameter][segment], [point][sum][block]
    std::size_t n_segments, n_blocks;
    BOTH void store_segment(std::size_t point, std::size_t s, const double *sum) const
    {
        for (int k = 0; k < N_GROUP; k++) own[(point * N_GROUP + k) * n_segments + s] = sum[k];
    }
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    {
        for (int k = 0; k < N_SUMS - N_GROUP; k++)
            partial[(point * (N_SUMS - N_GROUP) + k) * n_blocks + block] = sum[k];
    }
};

// The parameters that the rows of a group take. A point holds n_group times n_groups values, parameter after
// parameter, then n_shared.
template <class Leaf>
BOTH void take(const double *points, std::size_t point, std::size_t group, std::size_t n_groups, gpumc_real *p)
{
    const double *from = points + point * (Leaf::n_group * n_groups + Leaf::n_shared);
    for (int k = 0; k < Leaf::n_group; k++) p[k] = (gpumc_real)from[k * n_groups + group];
    for (int k = 0; k < Leaf::n_shared; k++) p[Leaf::n_group + k] = (gpumc_real)from[Leaf::n_group * n_groups + k];
}

// Value and derivatives of one segment.
template <class Leaf, class Column, int Team> struct segment_job {
    enum { team = Team, n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_own = n_group,
           n_sums = n_group + 1 + n_shared };
    rows_view<Column> v;
    const double *points;
    rows_sums<n_group, n_sums> to;
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t t = team_of(block, thread, team);
        if (t >= v.n_segments) return;
        const segment s = v.segments[t];
        gpumc_real p[n_sums];
        take<Leaf>(points, point, s.group, v.n_groups, p);
        for (std::size_t i = s.begin + (std::size_t)(thread % team); i < s.begin + s.length; i += team) {
            gpumc_real x[Leaf::n_columns], g[n_sums] = {};
            for (int c = 0; c < Leaf::n_columns; c++) x[c] = (gpumc_real)v.columns[c * v.n_rows + i];
            const double value = (double)Leaf::call(p, x, g), w = v.weights ? v.weights[i] : 1;
            for (int k = 0; k < n_group; k++) sum[k] += weighed(w, (double)g[k]);
            sum[n_group] += weighed(w, value);
            for (int k = n_group; k < n_group + n_shared; k++) sum[k + 1] += weighed(w, (double)g[k]);
        }
    }
    BOTH void store(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t t = team_of(block, thread, team);
        if (thread % team == 0 && t < v.n_segments) to.store_segment(point, t, sum);
    }
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    { to.store_block(point, block, sum); }
};

// Rows in two stages: the threads of a team share the nodes of one row, and the first computes the row's value and
// derivatives from the sums over nodes. Each row is a segment of its own.
template <class Leaf, class Column> struct cell_job {
    enum { team = 16, n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_columns = Leaf::n_columns,
           n_nodes = Leaf::n_nodes, n_p = n_group + n_shared, n_own = n_group, n_sums = 1 + n_p };
    rows_view<Column> v;
    const double *nodes;                // column after column
    std::size_t n;                      // values of each
    const double *points;
    rows_sums<n_group, n_sums> to;
    BOTH void gather(std::size_t point, std::size_t t, gpumc_real *p, gpumc_real *x) const
    {
        take<Leaf>(points, point, v.segments[t].group, v.n_groups, p);
        for (int c = 0; c < n_columns; c++) x[c] = (gpumc_real)v.columns[c * v.n_rows + v.segments[t].begin];
    }
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t t = team_of(block, thread, team);
        gpumc_real p[n_sums], x[n_columns + n_nodes];
        if (t >= v.n_segments) return;
        gather(point, t, p, x);
        for (std::size_t i = (std::size_t)(thread % team); i < n; i += team) {
            gpumc_real g[n_sums] = {};
            for (int c = 0; c < n_nodes; c++) x[n_columns + c] = (gpumc_real)nodes[c * n + i];
            sum[0] += (double)Leaf::node(p, x, g);
            for (int k = 1; k < n_sums; k++) sum[k] += (double)g[k - 1];
        }
    }
    // Replaces the sums over nodes by those of the row, in the order of segment_job; they are in the first thread of
    // its team, all others have 0.
    BOTH void store(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t t = team_of(block, thread, team);
        gpumc_real p[n_sums], x[n_columns + n_nodes], g[n_sums] = {}, s[n_sums];
        for (int k = 0; k < n_sums; k++) s[k] = (gpumc_real)sum[k];
        for (int k = 0; k < n_sums; k++) sum[k] = 0;
        if (thread % team != 0 || t >= v.n_segments) return;
        gather(point, t, p, x);
        const double value = (double)Leaf::finish(s, p, x, g);
        const double w = v.weights ? v.weights[v.segments[t].begin] : 1;
        for (int k = 0; k < n_group; k++) sum[k] = weighed(w, (double)g[k]);
        sum[n_group] = weighed(w, value);
        for (int k = n_group; k < n_p; k++) sum[k + 1] = weighed(w, (double)g[k]);
        to.store_segment(point, t, sum);
    }
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    { to.store_block(point, block, sum); }
};

// Sums over the segments of each group: the derivatives by its group parameters.
template <int Team, int N_GROUP> struct group_job {
    enum { team = Team, n_own = N_GROUP, n_sums = N_GROUP + 1 };
    const double *own;                  // of segments
    const std::size_t *first_segment;   // n_groups + 1
    std::size_t n_groups, n_segments;
    double *out;
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t group = team_of(block, thread, team);
        if (group >= n_groups) return;
        for (std::size_t s = first_segment[group] + (std::size_t)(thread % team); s < first_segment[group + 1];
             s += team)
            for (int k = 0; k < N_GROUP; k++) sum[k] += own[(point * N_GROUP + k) * n_segments + s];
    }
    BOTH void store(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        const std::size_t group = team_of(block, thread, team);
        if (thread % team != 0 || group >= n_groups) return;
        for (int k = 0; k < N_GROUP; k++) out[(point * N_GROUP + k) * n_groups + group] = sum[k];
    }
    BOTH void store_block(std::size_t, std::size_t, const double *) const {}
};

struct sorted_rows {
    std::vector<std::size_t> order, first_segment, begin;   // begin: n_groups + 1 places in order
    std::vector<segment> segments;
    bool one_each;                      // segment k is all of group k
    sorted_rows(const std::size_t *group, std::size_t n_rows, std::size_t n_groups, std::size_t most)
        : order(n_rows), first_segment(n_groups + 1), begin(n_groups + 1), one_each(true)
    {
        for (std::size_t i = 0; i < n_rows; i++) begin[(group ? group[i] : 0) + 1]++;
        for (std::size_t g = 0; g < n_groups; g++) begin[g + 1] += begin[g];
        std::vector<std::size_t> next(begin);
        for (std::size_t i = 0; i < n_rows; i++) order[next[group ? group[i] : 0]++] = i;
        for (std::size_t g = 0; g < n_groups; g++) {
            first_segment[g] = segments.size();
            for (std::size_t at = begin[g]; at < begin[g + 1]; at += most) {
                const segment s = { at, begin[g + 1] - at < most ? begin[g + 1] - at : most, g };
                segments.push_back(s);
            }
            one_each = one_each && segments.size() == g + 1;
        }
        first_segment[n_groups] = segments.size();
    }
    static std::size_t longest(const std::vector<std::size_t> &begin)
    {
        std::size_t most = 0;
        for (std::size_t k = 0; k + 1 < begin.size(); k++)
            if (begin[k + 1] - begin[k] > most) most = begin[k + 1] - begin[k];
        return most;
    }
    template <class T> void append(std::vector<T> &to, const double *from) const
    {
        for (std::size_t i = 0; i < order.size(); i++) to.push_back((T)from[order[i]]);
    }
};

// Rows on the GPU, which several objects may evaluate.
template <class Column> struct resident_rows {
    device_array<Column> columns;
    device_array<double> weights, nodes;
    device_array<segment> segments;
    device_array<std::size_t> first_segment;
    std::size_t n_rows, n_groups, n_nodes, n_segments, most_segments;       // most_segments: of a group
    bool one_each;

    gpumc_status upload(const gpumc_rows_data &d, int n_columns, int n_node_columns, std::size_t longest,
                        gpumc_error *error)
    {
        const sorted_rows rows(d.group, d.n_rows, d.n_groups, longest);
        std::vector<Column> column;
        std::vector<double> all_weights, all_nodes;
        gpumc_status status = columns.allocate((std::size_t)n_columns * d.n_rows, error);
        for (int c = 0; c < n_columns && status == GPUMC_OK; c++) {
            column.clear();
            rows.append(column, d.columns[c]);
            status = columns.upload_part((std::size_t)c * d.n_rows, column, error);
        }
        if (d.weights) rows.append(all_weights, d.weights);
        for (int c = 0; c < n_node_columns; c++)
            all_nodes.insert(all_nodes.end(), d.nodes[c], d.nodes[c] + d.n_nodes);
        n_rows = d.n_rows;
        n_groups = d.n_groups;
        n_nodes = d.n_nodes;
        n_segments = rows.segments.size();
        most_segments = sorted_rows::longest(rows.first_segment);
        one_each = rows.one_each;
        if (status == GPUMC_OK && d.weights) status = weights.upload(all_weights, error);
        if (status == GPUMC_OK && n_node_columns > 0) status = nodes.upload(all_nodes, error);
        if (status == GPUMC_OK) status = segments.upload(rows.segments, error);
        return status == GPUMC_OK ? first_segment.upload(rows.first_segment, error) : status;
    }
    rows_view<Column> view() const
    {
        const rows_view<Column> v = { columns.at, weights.at, segments.at, n_rows, n_groups, n_segments };
        return v;
    }
};

// What both kinds of rows have in common: run_rows fills own and partial.
template <class Leaf, class Column> struct hot_sums : gpu_hot {
    enum { n_group = Leaf::n_group, n_shared = Leaf::n_shared, n_sums = 1 + n_group + n_shared };
    std::shared_ptr<resident_rows<Column> > rows;
    device_array<double> own;
    std::size_t n_blocks;
    virtual gpumc_status run_rows(std::size_t n_points, gpumc_error *error) = 0;

    // Takes over the rows of twin, if there is one, or uploads those of d in segments of at most `longest` rows;
    // allocates what teams write.
    gpumc_status take(const gpumc_rows_data &d, const hot_sums *twin, int n_node_columns, std::size_t longest,
                      std::size_t team, std::size_t points_at_once, gpumc_error *error)
    {
        gpumc_status status = GPUMC_OK;
        if (twin) rows = twin->rows;
        else rows.reset(new resident_rows<Column>);
        if (!twin) status = rows->upload(d, Leaf::n_columns, n_node_columns, longest, error);
        n_between = n_group * rows->n_groups;
        head = 1;
        n_params = n_between + n_shared;
        max_points = points_at_once;
        n_blocks = (rows->n_segments * team + BLOCK - 1) / BLOCK;
        if (status == GPUMC_OK && !rows->one_each)
            status = own.allocate(max_points * n_group * rows->n_segments, error);
        return status == GPUMC_OK ? allocate(n_blocks, error) : status;
    }

    rows_sums<n_group, n_sums> sums() const
    {
        const rows_sums<n_group, n_sums> to = { rows->one_each ? between.at : own.at, partial.at,
                                                rows->n_segments, n_blocks };
        return to;
    }
    gpumc_status launch(std::size_t n_points, gpumc_error *error)
    {
        const gpumc_status status = run_rows(n_points, error);
        if (status != GPUMC_OK || rows->one_each || n_group == 0) return status;
        return rows->most_segments > 8 ? run_groups<WARP>(n_points, error) : run_groups<1>(n_points, error);
    }
    template <int Team> gpumc_status run_groups(std::size_t n_points, gpumc_error *error)
    {
        const group_job<Team, (int)n_group + (n_group == 0)> job = {
            own.at, rows->first_segment.at, rows->n_groups, rows->n_segments, between.at
        };
        return work.teams(job, n_points, (rows->n_groups * Team + BLOCK - 1) / BLOCK, error);
    }
};

template <class Leaf, class Column> struct hot_rows : hot_sums<Leaf, Column> {
    std::size_t members;
    // The length of segments: short enough that all threads of a GPU have work, long enough for a team.
    static std::size_t longest(std::size_t n_rows)
    {
        const std::size_t share = (n_rows / 2048 + WARP - 1) / WARP * WARP;
        return share < 128 ? 128 : share > 1024 ? 1024 : share;
    }
    // Where segments are short most threads of a large team would be idle, which matters if there are more teams than
    // run at once.
    static std::size_t team_for(std::size_t n_rows, std::size_t n_groups)
    {
        const std::size_t each = n_rows / (n_groups ? n_groups : 1), threads = 1 << 16;
        if (each >= 64 || (each >= 8 && n_groups * WARP <= threads)) return WARP;
        return each >= 4 || (each >= 2 && n_groups * 4 <= threads) ? 4 : 1;
    }
    gpumc_status upload(const gpumc_rows_data &d, const hot_rows *twin, std::size_t points_at_once,
                        gpumc_error *error)
    {
        members = team_for(d.n_rows, d.n_groups);
        return this->take(d, twin, 0, longest(d.n_rows), members, points_at_once, error);
    }
    gpumc_status run_rows(std::size_t n_points, gpumc_error *error)
    {
        return members == 1 ? run_segments<1>(n_points, error)
             : members == 4 ? run_segments<4>(n_points, error) : run_segments<WARP>(n_points, error);
    }
    template <int Team> gpumc_status run_segments(std::size_t n_points, gpumc_error *error)
    {
        const segment_job<Leaf, Column, Team> job = { this->rows->view(), this->source, this->sums() };
        return this->work.teams(job, n_points, this->n_blocks, error);
    }
};

template <class Leaf, class Column> struct hot_cells : hot_sums<Leaf, Column> {
    typedef cell_job<Leaf, Column> job_type;
    gpumc_status upload(const gpumc_rows_data &d, const hot_cells *twin, std::size_t points_at_once,
                        gpumc_error *error)
    {
        return this->take(d, twin, Leaf::n_nodes, 1, job_type::team, points_at_once, error);
    }
    gpumc_status run_rows(std::size_t n_points, gpumc_error *error)
    {
        const resident_rows<Column> &r = *this->rows;
        const job_type job = { r.view(), r.nodes.at, r.n_nodes, this->source, this->sums() };
        return this->work.teams(job, n_points, this->n_blocks, error);
    }
};

// ---- linear predictors ------------------------------------------------------------------------------------
// A block loads a tile of rows into shared memory and does everything with it there: linear predictors of up to
// POINTS points, density and residual of every row, products of columns with residuals. So X is read once. A matrix
// too wide for that is cut into chunks of columns; predictors and products are then two passes over it.

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

// For the passes over a wide matrix, which evaluate no density.
struct no_family {
    enum { n_aux = 0 };
    static BOTH gpumc_real density(gpumc_real, gpumc_real, const gpumc_real *, gpumc_real *, gpumc_real *)
    { return 0; }
};

enum { POINTS = 8, STRIDE = POINTS + 2, MOST_THREADS = 256, CHUNK = 62 };   // STRIDE: against bank conflicts
enum { PART = 1 << 16 };                               // values of X in one upload, or a few more

inline std::size_t passes(std::size_t n_points) { return (n_points + POINTS - 1) / POINTS; }
BOTH int points_of(std::size_t pass, std::size_t n_points)
{
    const std::size_t left = n_points - pass * POINTS;
    return left < POINTS ? (int)left : (int)POINTS;
}

// A tile has 1 << row_bits rows. For predictors a thread takes two rows, half a tile apart, and one slice of the
// columns; for products two columns, `lanes` apart, and every splits()-th pair of rows.
struct tile_shape {
    int threads, row_bits, lanes;
    std::size_t chunk, n_chunks, n_tiles, n_blocks, bytes;
    BOTH int rows() const { return 1 << row_bits; }
    BOTH int slices() const { return 2 * threads >> row_bits; }
    BOTH int splits() const { return threads / lanes; }
};

// Parameters of a point: intercept, slopes, the effects of each factor, then sigma or phi, then nu.
template <class Column> struct glm_view {
    const Column *x;                    // chunk after chunk, in it tile after tile, column after column
    const double *y, *offset, *weights; // offset, weights: NULL for 0 and 1
    const unsigned *levels;             // factor after factor: which parameter a row takes
    std::size_t n_rows, n_columns, n_factors, n_params, first_aux;
};

enum glm_output { RESIDUAL, VALUE, BY_AUX };

// Log density of one row, its residual (the derivative by the linear predictor) and its derivatives by sigma or phi
// and nu. eta arrives with the contribution of the columns; intercept, offset and factors are added here.
template <class Family, class Column>
BOTH void glm_row(const glm_view<Column> &v, const double *p, std::size_t row, gpumc_real eta, double *out)
{
    enum { n_aux = Family::n_aux };
    gpumc_real a[n_aux + 1], r = 0, da[n_aux + 1] = {};
    for (int k = 0; k < n_aux; k++) a[k] = (gpumc_real)p[v.first_aux + k];
    eta += (gpumc_real)(p[0] + (v.offset ? v.offset[row] : 0));
    for (std::size_t f = 0; f < v.n_factors; f++) eta += (gpumc_real)p[v.levels[f * v.n_rows + row]];
    const double w = v.weights ? v.weights[row] : 1;
    out[VALUE] = weighed(w, (double)Family::density((gpumc_real)v.y[row], eta, a, &r, da));
    out[RESIDUAL] = weighed(w, (double)r);
    for (int k = 0; k < n_aux; k++) out[BY_AUX + k] = weighed(w, (double)da[k]);
}

enum glm_step { WHOLE, PREDICT, PRODUCTS };     // of a narrow matrix; the two passes over a wide one

template <class Family, class Column, int Step> struct glm_tiles_job {
    enum { n_aux = Family::n_aux, n_outputs = BY_AUX + n_aux, n_phases = Step == WHOLE ? 3 : 2,
           n_rounds = Step == WHOLE ? 3 : Step == PRODUCTS ? 2 : 0, ones = Step == WHOLE };
    struct state { double column[2][POINTS], row[1 + n_aux]; };     // sums for two columns; of value and by aux
    glm_view<Column> v;
    tile_shape s;
    const double *points;
    double *predictors, *residuals;     // [chunk][point][row], [pass][row][POINTS]
    double *partial;                    // [point][total][block]
    std::size_t n_points, max_points, n_totals;

    // Shared memory holds: slopes by column and point; outputs (in predict: one set a slice) by row and point; X,
    // column by column, with sixteen bytes between columns against bank conflicts; two ones.
    enum { per_line = 16 / sizeof(Column) };
    BOTH double *outputs(double *memory) const { return memory + s.chunk * POINTS; }
    BOTH static std::size_t n_output_sets(int slices) { return slices > n_outputs ? slices : n_outputs; }
    BOTH double *output(double *memory, int set, int row) const
    { return outputs(memory) + ((set << s.row_bits) + row) * STRIDE; }
    BOTH Column *tile_of(double *memory) const
    { return (Column *)(outputs(memory) + (n_output_sets(s.slices()) << s.row_bits) * STRIDE); }
    BOTH int stride() const { return s.rows() + per_line; }
    BOTH Column *one(double *memory) const { return tile_of(memory) + s.chunk * (std::size_t)stride(); }
    static std::size_t bytes(int threads, int row_bits, std::size_t chunk)
    {
        const std::size_t rows = (std::size_t)1 << row_bits;
        return (chunk * POINTS + n_output_sets(2 * threads >> row_bits) * rows * STRIDE) * sizeof(double)
             + (chunk * (rows + per_line) + 2) * sizeof(Column);
    }

    BOTH int width(const place &at) const
    {
        const std::size_t left = v.n_columns - at.chunk * s.chunk;
        return (int)(left < s.chunk ? left : s.chunk);
    }
    BOTH int n_here(const place &at) const { return points_of(at.pass, n_points); }
    BOTH static int point_bits(int n) { return n == 1 ? 0 : n <= 4 ? 2 : 3; }
    BOTH std::size_t point(const place &at, int k) const { return at.pass * POINTS + (std::size_t)k; }
    BOTH double *residual(const place &at, std::size_t row, int k) const
    { return residuals + (at.pass * v.n_rows + row) * POINTS + k; }

    BOTH void begin(const place &at, state &mine, double *memory) const
    {
        const int n = n_here(at), all = width(at) * POINTS;
        for (int k = 0; k < POINTS; k++) mine.column[0][k] = mine.column[1][k] = 0;
        for (int k = 0; k < 1 + n_aux; k++) mine.row[k] = 0;
        if (at.thread < 2) one(memory)[at.thread] = 1;
        if (Step != PRODUCTS)
            for (int i = at.thread; i < all; i += s.threads)
                memory[i] = i % POINTS < n ? points[point(at, i % POINTS) * v.n_params + 1 + at.chunk * s.chunk
                                                    + (std::size_t)(i / POINTS)] : 0;
    }
    BOTH void load(const place &at, std::size_t tile, double *memory) const
    {
        typedef line_of<Column> line;
        const int n = width(at), bits = s.row_bits - (per_line == 2 ? 1 : 2), per_column = 1 << bits;
        const std::size_t columns_before = at.chunk * s.chunk * s.n_tiles + tile * (std::size_t)n;
        const line *from = (const line *)(v.x + (columns_before << s.row_bits));
        line *to = (line *)tile_of(memory);
        for (int i = at.thread; i < n << bits; i += s.threads)
            fetch(to + (i >> bits) * (per_column + 1) + (i & (per_column - 1)), from + i);
    }
    BOTH void work(int phase, const place &at, std::size_t tile, state &mine, double *memory) const
    {
        const int n = n_here(at);
        if (Step == PRODUCTS && phase == 0)
            load_residuals(at, tile, memory);
        else if (phase == 0)
            n == 1 ? predict<1>(at, memory) : n <= 4 ? predict<4>(at, memory) : predict<POINTS>(at, memory);
        else if (Step == PREDICT)
            keep_predictors(at, tile, memory);
        else if (Step == WHOLE && phase == 1)
            densities(at, tile, memory);
        else {
            n == 1 ? products<1>(at, mine, memory)
            : n <= 4 ? products<4>(at, mine, memory) : products<POINTS>(at, mine, memory);
            if (Step == WHOLE) add_rows(at, mine, memory);
        }
    }
    // Calls fma explicitly, so that the bits are the same whatever N is.
    template <int N> BOTH void predict(const place &at, double *memory) const
    {
        const int half = s.rows() / 2, row = at.thread & (half - 1), slice = at.thread >> (s.row_bits - 1);
        const int first = width(at) * slice / s.slices(), end = width(at) * (slice + 1) / s.slices();
        const Column *x = tile_of(memory) + first * stride() + row;
        const pair *slopes = (const pair *)memory + first * (POINTS / 2);
        gpumc_real eta[2][N + N % 2] = {};
        for (int c = first; c < end; c++, x += stride(), slopes += POINTS / 2) {
            const gpumc_real a = (gpumc_real)x[0], b = (gpumc_real)x[half];
            for (int k = 0; k < N; k++) {
                const gpumc_real slope = (gpumc_real)slopes[k / 2].of[k % 2];
                eta[0][k] = std::fma(a, slope, eta[0][k]);
                eta[1][k] = std::fma(b, slope, eta[1][k]);
            }
        }
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < N; k += 2) {
                const pair two = { { (double)eta[i][k], (double)eta[i][k + 1] } };
                ((pair *)output(memory, slice, row + i * half))[k / 2] = two;
            }
    }
    BOTH gpumc_real predictor(int row, int k, double *memory) const
    {
        gpumc_real eta = 0;
        for (int slice = 0; slice < s.slices(); slice++) eta += (gpumc_real)output(memory, slice, row)[k];
        return eta;
    }
    BOTH void densities(const place &at, std::size_t tile, double *memory) const
    {
        const int n = n_here(at), bits = point_bits(n);
        for (int q = at.thread; q < s.rows() << bits; q += s.threads) {
            const int row = q >> bits, k = q & ((1 << bits) - 1);
            const std::size_t i = (tile << s.row_bits) + (std::size_t)row;
            double out[n_outputs] = {};
            if (k < n && i < v.n_rows) {
                glm_row<Family>(v, points + point(at, k) * v.n_params, i, predictor(row, k, memory), out);
                if (residuals) *residual(at, i, k) = out[RESIDUAL];
            }
            for (int set = 0; set < n_outputs; set++) output(memory, set, row)[k] = out[set];
        }
    }
    BOTH void keep_predictors(const place &at, std::size_t tile, double *memory) const
    {
        const int row = at.thread & (s.rows() - 1);
        const std::size_t i = (tile << s.row_bits) + (std::size_t)row;
        if (i < v.n_rows)
            for (int k = at.thread >> s.row_bits; k < n_here(at); k += s.threads >> s.row_bits)
                predictors[(at.chunk * max_points + point(at, k)) * v.n_rows + i] =
                    (double)predictor(row, k, memory);
    }
    BOTH void load_residuals(const place &at, std::size_t tile, double *memory) const
    {
        const int n = n_here(at), bits = point_bits(n);
        for (int q = at.thread; q < s.rows() << bits; q += s.threads) {
            const int row = q >> bits, k = q & ((1 << bits) - 1);
            const std::size_t i = (tile << s.row_bits) + (std::size_t)row;
            output(memory, RESIDUAL, row)[k] = k < n && i < v.n_rows ? *residual(at, i, k) : 0;
        }
    }

    // A column of ones first, for the intercept, where there is one pass; then the columns of the chunk.
    BOTH int n_columns_here(const place &at) const { return width(at) + ones; }
    BOTH const Column *column(int which, double *memory) const
    { return which < ones ? one(memory) : tile_of(memory) + (which - ones) * stride(); }
    template <int N> BOTH void products(const place &at, state &mine, double *memory) const
    {
        typedef pair_of<Column> two;
        const int a = at.thread % s.lanes, n = n_columns_here(at), b = a + s.lanes < n ? a + s.lanes : n - 1;
        const int first = at.thread / s.lanes, step = s.splits();
        if (a >= n || first >= step) return;
        const two *x = (const two *)column(a, memory) + (a < ones ? 0 : first);
        const two *y = (const two *)column(b, memory) + (b < ones ? 0 : first);
        const int step_x = a < ones ? 0 : step, step_y = b < ones ? 0 : step;
        const pair *out = (const pair *)output(memory, RESIDUAL, 2 * first);
        for (int i = first; i < s.rows() / 2; i += step, x += step_x, y += step_y, out += step * STRIDE) {
            const two of_x = *x, of_y = *y;
            for (int row = 0; row < 2; row++)
                for (int k = 0; k < N; k++) {
                    const double r = out[row * (STRIDE / 2) + k / 2].of[k % 2];
                    mine.column[0][k] = std::fma((double)of_x.of[row], r, mine.column[0][k]);
                    mine.column[1][k] = std::fma((double)of_y.of[row], r, mine.column[1][k]);
                }
        }
    }
    // Sums of value and derivatives by sigma or phi and nu: a thread takes one point and some of the rows.
    BOTH void add_rows(const place &at, state &mine, double *memory) const
    {
        const int k = at.thread % POINTS;
        if (k >= n_here(at)) return;
        for (int row = at.thread / POINTS; row < s.rows(); row += s.threads / POINTS)
            for (int j = 0; j < 1 + n_aux; j++) mine.row[j] += output(memory, VALUE + j, row)[k];
    }

    // Threads leave what they have summed in shared memory: in round 0 for their first columns, in 1 for their
    // second, in 2 over rows; finish adds it up.
    BOTH void keep(int round, const place &at, const state &mine, double *memory) const
    {
        if (round == 0)
            for (int k = 0; k < POINTS; k++) outputs(memory)[at.thread * POINTS + k] = mine.column[0][k];
        else if (round == 1)
            for (int k = 0; k < POINTS; k++) outputs(memory)[at.thread * POINTS + k] = mine.column[1][k];
        else
            for (int j = 0; j < 1 + n_aux; j++) outputs(memory)[j * s.threads + at.thread] = mine.row[j];
    }
    BOTH void finish(int round, const place &at, double *memory) const
    {
        if (round < 2) {
            for (int q = at.thread; q < s.lanes * POINTS; q += s.threads)
                finish_column(round * s.lanes + q / POINTS, q / POINTS, q % POINTS, at, memory);
        } else {
            for (int q = at.thread; q < (1 + n_aux) * POINTS; q += s.threads)
                finish_row(q / POINTS, q % POINTS, at, memory);
        }
    }
    BOTH void finish_column(int which, int lane, int k, const place &at, double *memory) const
    {
        double sum = 0;
        if (which >= n_columns_here(at) || k >= n_here(at)) return;
        for (int i = 0; i < s.splits(); i++) sum += outputs(memory)[(i * s.lanes + lane) * POINTS + k];
        store(at, k, (std::size_t)(which + 2 - ones) + at.chunk * s.chunk, sum);
    }
    BOTH void finish_row(int j, int k, const place &at, double *memory) const
    {
        double sum = 0;
        if (k >= n_here(at)) return;
        for (int i = k; i < s.threads; i += POINTS) sum += outputs(memory)[j * s.threads + i];
        store(at, k, j == 0 ? 0 : 1 + v.n_columns + (std::size_t)j, sum);
    }
    BOTH void store(const place &at, int k, std::size_t total, double sum) const
    { partial[(point(at, k) * n_totals + total) * s.n_blocks + at.block] = sum; }
};

// Between the two passes over a wide matrix: adds up the predictors of its chunks and evaluates the densities of
// rows.
template <class Family, class Column> struct glm_rows_job {
    enum { team = BLOCK, n_own = 0, n_sums = BY_AUX + Family::n_aux };
    glm_view<Column> v;
    const double *points, *predictors;
    double *residuals, *partial;
    std::size_t n_chunks, n_blocks, max_points, n_totals;
    BOTH void share(std::size_t point, std::size_t block, int thread, double *sum) const
    {
        for (std::size_t i = block * BLOCK + (std::size_t)thread; i < v.n_rows; i += n_blocks * BLOCK) {
            gpumc_real eta = 0;
            double out[n_sums];
            for (std::size_t c = 0; c < n_chunks; c++)
                eta += (gpumc_real)predictors[(c * max_points + point) * v.n_rows + i];
            glm_row<Family>(v, points + point * v.n_params, i, eta, out);
            residuals[(point / POINTS * v.n_rows + i) * POINTS + point % POINTS] = out[RESIDUAL];
            for (int k = 0; k < n_sums; k++) sum[k] += out[k];
        }
    }
    BOTH void store(std::size_t, std::size_t, int, double *) const {}
    BOTH void store_block(std::size_t point, std::size_t block, const double *sum) const
    {
        double *to = partial + point * n_totals * n_blocks + block;
        to[0] = sum[VALUE];
        to[n_blocks] = sum[RESIDUAL];
        for (int k = BY_AUX; k < n_sums; k++) to[(v.n_columns + (std::size_t)k) * n_blocks] = sum[k];
    }
};

// Sums of residuals over the rows of each level of every factor, which are the derivatives by effects, for all points
// of a pass.
template <int Team> struct glm_levels_job {
    enum { team = Team, n_own = Team < BLOCK ? (int)POINTS : 0, n_sums = POINTS + (Team < BLOCK) };
    const double *residuals;            // [pass][row][POINTS]
    const unsigned *order;              // rows by level
    const std::size_t *begin;           // n_levels + 1 places in order
    std::size_t n_rows, n_levels, n_points;
    double *out;
    BOTH void share(std::size_t pass, std::size_t block, int thread, double *sum) const
    {
        const int n = points_of(pass, n_points);
        const std::size_t level = team_of(block, thread, team);
        if (level >= n_levels) return;
        for (std::size_t i = begin[level] + (std::size_t)(thread % team); i < begin[level + 1]; i += team) {
            const double *r = residuals + (pass * n_rows + order[i]) * POINTS;
            for (int k = 0; k < POINTS; k++) sum[k] += k < n ? r[k] : 0;
        }
    }
    BOTH void store(std::size_t pass, std::size_t block, int thread, double *sum) const
    {
        const std::size_t level = team_of(block, thread, team);
        if (Team < BLOCK && thread % Team == 0 && level < n_levels) store_level(pass, level, sum);
    }
    BOTH void store_block(std::size_t pass, std::size_t block, const double *sum) const
    { if (Team == BLOCK) store_level(pass, block, sum); }
    BOTH void store_level(std::size_t pass, std::size_t level, const double *sum) const
    {
        for (int k = 0; k < points_of(pass, n_points); k++)
            out[(pass * POINTS + (std::size_t)k) * n_levels + level] = sum[k];
    }
};

template <class Family, class Column> struct hot_glm : gpu_hot {
    typedef glm_tiles_job<Family, Column, WHOLE> whole_job;
    typedef glm_tiles_job<no_family, Column, PREDICT> predict_job;
    typedef glm_tiles_job<no_family, Column, PRODUCTS> products_job;
    device_array<Column> x;
    device_array<double> y, offset, weights, predictors, residuals;
    device_array<unsigned> levels, order;
    device_array<std::size_t> begin;
    std::size_t n_rows, n_columns, n_factors, most_rows;                    // most_rows: of a level
    tile_shape shape;
    bool wide;

    // Designs have no twins.
    gpumc_status upload(const gpumc_glm_data &d, const hot_glm *, std::size_t points_at_once, gpumc_error *error)
    {
        gpumc_status status = upload_levels(d, error);
        n_rows = d.n_rows;
        n_columns = d.n_columns;
        head = 2 + n_columns;
        n_params = 1 + n_columns + n_between + Family::n_aux;
        max_points = points_at_once;
        if (status == GPUMC_OK) status = choose_shape(error);
        if (status == GPUMC_OK) status = upload_design(d, error);
        if (status == GPUMC_OK) status = y.upload(std::vector<double>(d.y, d.y + n_rows), error);
        if (status == GPUMC_OK && d.offset)
            status = offset.upload(std::vector<double>(d.offset, d.offset + n_rows), error);
        if (status == GPUMC_OK && d.weights)
            status = weights.upload(std::vector<double>(d.weights, d.weights + n_rows), error);
        if (status == GPUMC_OK && wide)
            status = predictors.allocate(max_points * shape.n_chunks * n_rows, error);
        if (status == GPUMC_OK && (wide || n_between > 0))
            status = residuals.allocate(passes(max_points) * POINTS * n_rows, error);
        return status == GPUMC_OK ? allocate(shape.n_blocks, error) : status;
    }

    // Sets threads, lanes and rows of a tile; returns whether that is possible. Several blocks on a multiprocessor
    // hide each other's latency: tiles have as many rows as leave room for four blocks on an H100. least_bytes is
    // what a tile of the fewest rows may take.
    bool fits(std::size_t chunk, std::size_t n_sums, std::size_t least_bytes)
    {
        shape.threads = n_sums <= 128 ? 128 : (int)MOST_THREADS;
        shape.lanes = 1;
        while (2 * (std::size_t)shape.lanes < n_sums) shape.lanes += shape.lanes < WARP ? shape.lanes : (int)WARP;
        shape.chunk = chunk;
        for (shape.row_bits = 7; shape.row_bits >= 5; shape.row_bits--) {
            shape.bytes = whole_job::bytes(shape.threads, shape.row_bits, chunk);
            if (shape.bytes <= (shape.row_bits == 5 ? least_bytes : 55000)) break;
        }
        return n_sums <= 2 * MOST_THREADS && shape.row_bits >= 5;
    }
    gpumc_status choose_shape(gpumc_error *error)
    {
        const std::size_t most = most_shared_bytes();
        std::size_t at_once = 1;
        gpumc_status status;
        wide = !fits(n_columns, 1 + n_columns, most / 2);
        if (wide && !fits(CHUNK, CHUNK, most))
            return fail(error, GPUMC_ERROR_DEVICE, "GPU: %zu bytes of shared memory where a block needs %zu", most,
                        shape.bytes);
        shape.n_chunks = wide ? (n_columns + CHUNK - 1) / CHUNK : 1;
        shape.n_tiles = (n_rows + (std::size_t)shape.rows() - 1) >> shape.row_bits;
        // Of the two passes over a wide matrix the second sets the number of blocks; both need the limit of shared
        // memory that blocks_at_once sets.
        status = !wide ? blocks_at_once<whole_job>(shape.threads, shape.bytes, &at_once, error)
                       : blocks_at_once<predict_job>(shape.threads, shape.bytes, &at_once, error);
        if (status == GPUMC_OK && wide)
            status = blocks_at_once<products_job>(shape.threads, shape.bytes, &at_once, error);
        shape.n_blocks = wide && at_once < 128 * shape.n_chunks ? 128 : at_once / shape.n_chunks;
        if (shape.n_blocks > shape.n_tiles) shape.n_blocks = shape.n_tiles;
        return status;
    }
    // Column after column of each tile, tile after tile of each chunk of columns; rows beyond the last are 0.
    gpumc_status upload_design(const gpumc_glm_data &d, gpumc_error *error)
    {
        const std::size_t rows = (std::size_t)shape.rows(), by_row = d.column_major ? 1 : n_columns;
        const std::size_t by_column = d.column_major ? n_rows : 1;
        std::vector<Column> part;
        std::size_t sent = 0;
        gpumc_status status = x.allocate(shape.n_tiles * rows * n_columns, error);
        for (std::size_t chunk = 0; chunk < n_columns; chunk += shape.chunk)
            for (std::size_t row = 0; row < n_rows && status == GPUMC_OK; row += rows) {
                const std::size_t here = n_rows - row < rows ? n_rows - row : rows;
                for (std::size_t c = chunk; c < n_columns && c < chunk + shape.chunk; c++) {
                    const std::size_t first = row * by_row + c * by_column, to = part.size();
                    part.resize(to + rows);
                    for (std::size_t i = 0; i < here; i++)
                        part[to + i] = d.x ? (Column)d.x[first + i * by_row] : (Column)d.x_float[first + i * by_row];
                }
                if (part.size() < PART) continue;
                status = x.upload_part(sent, part, error);
                sent += part.size();
                part.clear();
            }
        return status == GPUMC_OK ? x.upload_part(sent, part, error) : status;
    }
    // Levels are numbered consecutively over all factors, so that one job serves them all.
    gpumc_status upload_levels(const gpumc_glm_data &d, gpumc_error *error)
    {
        std::vector<unsigned> which, by_level;
        std::vector<std::size_t> places(1, 0);
        n_factors = d.n_factors;
        n_between = 0;
        for (std::size_t f = 0; f < n_factors; f++) {
            const sorted_rows rows(d.factors[f].level, d.n_rows, d.factors[f].n_levels, d.n_rows);
            const std::size_t earlier = by_level.size();
            for (std::size_t i = 0; i < d.n_rows; i++)
                which.push_back((unsigned)(1 + d.n_columns + n_between + d.factors[f].level[i]));
            for (std::size_t i = 0; i < d.n_rows; i++) by_level.push_back((unsigned)rows.order[i]);
            for (std::size_t k = 0; k < d.factors[f].n_levels; k++)
                places.push_back(earlier + rows.begin[k + 1]);
            n_between += d.factors[f].n_levels;
        }
        if (n_factors > 0 && (d.n_rows > UINT_MAX || 1 + d.n_columns + n_between > UINT_MAX))
            return fail(error, GPUMC_ERROR_ARGUMENT, "GPU: %zu rows and %zu levels are too many for one", d.n_rows,
                        n_between);
        most_rows = sorted_rows::longest(places);
        gpumc_status status = levels.upload(which, error);
        if (status == GPUMC_OK) status = order.upload(by_level, error);
        return status == GPUMC_OK ? begin.upload(places, error) : status;
    }

    glm_view<Column> view() const
    {
        const glm_view<Column> v = { x.at,   y.at,      offset.at, weights.at, levels.at,
                                     n_rows, n_columns, n_factors, n_params,   1 + n_columns + n_between };
        return v;
    }
    template <class Job> gpumc_status run_tiled(std::size_t n_points, gpumc_error *error)
    {
        const Job job = { view(),       shape,      source,     predictors.at, residuals.at,
                          partial.at,   n_points,   max_points, n_totals() };
        const tile_grid grid = { shape.threads, passes(n_points), shape.n_blocks, shape.n_chunks,
                                 shape.n_tiles, shape.bytes };
        return work.tiles(job, grid, error);
    }
    gpumc_status run_wide(std::size_t n_points, gpumc_error *error)
    {
        const glm_rows_job<Family, Column> rows = { view(), source, predictors.at, residuals.at, partial.at,
                                                    shape.n_chunks, shape.n_blocks, max_points, n_totals() };
        gpumc_status status = run_tiled<predict_job>(n_points, error);
        if (status == GPUMC_OK) status = work.teams(rows, n_points, shape.n_blocks, error);
        return status == GPUMC_OK ? run_tiled<products_job>(n_points, error) : status;
    }
    template <int Team> gpumc_status run_levels(std::size_t n_points, gpumc_error *error)
    {
        const glm_levels_job<Team> job = { residuals.at, order.at, begin.at,  n_rows,
                                           n_between,    n_points, between.at };
        return work.teams(job, passes(n_points), (n_between * Team + BLOCK - 1) / BLOCK, error);
    }
    gpumc_status launch(std::size_t n_points, gpumc_error *error)
    {
        const gpumc_status status =
            wide ? run_wide(n_points, error) : run_tiled<whole_job>(n_points, error);
        if (status != GPUMC_OK || n_between == 0) return status;
        return most_rows > 1024 ? run_levels<BLOCK>(n_points, error) : run_levels<WARP>(n_points, error);
    }
};

// twin, if there is one, was made from the same data and has them on the GPU already.
template <class Hot, class Data>
gpumc_hot *make_hot(const Data &d, const gpumc_hot *twin, std::size_t points_at_once, gpumc_error *error)
{
    std::size_t points = points_at_once < MOST_GRID ? points_at_once : (std::size_t)MOST_GRID;
    // Ends with a trial evaluation, at 0: if this file was compiled for other GPUs than this one, launches fail here.
    // When memory is short, half as many points at once are tried.
    for (;; points /= 2) {
        std::unique_ptr<Hot> hot(new Hot);
        gpumc_status status = hot->upload(d, static_cast<const Hot *>(twin), points, error);
        const std::size_t n = hot->n_params;
        std::vector<double> trial(2 * n + 1);
        if (status == GPUMC_OK)
            status = hot->eval(hot.get(), 1, trial.data(), trial.data() + n, &trial[2 * n], error);
        if (status == GPUMC_OK) return hot.release();
        if (status != GPUMC_ERROR_MEMORY || points <= POINTS) return NULL;
    }
}

template <class Family> gpumc_hot *make_glm(const gpumc_glm_data &d, std::size_t points, gpumc_error *error)
{
    return d.single_precision || d.x_float ? make_hot<hot_glm<Family, float> >(d, NULL, points, error)
                                           : make_hot<hot_glm<Family, double> >(d, NULL, points, error);
}

// ---- the program's row functions --------------------------------------------------------------------------
struct row_entry {
    const char *name;
    int n_group, n_shared, n_columns, n_nodes;
    gpumc_hot *(*make[2])(const gpumc_rows_data &, const gpumc_hot *twin, std::size_t, gpumc_error *);
                                        // of columns in double, in float
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

// Standard containers may throw when memory runs out; C callers get an error instead.
template <class Make> auto guarded(Make make, gpumc_error *error) -> decltype(make())
{
    try {
        return make();
    } catch (const std::exception &) {
        fail(error, GPUMC_ERROR_MEMORY, "GPU: out of host memory while uploading, or it is too large for it");
        return NULL;
    }
}

gpumc_hot *upload_rows(const gpumc_rows_data *d, const gpumc_hot *twin, std::size_t max_points,
                       gpumc_error *error)
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
        return guarded([&] { return e.make[d->single_precision != 0](*d, twin, max_points, error); }, error);
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

gpumc__joint *join(gpumc_hot *const *members, std::size_t n, gpumc_error *error)
{
    return guarded([&]() -> gpumc__joint * {
        std::unique_ptr<gpu_joint> joint(new gpu_joint);
        return joint->open(members, n, error) == GPUMC_OK ? joint.release() : NULL;
    }, error);
}
} // namespace

extern "C" const gpumc__device *gpumc__cuda_device(void)
{
    static const gpumc__device table = { device_info, upload_rows, upload_glm, join };
    return &table;
}
