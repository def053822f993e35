#include "lanes_neon.c"

/* Four sums, with products of four elements, summed by two in 16 bits before. */
__attribute__((unused)) static inline int32x4_t $name(int32x4_t sums, int8x16_t w, const int8_t *from)
{
    static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
    int32_t four;
    memcpy(&four, from, sizeof four);
    const int8x8_t all = vreinterpret_s8_s32(vdup_n_s32(four));
    const int8x8_t first = vtbl1_s8(all, vreinterpret_s8_u8(vld1_u8(order)));
    const int8x8_t next = vtbl1_s8(all, vreinterpret_s8_u8(vld1_u8(order + 8)));
    return vpadalq_s16(sums, vmlal_s8(vmull_s8(vget_low_s8(w), first), vget_high_s8(w), next));
}
