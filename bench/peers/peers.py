#!/usr/bin/env python3
"""Run the same model, on the same data, in gpumc and in the samplers that people use today.

    python3 -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python peers.py table MODEL [key=value ...]     every engine that has MODEL, one row each, and the ratio
    v/bin/python peers.py anchors                         the tables that the README quotes (50 minutes)
    v/bin/python peers.py run MODEL ENGINE [key=value ...]  one run, one JSON object on the last line
    v/bin/python peers.py data MODEL FILE.json [key=value ...]  the data of MODEL as Stan JSON, for other programs
    v/bin/python peers.py list                            models, engines and their options

Options of a run: num_chains=4 num_warmup=1000 num_samples=1000 target_accept=0.8 seed=1, and the model's own
(size, form, ...); gpumc keeps its own num_warmup and target_accept unless gpumc_num_warmup or
gpumc_target_accept is given, and is built by CC and CFLAGS of the environment (cc; -O2 -flto=auto). Each run is a
process of its own, so import, compilation and memory are seen.
Options of a table: engines=A,B  num_warmup=300,1000 target_accept=0.8,0.9 (each is tried)  repeats=3 (seeds in turn; the
row shows the run with the median of ess/s)  out=FILE (every run as a line of JSON).

What a row means
  warm + draw   seconds of sampling, warm-up included, compilation excluded; before it the process of a peer has
                compiled and sampled (nutpie and NumPyro), and gpumc's program has run once
  whole         seconds from the start of the process to the last draw: import, compilation, sampling, once
  ess           the smallest of bulk and tail effective sample size over all parameters, on the natural scale
                (theta, not its standardised form), so that centred and non-centred forms compare
  rhat          the largest rank-normalised split R-hat over the same parameters
  ess/s         ess over warm + draw; printed in brackets when rhat >= 1.01 or ess < 400: such a run is no answer
  MiB           largest resident memory of the process
The last lines name the best converged peer, the best one held to the non-centred form, and how many times their
ess/s ours is. gpumc-gpu has gpumc_cuda.cu linked in (nvcc, and a GPU that it finds); numpyro runs there by itself if
its jax has CUDA.
"""
import json
import os
import resource
import subprocess
import sys
import time

START = time.perf_counter()
import numpy as np  # noqa: E402

DEFAULTS = dict(num_chains=4, num_warmup=1000, num_samples=1000, target_accept=0.8, seed=1)


# ---------------------------------------------------------------------------------------------------------- data
def groups_data(size=100, rows=10, data_seed=42, **_):
    """Hierarchical normal: truth mu 50, sd of group means 10, sd of observations 2."""
    rng = np.random.default_rng(data_seed)
    theta = rng.normal(50, 10, size)
    group = np.repeat(np.arange(size), rows)
    return dict(J=size, N=size * rows, group=group + 1, y=rng.normal(theta[group], 2))


def schools_data(**_):
    return dict(J=8, y=np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), sigma=np.array([15.0, 10, 16, 11, 9, 11, 10, 18]))


def artists_data(size=100, rows=1000, features=10, albums=5, data="model", data_seed=42, **_):
    """Scores of albums. data=noise: scores N(70, 15) unrelated to anything; data=model: drawn from the model,
    with the intercept set to 0 and rho to 0.3."""
    rng = np.random.default_rng(data_seed)
    artist = rng.integers(0, size, rows)
    album = rng.integers(0, albums, rows)
    x = rng.normal(size=(rows, features))
    if data == "noise":
        prev, y = rng.normal(70, 15, rows), rng.normal(70, 15, rows)
    else:
        level = np.cumsum(np.column_stack([rng.normal(0, 0.5, size), rng.normal(0, 0.1, (size, albums - 1))]), 1)
        beta = rng.normal(0, 0.5, features)
        prev = rng.normal(0, 1, rows)
        y = level[artist, album] + x @ beta + 0.3 * prev + rng.normal(0, 0.6, rows)
    return dict(A=size, T=albums, N=rows, K=features, artist=artist + 1, album=album + 1, X=x, prev=prev, y=y)


def logistic_data(rows=5000, features=20, data_seed=42, **_):
    rng = np.random.default_rng(data_seed)
    x = rng.normal(size=(rows, features))
    beta = rng.normal(0, 0.5, features)
    return dict(N=rows, K=features, X=x, y=(rng.random(rows) < 1 / (1 + np.exp(-x @ beta))).astype(int))


def players_data(rows=20000, size=600, data_seed=42, **_):
    """Bradley-Terry: rows matches between size players; a winner and a loser each."""
    rng = np.random.default_rng(data_seed)
    skill = rng.normal(0, 1, size)
    a = rng.integers(0, size, rows)
    b = (a + rng.integers(1, size, rows)) % size
    first = rng.random(rows) < 1 / (1 + np.exp(skill[b] - skill[a]))
    return dict(P=size, N=rows, winner=np.where(first, a, b) + 1, loser=np.where(first, b, a) + 1)


