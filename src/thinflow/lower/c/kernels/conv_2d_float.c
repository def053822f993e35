#include "patch.c"
#include "product_float.c"

typedef struct {
    window_t window;
    int32_t filter_channels; /* fewer than those of the input if there are groups of filters */
    float min, max;
} ${name}_t;

/* Two patches of the input at a time, side by side in `columns`, then their product with the filters of each group. */
static void $name(const float *x, float *y, const float *w, const float *bias, float *columns, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t depth = window->height * window->width * s->filter_channels;
    const int32_t groups = window->in_channels / s->filter_channels;
    const int32_t filters = window->out_channels / groups;
    const int32_t blocks = (filters + 7) / 8 * 8;
    const int32_t pixels = window->out_height * window->out_width;
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
            const int32_t rows = pixel + 1 < pixels ? 2 : 1;
            for (int32_t g = 0; g < groups; g++) {
                for (int32_t r = 0; r < rows; r++) {
                    patch_$type(x, columns + r * depth, window, (pixel + r) / window->out_width,
                                (pixel + r) % window->out_width, g * s->filter_channels, s->filter_channels, 0);
                }
                product_float(columns, y + g * filters, w + g * blocks * depth, bias + g * blocks, rows, depth, 0, filters,
                              window->out_channels, s->min, s->max);
            }
            y += rows * window->out_channels;
        }
        x += window->in_height * window->in_width * window->in_channels;
    }
}
