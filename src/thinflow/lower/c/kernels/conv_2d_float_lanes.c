#include "patch.c"
#include "product_float_lanes.c"

typedef struct {
    window_t window;
    float min, max;
} ${name}_t;

/* $rest patches of the input at a time, side by side in `columns`, then their product with all filters. */
static void $name(const float *x, float *y, const float *w, const float *bias, float *columns, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t depth = window->height * window->width * window->in_channels, filters = window->out_channels;
    const int32_t pixels = window->out_height * window->out_width;
    for (int32_t b = 0; b < window->batches; b++, y += pixels * filters) {
        for (int32_t pixel = 0; pixel < pixels; pixel += $rest) {
            /* The last ones begin earlier, and are computed twice in part. */
            const int32_t first = pixel + $rest > pixels ? pixels - $rest : pixel;
            for (int32_t r = 0; r < $rest; r++) {
                patch_$type(x, columns + r * depth, window, (first + r) / window->out_width,
                            (first + r) % window->out_width, 0, window->in_channels, 0);
            }
            product_float_lanes_${blocks}_${rest}(columns, y + first * filters, w, bias, depth, filters, s->min, s->max);
        }
        x += window->in_height * window->in_width * window->in_channels;
    }
}
