#include <arm_neon.h>
#include "window.c"

typedef struct {
    window_t window;
    int8_t min, max;
} ${name}_t;

/* The largest under each window, sixteen or eight channels at once; what lies outside counts for nothing. */
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
                int32_t c = 0;
                for (; c + 16 <= channels; c += 16) {
                    int8x16_t most = vdupq_n_s8(s->min);
                    for (int32_t i = first_y; i < end_y; i++) {
                        for (int32_t j = first_x; j < end_x; j++) {
                            most = vmaxq_s8(most, vld1q_s8(x + i * row + j * channels + c));
                        }
                    }
                    vst1q_s8(y + c, vminq_s8(most, vdupq_n_s8(s->max)));
                }
                for (; c + 8 <= channels; c += 8) {
                    int8x8_t most = vdup_n_s8(s->min);
                    for (int32_t i = first_y; i < end_y; i++) {
                        for (int32_t j = first_x; j < end_x; j++) {
                            most = vmax_s8(most, vld1_s8(x + i * row + j * channels + c));
                        }
                    }
                    vst1_s8(y + c, vmin_s8(most, vdup_n_s8(s->max)));
                }
                for (; c < channels; c++) {
                    int8_t most = s->min;
                    for (int32_t i = first_y; i < end_y; i++) {
                        for (int32_t j = first_x; j < end_x; j++) {
                            const int8_t value = x[i * row + j * channels + c];
                            most = most < value ? value : most;
                        }
                    }
                    y[c] = most > s->max ? s->max : most;
                }
            }
        }
    }
}
