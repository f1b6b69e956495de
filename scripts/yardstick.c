/* The yardsticks of scripts/benchmark.py: hand-written loops that do the same work as the compiled kernels.
 *
 * Compile with -O3 -march=native -ffp-contract=off: then the results are those of the kernels, bit for bit, as the
 * random words, the order of operations and the arrays are the same.
 *
 * synchronous(): AVX-512, eight seeds a vector, three equally likely successors, all rules of the four-number family.
 * asynchronous_table(), one_hot_momentum(): one lane after the other, uniform behaviour, no restarts or time limit.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512VL__)
#include <immintrin.h>

int has_avx512(void) { return 1; }

/* Philox4x32-10 of eight counters, its 32-bit words kept in 64-bit lanes: _mm512_mul_epu32 reads the low halves. */
static inline void philox8(__m512i c0, __m512i c1, __m512i c2, __m512i c3, uint32_t key0, uint32_t key1, uint32_t *out,
                           long stride)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i low = _mm512_set1_epi64(0xFFFFFFFF);
    for (int round = 0; round < 10; round++) {
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1), _mm512_set1_epi64(key0));
        c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3), _mm512_set1_epi64(key1));
        c1 = _mm512_and_si512(p1, low);
        c3 = _mm512_and_si512(p0, low);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi64_epi32(c0));
    _mm256_storeu_si256((__m256i *)(out + stride), _mm512_cvtepi64_epi32(c1));
    _mm256_storeu_si256((__m256i *)(out + 2 * stride), _mm512_cvtepi64_epi32(c2));
    _mm256_storeu_si256((__m256i *)(out + 3 * stride), _mm512_cvtepi64_epi32(c3));
}

