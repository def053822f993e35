#include <immintrin.h>

/* Sixteen sums in a register; panels hold bytes, moved up by 128, and sums take four products at once. */
#define LANES 16
#define GROUP 4
typedef __m512i lanes_t;
typedef __m512 floats_t;
typedef __mmask16 some_t;
typedef uint8_t panel_t;
typedef struct {
    const int32_t *bias;
    const void *first, *second, *third;
    int32_t zero_point, min, max;
} output_t;

#define lanes_at(from) _mm512_loadu_si512((const void *)(from))
#define lanes_spread(from) _mm512_set1_epi32(spread_four(from))
#define lanes_products(sums, w, x) _mm512_dpbusd_epi32(sums, x, w)
#define lanes_weights(from) lanes_at(from)
#define lanes_some(count) ((some_t)((count) < LANES ? (1u << (count)) - 1u : 0xffffu))
#define lanes_bytes(from, some) _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, from))
#define floats_all(value) _mm512_set1_ps(value)
#define floats_at(from, n) _mm512_loadu_ps((const float *)(from) + (n))

__attribute__((unused)) static inline int32_t spread_four(const panel_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return four;
}

/* Bytes of a picture as a panel has them. */
__attribute__((unused)) static void panel_copy(panel_t *to, const int8_t *from, int32_t count)
{
    const __m512i top = _mm512_set1_epi8(-128);
    int32_t i = 0;
    for (; i + 64 <= count; i += 64) {
        _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), top));
    }
    if (i < count) {
        const __mmask64 some = (UINT64_C(1) << (count - i)) - 1u;
        const __m512i bytes = _mm512_maskz_loadu_epi8(some, from + i);
        _mm512_mask_storeu_epi8(to + i, some, _mm512_xor_si512(bytes, top));
    }
}

__attribute__((unused)) static void panel_fill(panel_t *to, int32_t value, int32_t count)
{
    memset(to, value + 128, (size_t)count);
}

/* The bytes of four rows side by side: those of a column together. */
__attribute__((unused)) static void panel_columns(panel_t *to, const int8_t *const *rows, int32_t count)
{
    const __m512i top = _mm512_set1_epi8(-128);
    const __m512i across = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i within = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (int32_t i = 0; i < count; i += LANES, to += 4 * LANES) {
        const __mmask16 some = lanes_some(count - i);
        __m512i four = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(some, rows[0] + i));
        four = _mm512_inserti32x4(four, _mm_maskz_loadu_epi8(some, rows[1] + i), 1);
        four = _mm512_inserti32x4(four, _mm_maskz_loadu_epi8(some, rows[2] + i), 2);
        four = _mm512_inserti32x4(four, _mm_maskz_loadu_epi8(some, rows[3] + i), 3);
        four = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(across, _mm512_xor_si512(four, top)), within);
        _mm512_mask_storeu_epi32(to, some, four);
    }
}

/* The high halves of 256 times sums times factors. */
__attribute__((unused)) static lanes_t lanes_high(lanes_t sums, lanes_t factors)
{
    const __m512i wide = _mm512_slli_epi32(sums, 8);
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epi32(wide, factors), 32);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(wide, 32), _mm512_srli_epi64(factors, 32));
    return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}

#define lanes_float(sums) _mm512_cvtepi32_ps(sums)
#define lanes_nearest(values) _mm512_cvtps_epi32(values)
#define lanes_times(a, b) _mm512_mul_ps(a, b)
#define lanes_line(a, b, c) _mm512_fmadd_ps(a, b, c)
/* What is no number stays so. */
#define floats_held(a, least, most) _mm512_min_ps(most, _mm512_max_ps(least, a))
#define lanes_by_sign(sums, above, below) _mm512_mask_blend_ps(_mm512_movepi32_mask(sums), above, below)
#define lanes_add(a, b) _mm512_add_epi32(a, b)
#define lanes_all(value) _mm512_set1_epi32(value)
#define lanes_right(a, counts) _mm512_srav_epi32(a, counts)
#define lanes_down(a, count) _mm512_srai_epi32(a, count)
#define lanes_held(a, least, most) _mm512_min_epi32(_mm512_max_epi32(a, least), most)
#define lanes_put(to, values, some) _mm512_mask_cvtsepi32_storeu_epi8(to, some, values)
