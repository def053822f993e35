#include "window.c"

typedef struct {
    window_t window;
    int32_t multiplier; /* filters for each channel of the input */
    float min, max;
} ${name}_t;

/* Each channel by its own filters, all sums of a pixel side by side. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->out_channels;
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t out_y = 0; out_y < window->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < window->out_width; out_x++) {
                const float *tap = w;
                memset(y, 0, (size_t)channels * sizeof *y);
                for (int32_t i = 0; i < window->height; i++) {
                    const int32_t in_y = out_y * window->stride_y - window->pad_top + i * window->dilation_y;
                    for (int32_t j = 0; j < window->width; j++, tap += channels) {
                        const int32_t in_x = out_x * window->stride_x - window->pad_left + j * window->dilation_x;
                        if (in_y < 0 || in_y >= window->in_height || in_x < 0 || in_x >= window->in_width) {
                            continue;
                        }
                        const float *pixel = x + (in_y * window->in_width + in_x) * window->in_channels;
                        if (s->multiplier == 1) {
                            for (int32_t c = 0; c < channels; c++) {
                                y[c] += pixel[c] * tap[c];
                            }
                        } else {
                            for (int32_t c = 0; c < window->in_channels; c++) {
                                for (int32_t m = c * s->multiplier; m < (c + 1) * s->multiplier; m++) {
                                    y[m] += pixel[c] * tap[m];
                                }
                            }
                        }
                    }
                }
                for (int32_t c = 0; c < channels; c++) {
                    /* Last, as in LiteRT: in another order the last bit is another. */
                    y[c] += bias[c];
                    y[c] = y[c] < s->min ? s->min : y[c];
                    y[c] = y[c] > s->max ? s->max : y[c];
                }
                y += channels;
            }
        }
        x += window->in_height * window->in_width * window->in_channels;
    }
}
