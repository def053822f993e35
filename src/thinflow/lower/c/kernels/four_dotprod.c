#include "lanes_neon.c"

/* Four sums, with products of four elements. */
__attribute__((unused)) static inline int32x4_t $name(int32x4_t sums, int8x16_t w, const int8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return vdotq_s32(sums, w, vreinterpretq_s8_s32(vdupq_n_s32(four)));
}
