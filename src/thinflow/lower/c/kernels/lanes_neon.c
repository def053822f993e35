#include <arm_neon.h>

/* Eight sums in two registers; panels hold bytes as they are. */
#define LANES 8
#define GROUP 4
typedef struct {
    int32x4_t low, high;
} lanes_t;
typedef struct {
    float32x4_t low, high;
} floats_t;
typedef int32_t some_t;
typedef int8_t panel_t;
typedef struct {
    const int32_t *bias;
    const void *first, *second, *third;
    int32_t zero_point, min, max;
} output_t;

#define lanes_some(count) (count)
#define lanes_at(from) ((lanes_t){vld1q_s32(from), vld1q_s32((from) + 4)})
#define floats_at(from, n) \
    ((floats_t){vld1q_f32((const float *)(from) + (n)), vld1q_f32((const float *)(from) + (n) + 4)})
#define floats_all(value) ((floats_t){vdupq_n_f32(value), vdupq_n_f32(value)})
#define lanes_all(value) ((lanes_t){vdupq_n_s32(value), vdupq_n_s32(value)})
#define lanes_with(with, a) ((lanes_t){with((a).low), with((a).high)})
#define lanes_with_two(with, a, b) ((lanes_t){with((a).low, (b).low), with((a).high, (b).high)})
#define floats_with_two(with, a, b) ((floats_t){with((a).low, (b).low), with((a).high, (b).high)})
#define lanes_add(a, b) lanes_with_two(vaddq_s32, a, b)
#define lanes_held(a, least, most) lanes_with_two(vminq_s32, lanes_with_two(vmaxq_s32, a, least), most)
/* The high half of twice the product: cut off, and to the nearest. */
#define lanes_doubled(a, b) lanes_with_two(vqdmulhq_s32, a, b)
#define lanes_doubled_nearest(a, b) lanes_with_two(vqrdmulhq_s32, a, b)
/* Shifts to the right by negative counts, halves upwards. */
#define lanes_moved(a, counts) lanes_with_two(vrshlq_s32, a, counts)
#define lanes_less_if_negative(a) ((lanes_t){vsraq_n_s32((a).low, (a).low, 31), vsraq_n_s32((a).high, (a).high, 31)})
#define lanes_float(sums) ((floats_t){vcvtq_f32_s32((sums).low), vcvtq_f32_s32((sums).high)})
#define lanes_times(a, b) floats_with_two(vmulq_f32, a, b)
#define lanes_line(a, b, c) ((floats_t){vfmaq_f32((c).low, (a).low, (b).low), vfmaq_f32((c).high, (a).high, (b).high)})
#define floats_held(a, least, most) floats_with_two(vminq_f32, floats_with_two(vmaxq_f32, a, least), most)
#define lanes_by_sign(sums, above, below)                                                            \
    ((floats_t){vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32((sums).low, 31)), (below).low, (above).low), \
                vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32((sums).high, 31)), (below).high, (above).high)})
#ifdef __aarch64__
#define whole_nearest(values) vcvtnq_s32_f32(values)
#define lanes_widened(sums, halves) vaddw_high_s16(sums, halves)
#else
#define lanes_widened(sums, halves) vaddw_s16(sums, vget_high_s16(halves))
#define whole_nearest(values) vcvtq_s32_f32(vrndnq_f32(values))
#endif
#define lanes_nearest(values) lanes_with(whole_nearest, values)

/* Bytes of a picture as a panel has them. */
__attribute__((unused)) static void panel_copy(panel_t *to, const int8_t *from, int32_t count)
{
    memcpy(to, from, (size_t)count);
}

__attribute__((unused)) static void panel_fill(panel_t *to, int32_t value, int32_t count)
{
    memset(to, value, (size_t)count);
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
    const int16x8_t wide = vmovl_s8(vld1_s8(from));
    return (lanes_t){vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))};
}

/* As many bytes as there are, moved by a zero point and held between limits. */
__attribute__((unused)) static void lanes_write(int8_t *to, lanes_t values, const output_t *q, some_t count)
{
    const int16x8_t words = vcombine_s16(vqmovn_s32(values.low), vqmovn_s32(values.high));
    const int8x8_t moved = vqmovn_s16(vqaddq_s16(words, vdupq_n_s16((int16_t)q->zero_point)));
    const int8x8_t held = vmin_s8(vmax_s8(moved, vdup_n_s8((int8_t)q->min)), vdup_n_s8((int8_t)q->max));
    if (count >= LANES) {
        vst1_s8(to, held);
        return;
    }
    int8_t all[LANES];
    vst1_s8(all, held);
    for (int32_t i = 0; i < count; i++) {
        to[i] = all[i];
    }
}

/* As many bytes as there are, held between -128 and 127. */
__attribute__((unused)) static void lanes_put(int8_t *to, lanes_t values, some_t count)
{
    static const output_t all = {NULL, NULL, NULL, NULL, 0, -128, 127};
    lanes_write(to, values, &all, count);
}
