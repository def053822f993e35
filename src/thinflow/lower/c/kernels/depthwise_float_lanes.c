#include "window.c"
#include "floats_put.c"

typedef struct {
    window_t window;
    float min, max;
} ${name}_t;

/* Each channel by its own filter, $blocks registers of channels at a time. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->out_channels;
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t out_y = 0; out_y < window->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < window->out_width; out_x++, y += channels) {
                for (int32_t c = 0; c < channels; c += $blocks * LANES) {
                    /* The last ones begin earlier, and are computed twice in part. */
                    const int32_t first = c + $blocks * LANES > channels ? channels - $blocks * LANES : c;
                    floats_t sums[$blocks];
#pragma GCC unroll 16
                    for (int32_t n = 0; n < $blocks; n++) {
                        sums[n] = floats_all(0.0f);
                    }
                    for (int32_t i = 0; i < window->height; i++) {
                        const int32_t in_y = out_y * window->stride_y - window->pad_top + i * window->dilation_y;
                        if (in_y < 0 || in_y >= window->in_height) {
                            continue;
                        }
                        for (int32_t j = 0; j < window->width; j++) {
                            const int32_t in_x = out_x * window->stride_x - window->pad_left + j * window->dilation_x;
                            if (in_x < 0 || in_x >= window->in_width) {
                                continue;
                            }
                            const float *pixel = x + (in_y * window->in_width + in_x) * channels + first;
                            const float *tap = w + (i * window->width + j) * channels + first;
#pragma GCC unroll 16
                            for (int32_t n = 0; n < $blocks; n++) {
                                sums[n] = lanes_line(floats_at(pixel, n * LANES), floats_at(tap, n * LANES), sums[n]);
                            }
                        }
                    }
#pragma GCC unroll 16
                    for (int32_t n = 0; n < $blocks; n++) {
                        const int32_t at = first + n * LANES;
                        floats_put(y + at, sums[n], bias + at, LANES, s->min, s->max);
                    }
                }
            }
        }
        x += window->in_height * window->in_width * channels;
    }
}
