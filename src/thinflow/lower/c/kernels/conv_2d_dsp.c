#include "clamp_dsp.c"
#include "product_dsp.c"
#include "widen_dsp.c"
#include "window.c"

typedef struct {
    window_t window;
    const int32_t *factors;
    int32_t skipped;
    int32_t outside;   /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* The patches of four pixels side by side, then their product with all filters.
   spare: [4, filters] bytes for the last pixels, then a patch. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int32_t *columns, int8_t *spare, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->in_channels, filters = window->out_channels;
    const int32_t row = window->width * channels, depth = (window->height * row + 3) & ~3;
    const int32_t pixels = window->batches * window->out_height * window->out_width;
    const int32_t pairs = filters >> 1, step = window->in_width * channels;
    const product_dsp_${halves}_t even = {8 * depth, filters, s->factors, s->factors + 8 * pairs, s->skipped};
    const product_dsp_${halves}_t last = {8 * depth, filters, even.factors_end, even.factors_end + 8 * (filters & 1),
                                          s->skipped};
    int8_t *const patch = spare + 4 * filters, *const first = y;
    const bool is_whole = channels % 4 == 0;
    int32_t out_x = 0, out_y = 0;
    memset(patch, s->outside, (size_t)(is_whole ? row : depth));
    for (int32_t pixel = 0; pixel < pixels; pixel += 4) {
        const int32_t count = pixels - pixel < 4 ? pixels - pixel : 4;
        int8_t *const to = count == 4 ? y : spare;
        for (int32_t r = 0; r < count; r++) {
            const int32_t left = out_x * window->stride_x - window->pad_left;
            const int32_t begin = left < 0 ? -left : 0;
            const int32_t end = window->in_width - left < window->width ? window->in_width - left : window->width;
            const int8_t *from = x + (out_y * window->stride_y - window->pad_top) * step + left * channels;
            int32_t *column = columns + r;
            int32_t in_y = out_y * window->stride_y - window->pad_top;
            if (is_whole) {
                for (int32_t i = 0; i < window->height; i++, in_y++, from += step) {
                    if (in_y < 0 || in_y >= window->in_height) {
                        column = widen_dsp(patch, row, column, 4);
                        continue;
                    }
                    column = widen_dsp(patch, begin * channels, column, 4);
                    column = widen_dsp(from + begin * channels, (end - begin) * channels, column, 4);
                    column = widen_dsp(patch, (window->width - end) * channels, column, 4);
                }
            } else {
                int8_t *at = patch;
                for (int32_t i = 0; i < window->height; i++, in_y++, from += step, at += row) {
                    if (in_y < 0 || in_y >= window->in_height || begin > 0 || end < window->width) {
                        memset(at, s->outside, (size_t)row);
                    }
                    if (in_y >= 0 && in_y < window->in_height) {
                        int8_t *byte = at + begin * channels;
                        const int8_t *source = from + begin * channels;
                        for (int32_t n = (end - begin) * channels; n > 0; n--) {
                            *byte++ = *source++;
                        }
                    }
                }
                widen_dsp(patch, depth, column, 4);
            }
            if (++out_x == window->out_width) {
                out_x = 0;
                if (++out_y == window->out_height) {
                    out_y = 0;
                    x += window->in_height * step;
                }
            }
        }
        product_dsp_$halves(w, columns, to, &even);
        if (filters & 1) {
            product_dsp_$halves(w + 2 * pairs * depth, columns, to + filters - 2, &last);
        }
        if (count < 4) {
            memcpy(y, spare, (size_t)(count * filters));
        }
        y += 4 * filters;
    }
    if (s->min > -128 || s->max < 127) {
        clamp_dsp(first, pixels * filters, s->min, s->max);
    }
}