def retest_data(size=100, rows=40, data_seed=42, **_):
    """A task done twice: per session rows trials a subject in each of two conditions; base and effect of both
    sessions are correlated, with .8 between sessions and .3 otherwise."""
    rng = np.random.default_rng(data_seed)
    corr = np.array([[1, .3, .8, .3], [.3, 1, .3, .8], [.8, .3, 1, .3], [.3, .8, .3, 1]])
    sd = np.array([.15, .05, .15, .05])
    theta = rng.multivariate_normal([-.5, .08, -.55, .07], corr * np.outer(sd, sd), size)
    session, subject, x = (v.ravel() for v in np.meshgrid([0, 1], np.arange(size), np.tile([0, 1], rows), indexing="ij"))
    y = rng.normal(theta[subject, 2 * session] + theta[subject, 2 * session + 1] * x, .3)
    return dict(S=size, N=len(y), subject=subject + 1, session=session + 1, x=x, rt=np.exp(y))


def diffusion_data(size=30, rows=100, data_seed=42, **_):
    """Drift diffusion (examples/diffusion.c): rows trials of each subject in each of two conditions, 2 % lapses."""
    rng = np.random.default_rng(data_seed)
    theta = rng.normal([.25, -1.2, 0, 2.2, 1], [.2, .2, .2, .5, .4], (size, 5))
    subject, condition = (v.ravel() for v in np.meshgrid(np.arange(size), np.tile([0, 1], rows), indexing="ij"))
    alpha, tau, drift = np.exp(theta[subject, 0]), np.exp(theta[subject, 1]), theta[subject, 3 + condition]
    x, rt, step = alpha / (1 + np.exp(-theta[subject, 2])), np.zeros(len(subject)), 2.5e-4
    moving = np.arange(len(subject))
    while len(moving):
        x[moving] += drift[moving] * step + rng.normal(0, np.sqrt(step), len(moving))
        rt[moving] += step
        moving = moving[(x[moving] > 0) & (x[moving] < alpha[moving])]
    rt, choice = rt + tau, (x > 0).astype(int)
    lapse = (rng.random(len(rt)) < .02) | (rt > 4)
    rt, choice = np.where(lapse, rng.uniform(1e-3, 4, len(rt)), rt), np.where(lapse, rng.integers(0, 2, len(rt)), choice)
    return dict(S=size, N=len(rt), subject=subject + 1, condition=condition + 1, choice=choice, rt=rt)


# ---------------------------------------------------------------------------------------- models, Stan language
STAN = {
    ("groups", "noncentred"): """
data { int J; int N; array[N] int group; vector[N] y; }
parameters { real mu; real<lower=0> tau; real<lower=0> sigma; vector[J] z; }
transformed parameters { vector[J] theta = mu + tau * z; }
model { mu ~ normal(0, 100); tau ~ normal(0, 50); sigma ~ normal(0, 10); z ~ std_normal(); y ~ normal(theta[group], sigma); }
""",
    ("groups", "centred"): """
data { int J; int N; array[N] int group; vector[N] y; }
parameters { real mu; real<lower=0> tau; real<lower=0> sigma; vector[J] theta; }
model { mu ~ normal(0, 100); tau ~ normal(0, 50); sigma ~ normal(0, 10); theta ~ normal(mu, tau); y ~ normal(theta[group], sigma); }
""",
    ("schools", "noncentred"): """
data { int J; vector[J] y; vector[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] z; }
transformed parameters { vector[J] theta = mu + tau * z; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); z ~ std_normal(); y ~ normal(theta, sigma); }
""",
    ("artists", "noncentred"): """
data { int A; int T; int N; int K; array[N] int artist; array[N] int album; matrix[N, K] X; vector[N] prev; vector[N] y; }
parameters { real mu; real<lower=0> sd_artist; real<lower=0> sd_walk; real<lower=0> sigma; real<lower=-.99, upper=.99> rho;
  vector[K] beta; vector[A] z; matrix[A, T - 1] e; }
transformed parameters { matrix[A, T] level; level[, 1] = mu + sd_artist * z;
  for (t in 2:T) level[, t] = level[, t - 1] + sd_walk * e[, t - 1]; }
model { mu ~ std_normal(); sd_artist ~ normal(0, .5); sd_walk ~ normal(0, .1); sigma ~ std_normal(); rho ~ normal(0, .3) T[-.99, .99];
  beta ~ std_normal(); z ~ std_normal(); to_vector(e) ~ std_normal();
  vector[N] m = X * beta + rho * prev; for (n in 1:N) m[n] += level[artist[n], album[n]];
  y ~ normal(m, sigma); }
""",
    ("logistic", "plain"): """
data { int N; int K; matrix[N, K] X; array[N] int y; }
parameters { real alpha; vector[K] beta; }
model { alpha ~ normal(0, 2.5); beta ~ normal(0, 2.5); y ~ bernoulli_logit_glm(X, alpha, beta); }
""",
    ("players", "noncentred"): """
data { int P; int N; array[N] int winner; array[N] int loser; }
parameters { real<lower=0> tau; vector[P] z; }
transformed parameters { vector[P] theta = tau * z; }
model { tau ~ std_normal(); z ~ std_normal(); target += bernoulli_logit_lpmf(rep_array(1, N) | theta[winner] - theta[loser]); }
""",
}
RETEST = """
data { int S; int N; array[N] int subject; array[N] int session; vector[N] x; vector[N] rt; }
transformed data { vector[N] y = log(rt); }
parameters { vector[4] mu; vector<lower=0>[4] tau; real<lower=0> sigma; cholesky_factor_corr[4] L; %s }
transformed parameters { %s }
model { mu ~ std_normal(); tau ~ normal(0, .5); sigma ~ std_normal(); L ~ lkj_corr_cholesky(2); %s
  vector[N] m; for (n in 1:N) m[n] = theta[2 * session[n] - 1, subject[n]] + theta[2 * session[n], subject[n]] * x[n];
  y ~ normal(m, sigma); }
generated quantities { vector[6] corr; { matrix[4, 4] C = multiply_lower_tri_self_transpose(L); int k = 1;
  for (i in 2:4) for (j in 1:(i - 1)) { corr[k] = C[i, j]; k += 1; } } }
"""
STAN["retest", "noncentred"] = RETEST % (
    "matrix[4, S] z;", "matrix[4, S] theta = rep_matrix(mu, S) + diag_pre_multiply(tau, L) * z;", "to_vector(z) ~ std_normal();")
