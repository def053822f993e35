#include "bytes_mve.c"
#include "product_mve.c"
#include "requantize_mve_$halves.c"
#include "window.c"

typedef struct {
    window_t window;
    const int32_t *factors; /* of each four filters: biases, multipliers, summands, shifts */
    int32_t depth;          /* of a patch, to a multiple of 16 */
    int32_t outside;        /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* The patches of two pixels, then their product with four filters after the other. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int8_t *patches, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t channels = window->in_channels, filters = window->out_channels;
    const int32_t row = window->width * channels, step = window->in_width * channels;
    const int32_t pixels = window->batches * window->out_height * window->out_width;
    const int32x4_t least = vdupq_n_s32(s->min), most = vdupq_n_s32(s->max);
    int32_t out_x = 0, out_y = 0;
    product_mve_t block;
    block.bytes = s->depth;
    for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
        const int32_t count = pixels - pixel < 2 ? 1 : 2;
        const int8_t *filter = w;
        for (int32_t r = 0; r < count; r++) {
            const int32_t left = out_x * window->stride_x - window->pad_left;
            const int32_t begin = left < 0 ? -left : 0;
            const int32_t end = window->in_width - left < window->width ? window->in_width - left : window->width;
            int32_t in_y = out_y * window->stride_y - window->pad_top;
            const int8_t *from = x + in_y * step + (left + begin) * channels;
            int8_t *to = patches + r * s->depth;
            for (int32_t i = 0; i < window->height; i++, in_y++, from += step, to += row) {
                if (in_y < 0 || in_y >= window->in_height) {
                    fill_mve(to, s->outside, row);
                    continue;
                }
                if (begin > 0 || end < window->width) {
                    fill_mve(to, s->outside, row);
                }
                copy_mve(to + begin * channels, from, (end - begin) * channels);
            }
            if (++out_x == window->out_width) {
                out_x = 0;
                if (++out_y == window->out_height) {
                    out_y = 0;
                    x += window->in_height * step;
                }
            }
        }
        block.bias = s->factors;
        for (int32_t f = 0; f < filters; f += 4, filter += 4 * s->depth, block.bias += 16) {
            const mve_pred16_t some = vctp32q((uint32_t)(filters - f));
            product_mve(patches, patches + (count - 1) * s->depth, filter, &block);
            for (int32_t r = 0; r < count; r++) {
                int32x4_t four = requantize_mve_$halves(vldrwq_s32(block.sums + 4 * r), block.bias + 4);
                four = vminq_s32(vmaxq_s32(four, least), most);
                vstrbq_p_s32(y + r * filters + f, four, some);
            }
        }
        y += 2 * filters;
    }
}
