/* The yardsticks of scripts/benchmark.py: hand-written loops that do the same work as the compiled kernels.
 *
 * synchronous(): AVX-512, eight seeds a vector, Philox4x32-10, three equally likely successors, all rules of the
 * four-number family; the same draws as mqlearn.kernels.synchronous, so that results can be compared.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

static inline void philox8(__m512i c0, __m512i c1, __m512i c2, __m512i c3, uint32_t key0, uint32_t key1, uint32_t *out,
                           long stride)
{
    /* 32-bit words kept in 64-bit lanes: _mm512_mul_epu32 reads the low halves. */
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
    _mm256_store_si256((__m256i *)out, _mm512_cvtepi64_epi32(c0));
    _mm256_store_si256((__m256i *)(out + stride), _mm512_cvtepi64_epi32(c1));
    _mm256_store_si256((__m256i *)(out + 2 * stride), _mm512_cvtepi64_epi32(c2));
    _mm256_store_si256((__m256i *)(out + 3 * stride), _mm512_cvtepi64_epi32(c3));
}

/* Tables are (pairs, lanes) with lanes a multiple of 8, 64-byte aligned. Seeds 0..lanes-1, iterations 0..n-1. */
void synchronous(double *q, double *q_prev, long pairs, long states, long lanes, const int64_t *offsets,
                 const uint32_t *successors, const double *rewards, long reuse, const double *weights, long n,
                 double discount, uint32_t seed, uint32_t stream)
{
    const uint32_t third = 1431655766u, two_thirds = 2863311531u;
    double *v = aligned_alloc(64, sizeof(double) * states * lanes), *v_prev = aligned_alloc(64, sizeof(double) * states * lanes);
    double *w = aligned_alloc(64, sizeof(double) * states * lanes);
    uint32_t *words = aligned_alloc(64, sizeof(uint32_t) * 4 * ((lanes + 15) / 16 * 16));
    const long stride = (lanes + 15) / 16 * 16;
    for (long i = 0; i < states * lanes; i++) v[i] = v_prev[i] = w[i] = 0.0;
    for (long x = 0; x < states; x++)
        for (int64_t j = offsets[x]; j < offsets[x + 1]; j++)
            for (long l = 0; l < lanes; l++)
                if (j == offsets[x] || q_prev[j * lanes + l] > v[x * lanes + l]) v[x * lanes + l] = q_prev[j * lanes + l];
    for (long k = 0; k < n; k++) {
        const double a_q = weights[4 * k], a_prev = weights[4 * k + 1], s = weights[4 * k + 2], t = weights[4 * k + 3];
        const __m512d gs = _mm512_set1_pd(discount * s), gt = _mm512_set1_pd(discount * t);
        for (long x = 0; x < states; x++) {
            if (offsets[x] == offsets[x + 1]) continue;
            for (long l = 0; l < lanes; l += 8) {
                __m512d m = _mm512_load_pd(q + offsets[x] * lanes + l);
                for (int64_t j = offsets[x] + 1; j < offsets[x + 1]; j++) m = _mm512_max_pd(m, _mm512_load_pd(q + j * lanes + l));
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
                        philox8(_mm512_set1_epi64(word), _mm512_set1_epi64((uint32_t)k), _mm512_setzero_si512(), lane, seed,
                                stream, words + l, stride);
                    }
                    word++;
                }
            }
            left--;
            const uint32_t *y = successors + 3 * j;
            const __m512d r0 = _mm512_set1_pd((s + t) * rewards[3 * j]), r1 = _mm512_set1_pd((s + t) * rewards[3 * j + 1]),
                          r2 = _mm512_set1_pd((s + t) * rewards[3 * j + 2]);
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
