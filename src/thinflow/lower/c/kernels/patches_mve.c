#include "bytes_mve.c"
#include "window.c"

typedef struct {
    const int8_t *x;
    int32_t out_x, out_y;
} patches_mve_t;

/* The next patch of a picture, and where the one after it is. */
__attribute__((unused)) static void
$name(patches_mve_t *at, int8_t *to, const window_t *window, int32_t outside)
{
    const int32_t channels = window->in_channels;
    const int32_t row = window->width * channels, step = window->in_width * channels;
    const int32_t left = at->out_x * window->stride_x - window->pad_left;
    const int32_t begin = left < 0 ? -left : 0;
    const int32_t end = window->in_width - left < window->width ? window->in_width - left : window->width;
    int32_t in_y = at->out_y * window->stride_y - window->pad_top;
    const int8_t *from = at->x + in_y * step + (left + begin) * channels;
    for (int32_t i = 0; i < window->height; i++, in_y++, from += step, to += row) {
        const bool is_in = in_y >= 0 && in_y < window->in_height;
        if (!is_in || begin > 0 || end < window->width) {
            fill_mve(to, outside, row);
        }
        if (is_in) {
            copy_mve(to + begin * channels, from, (end - begin) * channels);
        }
    }
    if (++at->out_x == window->out_width) {
        at->out_x = 0;
        if (++at->out_y == window->out_height) {
            at->out_y = 0;
            at->x += window->in_height * step;
        }
    }
}