/* Tables are (pairs, lanes) with lanes a multiple of 8, 64-byte aligned. Seeds 0..lanes-1, iterations 0..n-1. */
void synchronous(double *q, double *q_prev, long pairs, long states, long lanes, const int64_t *offsets,
                 const uint32_t *successors, const double *rewards, long reuse, const double *weights, long n,
                 double discount, uint32_t seed, uint32_t stream)
{
    const uint32_t third = 1431655766u, two_thirds = 2863311531u;
    double *v = aligned_alloc(64, sizeof(double) * states * lanes);
    double *v_prev = aligned_alloc(64, sizeof(double) * states * lanes);
    double *w = aligned_alloc(64, sizeof(double) * states * lanes);
    uint32_t *words = aligned_alloc(64, sizeof(uint32_t) * 4 * ((lanes + 15) / 16 * 16));
    const long stride = (lanes + 15) / 16 * 16;
    for (long i = 0; i < states * lanes; i++) v[i] = v_prev[i] = w[i] = 0.0;
    for (long x = 0; x < states; x++)
        for (int64_t j = offsets[x]; j < offsets[x + 1]; j++)
            for (long l = 0; l < lanes; l++) {
                double value = q_prev[j * lanes + l];
                if (j == offsets[x] || value > v[x * lanes + l]) v[x * lanes + l] = value;
            }
    for (long k = 0; k < n; k++) {
        const double a_q = weights[4 * k], a_prev = weights[4 * k + 1], s = weights[4 * k + 2], t = weights[4 * k + 3];
        const __m512d gs = _mm512_set1_pd(discount * s), gt = _mm512_set1_pd(discount * t);
        for (long x = 0; x < states; x++) {
            if (offsets[x] == offsets[x + 1]) continue;
            for (long l = 0; l < lanes; l += 8) {
                __m512d m = _mm512_load_pd(q + offsets[x] * lanes + l);
                for (int64_t j = offsets[x] + 1; j < offsets[x + 1]; j++)
                    m = _mm512_max_pd(m, _mm512_load_pd(q + j * lanes + l));
                _mm512_store_pd(v_prev + x * lanes + l, m);
                __m512d old = _mm512_load_pd(v + x * lanes + l);
                _mm512_store_pd(w + x * lanes + l, _mm512_add_pd(_mm512_mul_pd(gs, m), _mm512_mul_pd(gt, old)));
            }
        }
        long left = 0, row = 3;
        uint32_t word = 0;
        for (long j = 0; j < pairs; j++) {
            if (left == 0) {
                left = reuse;
                row = (row + 1) & 3;
                if (row == 0) {
                    for (long l = 0; l < lanes; l += 8) {
                        __m512i lane = _mm512_add_epi64(_mm512_set1_epi64(l), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
                        philox8(_mm512_set1_epi64(word), _mm512_set1_epi64((uint32_t)k), _mm512_setzero_si512(), lane,
                                seed, stream, words + l, stride);
                    }
                    word++;
                }
            }
            left--;
            const uint32_t *y = successors + 3 * j;
            const __m512d r0 = _mm512_set1_pd((s + t) * rewards[3 * j]);
            const __m512d r1 = _mm512_set1_pd((s + t) * rewards[3 * j + 1]);
            const __m512d r2 = _mm512_set1_pd((s + t) * rewards[3 * j + 2]);
            const __m512d p0 = _mm512_set1_pd(a_q), p1 = _mm512_set1_pd(a_prev);
            for (long l = 0; l < lanes; l += 8) {
                __m256i u = _mm256_load_si256((const __m256i *)(words + row * stride + l));
                __mmask8 b1 = _mm256_cmpge_epu32_mask(u, _mm256_set1_epi32(third));
                __mmask8 b2 = _mm256_cmpge_epu32_mask(u, _mm256_set1_epi32(two_thirds));
                __m512d e = _mm512_add_pd(_mm512_load_pd(w + y[0] * lanes + l), r0);
                e = _mm512_mask_add_pd(e, b1, _mm512_load_pd(w + y[1] * lanes + l), r1);
                e = _mm512_mask_add_pd(e, b2, _mm512_load_pd(w + y[2] * lanes + l), r2);
                __m512d now = _mm512_load_pd(q + j * lanes + l), old = _mm512_load_pd(q_prev + j * lanes + l);
                __m512d next = _mm512_add_pd(_mm512_add_pd(_mm512_mul_pd(p0, now), _mm512_mul_pd(p1, old)), e);
                _mm512_store_pd(q_prev + j * lanes + l, next);
                _mm256_store_si256((__m256i *)(words + row * stride + l), _mm256_add_epi32(u, _mm256_add_epi32(u, u)));
            }
        }
        double *swap = q; q = q_prev; q_prev = swap;
        swap = v; v = v_prev; v_prev = swap;
    }
    free(v); free(v_prev); free(w); free(words);
}
#else
int has_avx512(void) { return 0; }
#endif

/* --- one sample an iteration ------------------------------------------------------------------------------------- */

enum { CHUNK = 4096 };

typedef struct {
    const uint64_t *offsets;
    const uint32_t *successors;
    const double *rewards;
    const uint32_t *thresholds;
    long outcomes;
    const int64_t *starts;
    long n_starts;
    const uint64_t *keep;
    const uint32_t *alias;
    const uint8_t *goal;
} Model;

/* Counters (0, k .. k + n - 1, lane), n a multiple of 8. */
static void philox_steps(uint64_t k, long n, uint32_t lane, uint32_t seed, uint32_t stream, uint32_t (*words)[CHUNK])
{
#if defined(__AVX512F__) && defined(__AVX512VL__)
    const __m512i low = _mm512_set1_epi64(0xFFFFFFFF), eight = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (long i = 0; i < n; i += 8) {
        __m512i step = _mm512_add_epi64(_mm512_set1_epi64(k + i), eight);
        philox8(_mm512_setzero_si512(), _mm512_and_si512(step, low), _mm512_srli_epi64(step, 32),
                _mm512_set1_epi64(lane), seed, stream, words[0] + i, CHUNK);
    }
#else
    for (long i = 0; i < n; i++) {
        uint32_t c0 = 0, c1 = (uint32_t)(k + i), c2 = (uint32_t)((k + i) >> 32), c3 = lane, key0 = seed, key1 = stream;
        for (int round = 0; round < 10; round++) {
            uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
            c1 = (uint32_t)p1;
            c3 = (uint32_t)p0;
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        words[0][i] = c0, words[1][i] = c1, words[2][i] = c2, words[3][i] = c3;
    }
#endif
}

static inline uint64_t below(uint32_t word, uint64_t n) { return word * n >> 32; }

typedef struct {
    uint64_t pair, b, y;
} Transition;

/* One step of the chain. state: state, moves of this episode, steps, episodes, goals, transitions with a reward. */
static inline __attribute__((always_inline)) Transition move(const Model *m, uint64_t *state, int32_t *visits,
                                                             uint32_t (*words)[CHUNK], long i)
{
    uint64_t first = m->offsets[state[0]], count = m->offsets[state[0] + 1] - first;
    Transition t = {first + below(words[0][i], count), 0, 0};
    const uint32_t *thresholds = m->thresholds + m->outcomes * t.pair;
    for (uint64_t c = 1; c < (uint64_t)m->outcomes; c++) t.b = words[1][i] >= thresholds[c] ? c : t.b;
    t.y = m->successors[m->outcomes * t.pair + t.b];
    visits[t.pair]++;
    state[2]++;
    state[5] += m->rewards[m->outcomes * t.pair + t.b] != 0.0;
    if (m->offsets[t.y] == m->offsets[t.y + 1]) {
        state[4] += m->goal[t.y];
        state[3]++;
        state[1] = 0;
        uint64_t j = below(words[2][i], m->n_starts);
        state[0] = words[3][i] < m->keep[j] ? m->starts[j] : m->starts[m->alias[j]];
    } else {
        state[1]++;
        state[0] = t.y;
    }
    return t;
}

static inline double largest(const double *q, uint64_t first, uint64_t end)
{
    if (first == end) return 0.0;
    double best = q[first];
    for (uint64_t j = first + 1; j < end; j++) best = q[j] > best ? q[j] : best;
    return best;
}

/* Iterations 0 .. n_all - 1 of lanes 0 .. lanes - 1; the arrays are those of mqlearn.kernels.asynchronous_table. */
void asynchronous_table(double *q, double *last, long pairs, const Model *model, int64_t *states, int32_t *visits,
                        int64_t *counts, const double *weights, double discount, long n_all, long lanes, uint32_t seed,
                        uint32_t stream)
{
    static uint32_t words[4][CHUNK];
    const Model m = *model;
    for (long done = 0; done < n_all; done += CHUNK) {
        long n = n_all - done < CHUNK ? n_all - done : CHUNK;
        for (long lane = 0; lane < lanes; lane++) {
            double *table = q + lane * pairs;
            int64_t *count = counts + lane * pairs;
            uint64_t state[6], last_pair = last[2 * lane];
            double last_value = last[2 * lane + 1];
            memcpy(state, states + 6 * lane, sizeof state);
            philox_steps(done, (n + 7) / 8 * 8, lane, seed, stream, words);
            for (long i = 0; i < n; i++) {
                Transition t = move(&m, state, visits + lane * pairs, words, i);
                const double *w = weights + 4 * (done + i);
                uint64_t first = m.offsets[t.y], end = m.offsets[t.y + 1];
                double value = table[t.pair], value_prev = t.pair == last_pair ? last_value : value;
                double v = largest(table, first, end), v_prev = v;
                if (first <= last_pair && last_pair < end) {
                    double now = table[last_pair];
                    table[last_pair] = last_value;
                    v_prev = largest(table, first, end);
                    table[last_pair] = now;
                }
                double reward = m.rewards[m.outcomes * t.pair + t.b];
                double target = (w[2] + w[3]) * reward + discount * (w[2] * v + w[3] * v_prev);
                table[t.pair] = w[0] * value + w[1] * value_prev + target;
                count[t.pair]++;
                last_pair = t.pair;
                last_value = value;
            }
            memcpy(states + 6 * lane, state, sizeof state);
            last[2 * lane] = last_pair;
            last[2 * lane + 1] = last_value;
        }
    }
}

/* As mqlearn.kernels.momentum_segments, where no beta is negligible. */
static long momentum_segments(const double *weights, long n, double (*table)[6], long *ends)
{
    long segments = 0;
    for (long start = 0, end; start < n; start = end) {
        double b = 1.0, total = 0.0, d = 0.0, sums = 0.0;
        for (end = start; end < n; end++) {
            double beta = -(weights[4 * end + 1] + weights[4 * end + 3]);
            if (fabs(beta) < 1e-30) beta = 1e-30;
            double next = b * beta;
            total += fabs(next);
            if (end > start && (fabs(next) < 1e-190 || fabs(next) > 1e190 || total > 1e4)) break;
            table[end][0] = b;
            table[end][5] = b = next;
        }
        for (long k = end - 1; k >= start; k--) {
            double next = table[k][5];
            d += next;
            sums += next * (end - k);
            table[k][1] = d;
            table[k][2] = 1.0 / next;
            table[k][3] = d / next;
            table[k][4] = sums / next;
        }
        ends[segments++] = end;
    }
    return segments;
}

static inline void touch(double *z, double *w, double *total, uint64_t j, double step, const double *row)
{
    w[j] += step * row[2];
    z[j] += step * row[3];
    total[j] += step * row[4];
}

/* Linear momentum in the lazy form, features with a single entry 1 a pair, in the column that `columns` names;
 * g_{-1} = g_0, the stored gradient. The other arrays are those of mqlearn.kernels.linear_from_samples. */
void one_hot_momentum(double *theta, double *v, double *sums, double *last, long pairs, long d, const Model *model,
                      const uint32_t *columns, int64_t *states, int32_t *visits, const double *weights, double discount,
                      long n_all, long lanes, uint32_t seed, uint32_t stream)
{
    static uint32_t words[4][CHUNK];
    static double table[CHUNK][6];
    static long ends[CHUNK];
    const Model m = *model;
    for (long done = 0; done < n_all; done += CHUNK) {
        long n = n_all - done < CHUNK ? n_all - done : CHUNK;
        long segments = momentum_segments(weights + 4 * done, n, table, ends);
        for (long lane = 0; lane < lanes; lane++) {
            double *z = theta + lane * d, *w = v + lane * d, *total = sums + lane * d, last_delta = last[2 * lane + 1];
            int64_t last_pair = last[2 * lane];
            uint64_t state[6];
            memcpy(state, states + 6 * lane, sizeof state);
            philox_steps(done, (n + 7) / 8 * 8, lane, seed, stream, words);
            for (long segment = 0, i = 0; segment < segments; segment++) {
                long end = ends[segment];
                for (long j = 0; j < d; j++) {
                    total[j] += (end - i) * z[j];
                    total[j] += table[i][4] * table[i][5] * w[j];
                    z[j] += table[i][1] * w[j];
                }
                for (; i < end; i++) {
                    Transition t = move(&m, state, visits + lane * pairs, words, i);
                    const double *number = weights + 4 * (done + i);
                    double shift = table[i][1], ahead = 0.0;
                    uint64_t first = m.offsets[t.y], stop = m.offsets[t.y + 1], here = columns[t.pair];
                    if (first < stop) {
                        ahead = z[columns[first]] - shift * w[columns[first]];
                        for (uint64_t j = first + 1; j < stop; j++) {
                            double other = z[columns[j]] - shift * w[columns[j]];
                            ahead = other > ahead ? other : ahead;
                        }
                    }
                    double reward = m.rewards[m.outcomes * t.pair + t.b];
                    double delta = z[here] - shift * w[here] - reward - discount * ahead;
                    double step = -number[2] * delta;
                    if (last_pair < 0)
                        step -= number[3] * delta;
                    else if (number[3] != 0.0)
                        touch(z, w, total, columns[last_pair], -number[3] * last_delta, table[i]);
                    touch(z, w, total, here, step, table[i]);
                    last_pair = t.pair;
                    last_delta = delta;
                }
                for (long j = 0; j < d; j++) w[j] *= table[end - 1][5];
            }
            memcpy(states + 6 * lane, state, sizeof state);
            last[2 * lane] = last_pair;
            last[2 * lane + 1] = last_delta;
        }
    }
}