STAN["retest", "centred"] = RETEST % ("matrix[4, S] theta;", "",
    "{ array[S] vector[4] t; for (s in 1:S) t[s] = theta[, s]; t ~ multi_normal_cholesky(mu, diag_pre_multiply(tau, L)); }")
STAN["players", "centred"] = STAN["players", "noncentred"].replace("vector[P] z; }", "vector[P] theta; }").replace(
    "transformed parameters { vector[P] theta = tau * z; }\n", "").replace("z ~ std_normal()", "theta ~ normal(0, tau)")

MODELS = {  # name: data, forms, the natural parameters that are judged
    "groups": (groups_data, ["noncentred", "centred"], ["mu", "tau", "sigma", "theta"]),
    "schools": (schools_data, ["noncentred"], ["mu", "tau", "theta"]),
    "artists": (artists_data, ["noncentred"], ["mu", "sd_artist", "sd_walk", "sigma", "rho", "beta", "level"]),
    "logistic": (logistic_data, ["plain"], ["alpha", "beta"]),
    "players": (players_data, ["noncentred", "centred"], ["tau", "theta"]),
    "diffusion": (diffusion_data, ["centred", "noncentred"], ["mu", "sd", "theta"]),
    "retest": (retest_data, ["noncentred", "centred"], ["mu", "tau", "sigma", "corr", "theta"]),
}
LOWER = np.tril_indices(4, -1)  # the correlations of retest


def diffusion_log_density(d, theta):
    """Sum over trials, for NumPyro, which has no such density; theta has a row for each subject. The series of
    Navarro & Fuss (2009), cut as in gpumc, and so that no gradient is NaN. (PyMC did not get to the end of compiling
    the same, and Stan's wiener_lpdf ran out of memory beside a non-decision time near a response.)"""
    import jax.numpy as m
    mine = theta[d["subject"] - 1]
    upper, alpha = d["choice"] == 1, m.exp(mine[:, 0])
    bias = 1 / (1 + m.exp(-mine[:, 2]))
    drift = m.where(d["condition"] == 1, mine[:, 3], mine[:, 4])
    w, v, t = m.where(upper, 1 - bias, bias), m.where(upper, -drift, drift), m.maximum(d["rt"] - m.exp(mine[:, 1]), 1e-4)
    u = t / alpha ** 2
    early, late = m.minimum(u, .32), m.maximum(u, .32)
    images = sum((w + 2 * k) * m.exp(-2 * k * (k + w) / early) for k in range(-2, 3))
    waves = sum(n * m.sin(n * np.pi * w) * m.exp(-(n ** 2 - 1) * np.pi ** 2 * late / 2) for n in range(1, 5))
    series = m.where(u < .32, m.log(images) - w ** 2 / (2 * early) - 1.5 * m.log(early) - .5 * np.log(2 * np.pi),
                     m.log(np.pi * waves) - np.pi ** 2 * late / 2)
    density = series - 2 * m.log(alpha) - v * (alpha * w + v * t / 2)
    lapse, decided = np.log(.02 / 8), np.log(.98) + density
    return m.sum(m.maximum(lapse, decided) + m.log1p(m.exp(-m.abs(lapse - decided))))


