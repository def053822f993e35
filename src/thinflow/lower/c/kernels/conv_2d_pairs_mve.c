#include "bytes_mve.c"
#include "patches_mve.c"
#include "product_pairs_mve.c"

typedef struct {
    window_t window;
    const int32_t *factors; /* of each four filters: biases, multipliers, summands, shifts */
    int32_t depth;          /* of a patch, to a multiple of 16 */
    int32_t outside;        /* the input's zero point */
    int32_t min, max;
} ${name}_t;

/* The patches of two pixels, then their product with all filters. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, int8_t *patches, const ${name}_t *s)
{
    const window_t *window = &s->window;
    const int32_t filters = window->out_channels, channels = window->in_channels, depth = s->depth;
    const int32_t pixels = window->batches * window->out_height * window->out_width;
    product_pairs_mve_t block = {depth, s->factors, s->factors + 4 * filters, {0}};
    patches_mve_t at = {x, 0, 0};
    int8_t *to = y;
    for (int32_t pixel = 0; pixel < pixels; pixel += 2, to += 2 * filters) {
        /* The last of an odd number of pixels stands in for its neighbour, too. */
        const bool is_one = pixel + 1 == pixels;
        if (pixel == 0 || is_one) {
            for (int32_t i = 0; i < 8; i++) {
                block.places[i] = (uint16_t)(i / 2 + (is_one ? 0 : i % 2 * filters));
            }
        }
        if (!$pointwise) {
            patches_mve(&at, patches, window, s->outside);
            if (is_one) {
                copy_mve(patches + depth, patches, depth);
            } else {
                patches_mve(&at, patches + depth, window, s->outside);
            }
        } else {
            copy_mve(patches, x + pixel * channels, channels);
            copy_mve(patches + depth, x + (pixel + !is_one) * channels, channels);
        }
        product_pairs_mve_$halves(patches, w, to, &block);
    }
    if (s->min > -128 || s->max < 127) {
        clamp_bytes_mve(y, pixels * filters, s->min, s->max);
    }
}
