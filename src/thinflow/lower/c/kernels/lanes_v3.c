#include <immintrin.h>

/* Eight sums in a register; panels hold halfwords, and sums take two products at once. */
#define LANES 8
#define GROUP 2
typedef __m256i lanes_t;
typedef __m256 floats_t;
typedef int32_t some_t;
typedef int16_t panel_t;
typedef struct {
    const int32_t *bias;
    const void *first, *second, *third;
    int32_t zero_point, min, max;
} output_t;

#define lanes_at(from) _mm256_loadu_si256((const void *)(from))
#define lanes_spread(from) _mm256_set1_epi32(spread_two(from))
#define lanes_products(sums, w, x) _mm256_add_epi32(sums, _mm256_madd_epi16(x, w))
#define lanes_weights(from) _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(from)))
#define lanes_some(count) (count)
#define floats_all(value) _mm256_set1_ps(value)
#define floats_at(from, n) _mm256_loadu_ps((const float *)(from) + (n))

__attribute__((unused)) static inline int32_t spread_two(const panel_t *from)
{
    int32_t two;
    memcpy(&two, from, sizeof two);
    return two;
}

/* Bytes of a picture as a panel has them. */
__attribute__((unused)) static void panel_copy(panel_t *to, const int8_t *from, int32_t count)
{
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        _mm256_storeu_si256((void *)(to + i), _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(from + i))));
    }
    for (; i < count; i++) {
        to[i] = from[i];
    }
}

__attribute__((unused)) static void panel_fill(panel_t *to, int32_t value, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        to[i] = (panel_t)value;
    }
}

/* The bytes of two rows side by side: those of a column together. */
__attribute__((unused)) static void panel_columns(panel_t *to, const int8_t *const *rows, int32_t count)
{
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const __m128i above = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)(rows[0] + i)));
        const __m128i below = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)(rows[1] + i)));
        _mm_storeu_si128((void *)(to + 2 * i), _mm_unpacklo_epi16(above, below));
        _mm_storeu_si128((void *)(to + 2 * i + LANES), _mm_unpackhi_epi16(above, below));
    }
    for (to += 2 * i; i < count; i++) {
        *to++ = rows[0][i];
        *to++ = rows[1][i];
    }
}

/* The high halves of 256 times sums times factors. */
__attribute__((unused)) static lanes_t lanes_high(lanes_t sums, lanes_t factors)
{
    const __m256i wide = _mm256_slli_epi32(sums, 8);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epi32(wide, factors), 32);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(wide, 32), _mm256_srli_epi64(factors, 32));
    return _mm256_blend_epi32(even, odd, 0xaa);
}

/* As many bytes as there are, each in a lane. */
__attribute__((unused)) static lanes_t lanes_bytes(const int8_t *from, some_t count)
{
    int8_t all[LANES] = {0};
    if (count < LANES) {
        for (int32_t i = 0; i < count; i++) {
            all[i] = from[i];
        }
        from = all;
    }
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)from));
}

/* As many bytes as there are, held between -128 and 127. */
__attribute__((unused)) static void lanes_put(int8_t *to, lanes_t values, some_t count)
{
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    const __m128i bytes = _mm_packs_epi16(words, words);
    if (count >= LANES) {
        _mm_storel_epi64((void *)to, bytes);
        return;
    }
    int8_t all[LANES];
    _mm_storel_epi64((void *)all, bytes);
    for (int32_t i = 0; i < count; i++) {
        to[i] = all[i];
    }
}

#define lanes_float(sums) _mm256_cvtepi32_ps(sums)
#define lanes_nearest(values) _mm256_cvtps_epi32(values)
#define lanes_times(a, b) _mm256_mul_ps(a, b)
#define lanes_line(a, b, c) _mm256_fmadd_ps(a, b, c)
/* What is no number stays so. */
#define floats_held(a, least, most) _mm256_min_ps(most, _mm256_max_ps(least, a))
#define lanes_by_sign(sums, above, below) _mm256_blendv_ps(above, below, _mm256_castsi256_ps(sums))
#define lanes_add(a, b) _mm256_add_epi32(a, b)
#define lanes_all(value) _mm256_set1_epi32(value)
#define lanes_right(a, counts) _mm256_srav_epi32(a, counts)
#define lanes_down(a, count) _mm256_srai_epi32(a, count)
#define lanes_held(a, least, most) _mm256_min_epi32(_mm256_max_epi32(a, least), most)
