#include "bytes_mve.c"
#include "requantize_mve_$halves.c"
#include "window.c"

typedef struct {
    window_t window;
    const int32_t *factors; /* of each four channels: biases, multipliers, summands, shifts */
    int32_t outside;        /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* Four channels at a time. taps: a pointer for each tap of the window; then a pixel of what lies outside. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, const int8_t **taps, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->out_channels, area = window->height * window->width;
    int8_t *const outside = (int8_t *)(taps + area);
    const int32x4_t least = vdupq_n_s32(s->min), most = vdupq_n_s32(s->max);
    fill_mve(outside, s->outside, channels);
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t out_y = 0; out_y < window->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < window->out_width; out_x++, y += channels) {
                const int8_t **tap = taps;
                for (int32_t i = 0; i < window->height; i++) {
                    const int32_t in_y = out_y * window->stride_y - window->pad_top + i;
                    for (int32_t j = 0; j < window->width; j++) {
                        const int32_t in_x = out_x * window->stride_x - window->pad_left + j;
                        const bool is_in = in_y >= 0 && in_y < window->in_height && in_x >= 0 && in_x < window->in_width;
                        *tap++ = is_in ? x + (in_y * window->in_width + in_x) * channels : outside;
                    }
                }
                for (int32_t c = 0; c < channels; c += 4) {
                    const mve_pred16_t some = vctp32q((uint32_t)(channels - c));
                    const int32_t *const f = s->factors + 4 * c;
                    const int8_t *weight = w + c;
                    int32x4_t sums = vldrwq_s32(f);
                    for (tap = taps; tap < taps + area; weight += channels) {
                        const int32x4_t values = vldrbq_z_s32(*tap++ + c, some);
                        sums = vaddq_s32(sums, vmulq_s32(values, vldrbq_s32(weight)));
                    }
                    sums = vminq_s32(vmaxq_s32(requantize_mve_$halves(sums, f + 4), least), most);
                    vstrbq_p_s32(y + c, sums, some);
                }
            }
        }
        x += window->in_height * window->in_width * channels;
    }
}