# ------------------------------------------------------------------------------------------------ models, NumPyro
def numpyro_model(model, form, d):
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    sample, det = numpyro.sample, numpyro.deterministic

    def population(mu, tau, n, form):
        if form == "centred":
            return sample("theta", dist.Normal(mu, tau).expand([n]))
        return det("theta", mu + tau * sample("z", dist.Normal(0, 1).expand([n])))

    def groups():
        mu, tau, sigma = (sample("mu", dist.Normal(0, 100)), sample("tau", dist.HalfNormal(50)),
                          sample("sigma", dist.HalfNormal(10)))
        theta = population(mu, tau, d["J"], form)
        sample("y", dist.Normal(theta[d["group"] - 1], sigma), obs=d["y"])

    def schools():
        theta = population(sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(5)), 8, form)
        sample("y", dist.Normal(theta, d["sigma"]), obs=d["y"])

    def artists():
        mu = sample("mu", dist.Normal(0, 1))
        sd_artist, sd_walk = sample("sd_artist", dist.HalfNormal(.5)), sample("sd_walk", dist.HalfNormal(.1))
        sigma = sample("sigma", dist.HalfNormal(1.0))
        rho = sample("rho", dist.TruncatedNormal(0, .3, low=-.99, high=.99))
        beta = sample("beta", dist.Normal(0, 1).expand([d["K"]]))
        z = sample("z", dist.Normal(0, 1).expand([d["A"]]))
        e = sample("e", dist.Normal(0, 1).expand([d["A"], d["T"] - 1]))
        start = (mu + sd_artist * z)[:, None]
        level = det("level", jnp.concatenate([start, start + sd_walk * jnp.cumsum(e, 1)], 1))
        sample("y", dist.Normal(level[d["artist"] - 1, d["album"] - 1] + d["X"] @ beta + rho * d["prev"], sigma), obs=d["y"])

    def logistic():
        alpha = sample("alpha", dist.Normal(0, 2.5))
        beta = sample("beta", dist.Normal(0, 2.5).expand([d["K"]]))
        sample("y", dist.Bernoulli(logits=alpha + d["X"] @ beta), obs=d["y"])

    def players():
        theta = population(0.0, sample("tau", dist.HalfNormal(1.0)), d["P"], form)
        sample("y", dist.Bernoulli(logits=theta[d["winner"] - 1] - theta[d["loser"] - 1]), obs=np.ones(d["N"], int))

    def retest():
        mu, tau = sample("mu", dist.Normal(0, 1).expand([4])), sample("tau", dist.HalfNormal(.5).expand([4]))
        sigma, L = sample("sigma", dist.HalfNormal(1.0)), sample("L", dist.LKJCholesky(4, 2.0))
        det("corr", (L @ L.T)[LOWER])
        factor = tau[:, None] * L
        if form == "centred":
            theta = sample("theta", dist.MultivariateNormal(mu, scale_tril=factor).expand([d["S"]]))
        else:
            theta = det("theta", mu + sample("z", dist.Normal(0, 1).expand([d["S"], 4])) @ factor.T)
        subject, base = d["subject"] - 1, 2 * (d["session"] - 1)
        sample("y", dist.Normal(theta[subject, base] + theta[subject, base + 1] * d["x"], sigma), obs=np.log(d["rt"]))

    def diffusion():
        mu = sample("mu", dist.Normal(jnp.array([0, -1.0, 0, 0, 0]), jnp.array([.5, .5, .5, 3, 3])))
        sd = sample("sd", dist.HalfNormal(jnp.array([.5, .5, .5, 1, 1])))
        shape = [d["S"], 5]
        theta = (sample("theta", dist.Normal(mu, sd).expand(shape)) if form == "centred"
                 else det("theta", mu + sd * sample("z", dist.Normal(0, 1).expand(shape))))
        numpyro.factor("y", diffusion_log_density(d, theta))

    return dict(groups=groups, schools=schools, artists=artists, logistic=logistic, players=players, retest=retest,
                diffusion=diffusion)[model]


def run_numpyro(model, form, d, o, chain_method):
    if chain_method == "parallel":
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=%d" % o["num_chains"]
    import tempfile
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value
    jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())      # NumPyro compiles its loop anew at every run:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)      # with this the second run compiles nothing
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    if o.get("precision", "double") == "double":
        numpyro.enable_x64()
    # a chain whose non-decision time starts beyond all response times never recovers
    mu = np.array([.3, -1.2, 0, 1, 1])
    begin = init_to_uniform if model != "diffusion" else init_to_value(values=dict(
        mu=mu, sd=np.full(5, .3), theta=np.tile(mu, (d["S"], 1)), z=np.zeros((d["S"], 5))))
    nuts = NUTS(numpyro_model(model, form, d), target_accept_prob=o["target_accept"], init_strategy=begin)
    mcmc = MCMC(nuts, num_warmup=o["num_warmup"],
                num_samples=o["num_samples"], num_chains=o["num_chains"], chain_method=chain_method, progress_bar=False)
    key = jax.random.PRNGKey(o["seed"])

    def go():
        begin = time.perf_counter()
        mcmc.run(key, extra_fields=("num_steps", "diverging"))
        jax.block_until_ready(mcmc.get_samples())
        return time.perf_counter() - begin
    cold = go()
    warm = go()
    extra = mcmc.get_extra_fields()
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    return draws, dict(compile_s=cold - warm, sample_s=warm, repeated_s=warm, gradients_draws=int(np.sum(extra["num_steps"])),
                       divergences=int(np.sum(extra["diverging"])))


