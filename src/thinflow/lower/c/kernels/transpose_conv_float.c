#include "window.c"

typedef struct {
    window_t window; /* of the output over the input: the picture that is written has the pads */
    float min, max;
} ${name}_t;

/* Each pixel of the output is the sum of those of the input whose window it is in; filters [height, width, in, out]. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    const window_t *t = &s->window;
    const int32_t filters = t->out_channels;
    for (int32_t b = 0; b < t->batches; b++, x += t->in_height * t->in_width * t->in_channels) {
        for (int32_t out_y = 0; out_y < t->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < t->out_width; out_x++, y += filters) {
                memcpy(y, bias, (size_t)filters * sizeof *y);
                for (int32_t i = 0; i < t->height; i++) {
                    const int32_t down = out_y + t->pad_top - i;
                    if (down < 0 || down % t->stride_y != 0 || down / t->stride_y >= t->in_height) {
                        continue;
                    }
                    for (int32_t j = 0; j < t->width; j++) {
                        const int32_t across = out_x + t->pad_left - j;
                        if (across < 0 || across % t->stride_x != 0 || across / t->stride_x >= t->in_width) {
                            continue;
                        }
                        const float *pixel = x + (down / t->stride_y * t->in_width + across / t->stride_x) * t->in_channels;
                        const float *taps = w + (i * t->width + j) * t->in_channels * filters;
                        for (int32_t c = 0; c < t->in_channels; c++, taps += filters) {
                            for (int32_t f = 0; f < filters; f++) {
                                y[f] += pixel[c] * taps[f];
                            }
                        }
                    }
                }
                for (int32_t f = 0; f < filters; f++) {
                    y[f] = y[f] < s->min ? s->min : y[f] > s->max ? s->max : y[f];
                }
            }
        }
    }
}
