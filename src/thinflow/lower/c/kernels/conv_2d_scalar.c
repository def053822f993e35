#include "patch.c"
#include "product_scalar.c"

typedef struct {
    window_t window;
    int32_t depth;   /* of a patch */
    int8_t outside;  /* the input's zero point */
    requantize_high_t output;
} ${name}_t;

/* $rest patches of the input side by side in `columns`, then their product with the filters. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int8_t *columns, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t filters = window->out_channels;
    for (int32_t b = 0; b < window->batches; b++, x += window->in_height * window->in_width * window->in_channels) {
        int32_t out_y = 0, out_x = 0, first = 0;
        for (int32_t left = window->out_height * window->out_width; left > 0; left -= $rest) {
            if (left < $rest) {
                /* Where there are fewer, those before them are computed once more. */
                first = $rest - left;
                memmove(columns, columns + left * s->depth, (size_t)(first * s->depth));
            }
            for (int32_t m = first; m < $rest; m++) {
                patch_int8(x, columns + m * s->depth, window, out_y, out_x, 0, window->in_channels, s->outside);
                if (++out_x == window->out_width) {
                    out_x = 0;
                    out_y++;
                }
            }
            y -= first * filters;
            product_scalar_${halves}_${blocks}_$rest(columns, y, w, s->depth, filters, &s->output);
            y += $rest * filters;
        }
    }
}