# --------------------------------------------------------------------------------------------------- models, PyMC
def pymc_model(model, form, d):
    import pymc as pm
    import pytensor.tensor as pt

    def population(mu, tau, n):
        if form == "centred":
            return pm.Normal("theta", mu, tau, shape=n)
        return pm.Deterministic("theta", mu + tau * pm.Normal("z", 0, 1, shape=n))

    with pm.Model() as m:
        if model == "groups":
            mu, tau, sigma = pm.Normal("mu", 0, 100), pm.HalfNormal("tau", 50), pm.HalfNormal("sigma", 10)
            pm.Normal("y", population(mu, tau, d["J"])[d["group"] - 1], sigma, observed=d["y"])
        elif model == "schools":
            mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
            pm.Normal("y", population(mu, tau, 8), d["sigma"], observed=d["y"])
        elif model == "artists":
            mu = pm.Normal("mu", 0, 1)
            sd_artist, sd_walk, sigma = pm.HalfNormal("sd_artist", .5), pm.HalfNormal("sd_walk", .1), pm.HalfNormal("sigma", 1)
            rho = pm.TruncatedNormal("rho", 0, .3, lower=-.99, upper=.99)
            beta = pm.Normal("beta", 0, 1, shape=d["K"])
            z, e = pm.Normal("z", 0, 1, shape=d["A"]), pm.Normal("e", 0, 1, shape=(d["A"], d["T"] - 1))
            start = (mu + sd_artist * z)[:, None]
            level = pm.Deterministic("level", pt.concatenate([start, start + sd_walk * pt.cumsum(e, axis=1)], axis=1))
            pm.Normal("y", level[d["artist"] - 1, d["album"] - 1] + pt.dot(d["X"], beta) + rho * d["prev"], sigma, observed=d["y"])
        elif model == "logistic":
            alpha, beta = pm.Normal("alpha", 0, 2.5), pm.Normal("beta", 0, 2.5, shape=d["K"])
            pm.Bernoulli("y", logit_p=alpha + pt.dot(d["X"], beta), observed=d["y"])
        elif model == "players":
            theta = population(0.0, pm.HalfNormal("tau", 1), d["P"])
            pm.Bernoulli("y", logit_p=theta[d["winner"] - 1] - theta[d["loser"] - 1], observed=np.ones(d["N"], int))
        elif model == "retest":
            mu, sigma = pm.Normal("mu", 0, 1, shape=4), pm.HalfNormal("sigma", 1)
            factor, corr, tau = pm.LKJCholeskyCov("factor", n=4, eta=2, sd_dist=pm.HalfNormal.dist(.5, shape=4))
            pm.Deterministic("tau", tau)
            pm.Deterministic("corr", corr[LOWER])
            if form == "centred":
                theta = pm.MvNormal("theta", mu, chol=factor, shape=(d["S"], 4))
            else:
                theta = pm.Deterministic("theta", mu + pt.dot(pm.Normal("z", 0, 1, shape=(d["S"], 4)), factor.T))
            subject, base = d["subject"] - 1, 2 * (d["session"] - 1)
            pm.Normal("y", theta[subject, base] + theta[subject, base + 1] * d["x"], sigma, observed=np.log(d["rt"]))
    return m


def run_pymc(model, form, d, o):
    import pymc as pm
    with pymc_model(model, form, d):
        begin = time.perf_counter()
        t = pm.sample(o["num_samples"], tune=o["num_warmup"], chains=o["num_chains"], cores=os.cpu_count(), random_seed=o["seed"],
                      target_accept=o["target_accept"], progressbar=False, compute_convergence_checks=False)
        total = time.perf_counter() - begin
    sampling = float(t.posterior.attrs["sampling_time"])
    steps = t.sample_stats["n_steps"].values
    return {k: t.posterior[k].values for k in t.posterior}, dict(
        compile_s=total - sampling, sample_s=sampling, gradients_draws=int(steps.sum()),
        divergences=int(t.sample_stats["diverging"].values.sum()))


