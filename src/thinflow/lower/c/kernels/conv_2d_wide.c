#include "patch.c"
#include "product_wide.c"
#include "requantize_$rounding.c"

typedef struct {
    window_t window;
    int32_t filter_channels; /* fewer than those of the input if there are groups of filters */
    requantize_${rounding}_t output;
} ${name}_t;

/* A patch of the input at a time, then its product with the filters of each group. */
static void $name(const int16_t *x, int16_t *y, const int8_t *w, int16_t *patch, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t depth = window->height * window->width * s->filter_channels;
    const int32_t groups = window->in_channels / s->filter_channels;
    const int32_t filters = window->out_channels / groups;
    for (int32_t b = 0; b < window->batches; b++, x += window->in_height * window->in_width * window->in_channels) {
        for (int32_t out_y = 0; out_y < window->out_height; out_y++) {
            for (int32_t out_x = 0; out_x < window->out_width; out_x++) {
                for (int32_t g = 0; g < groups; g++) {
                    patch_$type(x, patch, window, out_y, out_x, g * s->filter_channels, s->filter_channels, 0);
                    for (int32_t f = g * filters; f < (g + 1) * filters; f++) {
                        const int64_t sum = s->output.bias[f] + product_wide(patch, w + f * depth, depth);
                        *y++ = (int16_t)requantize_$rounding(${narrow}sum, &s->output, f);
                    }
                }
            }
        }
    }
}
