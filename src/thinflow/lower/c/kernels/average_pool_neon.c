#include <arm_neon.h>
#include "window.c"

typedef struct {
    window_t window;
    int32_t min, max;
} ${name}_t;

static int8_t ${name}_mean(int32_t sum, int32_t count, const ${name}_t *s)
{
    const int32_t mean = (sum + (sum > 0 ? count / 2 : -(count / 2))) / count;
    return (int8_t)(mean < s->min ? s->min : mean > s->max ? s->max : mean);
}

/* Eight means of sums of 16 bits, halves away from zero. */
static void ${name}_eight(int8_t *y, int16x8_t sums, int32_t count, const ${name}_t *s)
{
#ifdef __aarch64__
    const float32x4_t divisor = vdupq_n_f32((float)count);
    const int16x8_t half = vdupq_n_s16((int16_t)(count / 2));
    const int16x8_t sign = vshrq_n_s16(sums, 15);
    int32x4_t parts[2];
    for (int32_t i = 0; i < 2; i++) {
        const int16x4_t part = i == 0 ? vget_low_s16(sums) : vget_high_s16(sums);
        const int16x4_t signs = i == 0 ? vget_low_s16(sign) : vget_high_s16(sign);
        const int16x4_t moved = vsub_s16(veor_s16(vget_low_s16(half), signs), signs);
        /* Of numbers below 2^24 the quotient of floats is cut off where that of integers is. */
        const float32x4_t quotient = vdivq_f32(vcvtq_f32_s32(vaddl_s16(part, moved)), divisor);
        parts[i] = vmaxq_s32(vminq_s32(vcvtq_s32_f32(quotient), vdupq_n_s32(s->max)), vdupq_n_s32(s->min));
    }
    vst1_s8(y, vmovn_s16(vcombine_s16(vmovn_s32(parts[0]), vmovn_s32(parts[1]))));
#else
    int16_t each[8];
    vst1q_s16(each, sums);
    for (int32_t i = 0; i < 8; i++) {
        y[i] = ${name}_mean(each[i], count, s);
    }
#endif
}

/* The mean under each window of at most 255 pixels, of what lies inside the picture, eight channels at once. */
static void $name(const int8_t *x, int8_t *y, const ${name}_t *s)
{
    const window_t *w = &s->window;
    const int32_t channels = w->in_channels, row = w->in_width * channels;
    for (int32_t b = 0; b < w->batches; b++, x += w->in_height * row) {
        for (int32_t out_y = 0; out_y < w->out_height; out_y++) {
            const int32_t top = out_y * w->stride_y - w->pad_top;
            const int32_t first_y = top < 0 ? 0 : top, end = top + w->height;
            const int32_t end_y = end > w->in_height ? w->in_height : end;
            for (int32_t out_x = 0; out_x < w->out_width; out_x++, y += channels) {
                const int32_t left = out_x * w->stride_x - w->pad_left;
                const int32_t first_x = left < 0 ? 0 : left, side = left + w->width;
                const int32_t end_x = side > w->in_width ? w->in_width : side;
                const int32_t count = (end_y - first_y) * (end_x - first_x);
                int32_t c = 0;
                for (; c + 8 <= channels; c += 8) {
                    int16x8_t sums = vdupq_n_s16(0);
                    for (int32_t i = first_y; i < end_y; i++) {
                        for (int32_t j = first_x; j < end_x; j++) {
                            sums = vaddw_s8(sums, vld1_s8(x + i * row + j * channels + c));
                        }
                    }
                    ${name}_eight(y + c, sums, count, s);
                }
                for (; c < channels; c++) {
                    int32_t sum = 0;
                    for (int32_t i = first_y; i < end_y; i++) {
                        for (int32_t j = first_x; j < end_x; j++) {
                            sum += x[i * row + j * channels + c];
                        }
                    }
                    y[c] = ${name}_mean(sum, count, s);
                }
            }
        }
    }
}