def run_nutpie(model, form, d, o, low_rank):
    import nutpie
    begin = time.perf_counter()
    compiled = nutpie.compile_pymc_model(pymc_model(model, form, d))
    nutpie.sample(compiled, tune=5, draws=5, chains=1, seed=0, progress_bar=False)      # the rest of the compilation
    built = time.perf_counter()
    t = nutpie.sample(compiled, tune=o["num_warmup"], draws=o["num_samples"], chains=o["num_chains"], cores=os.cpu_count(),
                      seed=o["seed"], target_accept=o["target_accept"], low_rank_modified_mass_matrix=low_rank, progress_bar=False)
    done = time.perf_counter()
    return {k: t.posterior[k].values for k in t.posterior}, dict(
        compile_s=built - begin, sample_s=done - built, gradients_draws=int(t.sample_stats["n_steps"].values.sum()),
        divergences=int(t.sample_stats["diverging"].values.sum()))


# --------------------------------------------------------------------------------------------------- models, Stan
def run_stan(model, form, d, o):
    import tempfile
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()       # compiled models are kept there: always compile, as for a new model
    import stan
    begin = time.perf_counter()
    posterior = stan.build(STAN[model, form], data={k: (v.tolist() if hasattr(v, "tolist") else v) for k, v in d.items()},
                           random_seed=o["seed"])
    built = time.perf_counter()
    fit = posterior.sample(num_chains=o["num_chains"], num_warmup=o["num_warmup"], num_samples=o["num_samples"],
                           delta=o["target_accept"])
    done = time.perf_counter()

    def by_chain(name):
        v = np.asarray(fit[name])                       # parameter dimensions, then draws, chains fastest
        v = v.reshape(v.shape[:-1] + (-1, o["num_chains"]))
        return np.moveaxis(v, (-1, -2), (0, 1))
    names = list(fit.param_names) + ["n_leapfrog__", "divergent__"]
    draws = {k: by_chain(k) for k in names}
    draws = {k: (v[..., 0] if v.ndim == 3 and v.shape[-1] == 1 else v) for k, v in draws.items()}
    return draws, dict(compile_s=built - begin, sample_s=done - built, gradients_draws=int(draws["n_leapfrog__"].sum()),
                       divergences=int(draws["divergent__"].sum()))


# ---------------------------------------------------------------------------------------------------------- gpumc
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = dict(groups="examples/hierarchical.c", schools="examples/eight_schools.c", artists="examples/artists.c",
                logistic="examples/logistic.c", players="examples/bradley_terry.c", retest="examples/retest.c",
                diffusion="examples/diffusion.c")


def stan_csv(path):
    """A dictionary from names to the draws of one chain; elements of an array are in the order of their columns."""
    with open(path) as f:
        lines = [line for line in f if not line.startswith("#")]
    names = lines[0].strip().split(",")
    values = np.array([[float(v) for v in line.split(",")] for line in lines[1:]])
    columns = {}
    for i, name in enumerate(names):
        columns.setdefault(name.split(".")[0], []).append(i)
    return {name: values[:, places] for name, places in columns.items()}


def build_gpumc(source, program, gpu):
    top = os.path.join(HERE, "..", "..")
    source = os.path.join(top, source)
    compiler = [os.environ.get("CC", "cc")] + os.environ.get("CFLAGS", "-O2 -flto=auto").split()  # gcc on every core
    if not gpu:
        subprocess.run(compiler + [source, "-o", program, "-lm", "-pthread"], check=True)
        return
    objects = [program + ".o", program + "_cuda.o"]
    subprocess.run(["nvcc", "-O3", "-arch=native", "-c", os.path.join(top, "gpumc_cuda.cu"), "-o", objects[1]], check=True)
    subprocess.run(compiler + ["-fno-lto", "-DGPUMC_CUDA", "-c", source, "-o", objects[0]], check=True)
    subprocess.run(["nvcc"] + objects + ["-o", program, "-lm", "-lpthread"], check=True)


