#include "patch.c"
#include "product.c"

typedef struct {
    window_t window;
    int32_t filter_channels; /* fewer than those of the input if there are groups of filters */
    int32_t w_zero_point;
    ${c_type} outside; /* the input's zero point */
    requantize_${rounding}_t output;
} ${name}_t;

/* Two patches of the input at a time, side by side in `columns`, then their product with the filters of each group. */
static void $name(const ${c_type} *x, ${c_type} *y, const int8_t *w, ${c_type} *columns, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t depth = window->height * window->width * s->filter_channels;
    const int32_t groups = window->in_channels / s->filter_channels;
    const int32_t filters = window->out_channels / groups;
    const int32_t pixels = window->out_height * window->out_width;
    for (int32_t b = 0; b < window->batches; b++) {
        for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
            const int32_t rows = pixel + 1 < pixels ? 2 : 1;
            for (int32_t g = 0; g < groups; g++) {
                for (int32_t r = 0; r < rows; r++) {
                    patch_$type(x, columns + r * depth, window, (pixel + r) / window->out_width,
                                (pixel + r) % window->out_width, g * s->filter_channels, s->filter_channels, s->outside);
                }
                product_${type}_$rounding(columns, y, w, rows, depth, g * filters, (g + 1) * filters, window->out_channels,
                                          s->w_zero_point, &s->output);
            }
            y += rows * window->out_channels;
        }
        x += window->in_height * window->in_width * window->in_channels;
    }
}