def run_gpumc(model, _, d, o, gpu=False, **own):
    """Compiles the example of this model and runs it; our draws are judged by the same functions as a peer's."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        data, program = os.path.join(folder, "data.json"), os.path.join(folder, "program")
        write_data(d, data)
        begin = time.perf_counter()
        build_gpumc(PROGRAMS[model], program, gpu)
        built = time.perf_counter()
        seconds = []
        words = ["%s=%s" % (k, o[k]) for k in ("num_chains", "num_samples", "seed")]
        words += ["%s=%s" % (k[6:], v) for k, v in o.items() if k.startswith("gpumc_")]
        words += ["%s=%s" % kv for kv in own.items()] + ([] if model == "schools" else ["data=" + data])
        for _ in range(2):      # the second is timed: a program just loaded, on processors just woken, is slower at first
            child = subprocess.Popen([program, "csv=" + folder + "/draws"] + words, stdout=subprocess.PIPE, text=True)
            text = child.stdout.read()
            _, status, usage = os.wait4(child.pid, 0)       # the memory of this child, not of the compiler
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                raise RuntimeError("%s ended with status %d" % (PROGRAMS[model], child.returncode))
            said = dict(w.split("=", 1) for w in text.strip().splitlines()[-1].split())
            seconds.append(float(said["warmup_s"]) + float(said["sampling_s"]))
        files = sorted((n for n in os.listdir(folder) if n.endswith(".csv")), key=lambda n: int(n.split("_")[-1][:-4]))
        chains = [stan_csv(os.path.join(folder, n)) for n in files]
    draws = {name: np.stack([c[name] for c in chains]) for name in chains[0]}
    if model == "artists":                                  # gpumc has one block where the peers have two names
        draws["sd_artist"], draws["sd_walk"] = draws["sd"][..., :1], draws["sd"][..., 1:]
    if model == "players":
        draws["theta"] = draws["skill"]
    if model == "diffusion":
        draws["theta"] = np.stack([draws[k] for k in ("log_alpha", "log_tau", "logit_beta", "drift_1", "drift_2")], -1)
    if model == "retest":
        draws["theta"] = np.stack([draws[k] for k in ("base_1", "effect_1", "base_2", "effect_2")], -1)
        draws["corr"] = draws["corr_L"].reshape(draws["corr_L"].shape[:2] + (4, 4))[(..., *LOWER)]
    return draws, dict(compile_s=built - begin, sample_s=seconds[1], gradients_draws=int(draws["n_leapfrog__"].sum()),
                       divergences=int(said["divergences"]), whole_s=built - begin + seconds[0], mib=usage.ru_maxrss / 1024)


ENGINES = {
    "gpumc": run_gpumc,
    "gpumc-nuts": lambda m, f, d, o: run_gpumc(m, f, d, o, sampler="nuts"),
    "gpumc-noncentred": lambda m, f, d, o: run_gpumc(m, f, d, o, form="noncentred"),
    "gpumc-gpu": lambda m, f, d, o: run_gpumc(m, f, d, o, gpu=True, place="gpu"),
    "numpyro": lambda m, f, d, o: run_numpyro(m, f, d, o, "vectorized"),
    "numpyro-parallel": lambda m, f, d, o: run_numpyro(m, f, d, o, "parallel"),
    "nutpie": lambda m, f, d, o: run_nutpie(m, f, d, o, False),
    "nutpie-lowrank": lambda m, f, d, o: run_nutpie(m, f, d, o, True),
    "pymc": run_pymc,
    "stan": run_stan,
}
MISSING = {"diffusion": ("nutpie", "nutpie-lowrank", "pymc", "stan")}      # why: diffusion_log_density
MISSING.update((model, MISSING.get(model, ()) + ("gpumc-gpu",)) for model in PROGRAMS if model != "logistic")
OURS = {"gpumc": "learned", "gpumc-nuts": "learned", "gpumc-noncentred": "noncentred", "gpumc-gpu": "learned"}  # and its form


# ---------------------------------------------------------------------------------------------------------- running
def judge(draws, names):
    import arviz
    ess, rhat = [], []
    for name in names:
        v = draws[name]
        for column in v.reshape(v.shape[0], v.shape[1], -1).transpose(2, 0, 1):
            ess += [float(arviz.ess(column, method=method)) for method in ("bulk", "tail")]
            rhat.append(float(arviz.rhat(column)))
    return float(np.min(ess)), float(np.max(rhat))          # NaN, of a column that is constant or not finite, stays


def run(model, engine, options):
    make, forms, names = MODELS[model]
    o = dict(DEFAULTS, **options)
    if engine in MISSING.get(model, ()):
        raise ValueError("%s has no model %s" % (engine, model))
    form = OURS.get(engine) or o.get("form", forms[0])
    draws, result = ENGINES[engine](model, form, make(**options), o)
    if engine not in OURS:
        result["whole_s"] = time.perf_counter() - START - result.pop("repeated_s", 0.0)
        result["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ess, rhat = judge(draws, names)
    return dict(model=model, engine=engine, form=form, options=options, ess=ess, rhat=rhat, ess_per_s=ess / result["sample_s"],
                converged=bool(rhat < 1.01 and ess >= 400), **result)


def write_data(d, path):
    with open(path, "w") as f:
        f.write(json.dumps({k: (v.tolist() if hasattr(v, "tolist") else v) for k, v in d.items()}))   # dump is slower


def parse(words):
    out = {}
    for w in words:
        key, value = w.split("=", 1)
        try:
            out[key] = json.loads(value)
        except ValueError:
            out[key] = value
    return out


def row(r):
    value = "%.4g" % r["ess_per_s"] if r["converged"] else "(%.3g)" % r["ess_per_s"]
    return "%-17s %-11s %9.2f %9.2f %9.2f %8.0f %7.3f %5d %10s %7.0f" % (r["engine"], r["form"], r["sample_s"],
        r["compile_s"], r["whole_s"], r["ess"], r["rhat"], r["divergences"], value, r["mib"])


def one(model, engine, form, options):
    """The result of a run in its own process, or the reason why it failed."""
    words = ["%s=%s" % kv for kv in options.items()] + ["form=" + form]
    p = subprocess.run([sys.executable, __file__, "run", model, engine] + words, capture_output=True, text=True)
    try:
        return json.loads(p.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        print("%-17s %-11s failed: %s" % (engine, form, (p.stderr.strip().splitlines() or ["no output"])[-1][:120]), flush=True)
        return None


def median_run(model, engine, form, options, repeats, out):
    runs = [one(model, engine, form, dict(options, seed=options.get("seed", DEFAULTS["seed"]) + k)) for k in range(repeats)]
    if not all(runs):
        return None
    if out:
        with open(out, "a") as f:
            f.writelines(json.dumps(r) + "\n" for r in runs)
    middle = sorted(runs, key=lambda r: r["ess_per_s"])[(repeats - 1) // 2]
    return dict(middle, converged=all(r["converged"] for r in runs))


def table(model, options):
    print("%s %s" % (model, " ".join("%s=%s" % kv for kv in options.items())))
    print("%-17s %-11s %9s %9s %9s %8s %7s %5s %10s %7s" % (
        "engine", "form", "warm+draw", "compile", "whole", "ess", "rhat", "div", "ess/s", "MiB"))
    options = dict(options)
    repeats, out = options.pop("repeats", 1), options.pop("out", None)
    engines = options.pop("engines", ",".join(ENGINES)).split(",")
    warmups = str(options.pop("num_warmup", DEFAULTS["num_warmup"])).split(",")
    targets = str(options.pop("target_accept", DEFAULTS["target_accept"])).split(",")
    pairs = [dict(num_warmup=int(w), target_accept=float(t)) for w in warmups for t in targets]
    forms = [options.pop("form")] if "form" in options else MODELS[model][1]
    rows = []
    for engine in engines:
        if engine in MISSING.get(model, ()):
            print("%-17s has no such model" % engine)
            continue
        if engine == "gpumc-noncentred" and ("noncentred" not in forms or model not in ("groups", "artists", "retest", "diffusion")):
            continue
        for form in ([OURS[engine]] if engine in OURS else forms):
            for pair in (pairs[:1] if engine in OURS else pairs):
                r = median_run(model, engine, form, dict(options, **pair), repeats, out)
                if r:
                    rows.append(r)
                    print(row(r), flush=True)
    ratios(rows)


def ratios(rows):
    ours = [r for r in rows if r["engine"] in ("gpumc", "gpumc-gpu") and r["converged"]]
    peers = [r for r in rows if r["engine"] not in OURS and r["converged"]]
    for what, some in (("the best converged peer", peers),
                       ("the best non-centred one", [r for r in peers if r["form"] == "noncentred"])):
        best = max(some, key=lambda r: r["ess_per_s"], default=None)
        for r in ours if best else []:
            print("%s has %.3g times the ess/s of %s: %s %s, %.4g" % (
                r["engine"], r["ess_per_s"] / best["ess_per_s"], what, best["engine"], best["form"], best["ess_per_s"]))


def anchors():
    """Each peer in its best form; `table MODEL num_warmup=300,1000` without form shows the alternatives. Runs of
    milliseconds are repeated most: the ratio of medians of five such runs varies by a third from day to day."""
    best = dict(engines="gpumc,nutpie,numpyro-parallel", num_warmup=300, repeats=3)
    table("schools", dict(best, repeats=15))
    for size, repeats in ((100, 15), (500, 3), (1000, 3)):
        table("groups", dict(best, size=size, form="centred", num_samples=2000, repeats=repeats))
    table("logistic", best)
    table("players", dict(best, form="centred"))
    table("artists", dict(best, data="noise"))
    table("artists", dict(best, data="model", engines="gpumc,nutpie", num_samples=4000, repeats=2))
    table("retest", dict(best, engines="gpumc,nutpie", form="noncentred"))
    table("diffusion", dict(best, engines="gpumc,numpyro-parallel", form="centred", repeats=1))


def main(argv):
    if len(argv) >= 2 and argv[0] == "table":
        table(argv[1], parse(argv[2:]))
    elif len(argv) >= 3 and argv[0] == "run":
        print(json.dumps(run(argv[1], argv[2], parse(argv[3:]))))
    elif len(argv) >= 3 and argv[0] == "data":
        write_data(MODELS[argv[1]][0](**parse(argv[3:])), argv[2])
    elif argv == ["anchors"]:
        anchors()
    elif argv == ["list"]:
        for name, (_, forms, params) in MODELS.items():
            print("%-9s forms: %-22s judged: %s" % (name, ", ".join(forms), ", ".join(params)))
        print("engines:", ", ".join(ENGINES))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
