#include "outputs_$halves.c"
#include "windows_lanes.c"

/* $rest windows, $step elements apart, times $blocks registers of filters. */
static void $name(const panel_t *x, int8_t *y, const int8_t *w, int32_t first, const product_lanes_t *s)
{
    const lanes_t least = lanes_all(s->output.min), most = lanes_all(s->output.max);
    lanes_t sums[$rest][$blocks];
#pragma GCC unroll 16
    for (int32_t m = 0; m < $rest; m++) {
#pragma GCC unroll 16
        for (int32_t n = 0; n < $blocks; n++) {
            sums[m][n] = lanes_at(s->output.bias + first + n * LANES);
        }
    }
    for (int32_t i = 0; i < s->lines; i++) {
        for (int32_t j = 0; j < s->pieces; j++) {
            const panel_t *at = x + i * s->line_step + j * s->piece_step;
            for (int32_t k = 0; k < s->groups; k++, at += GROUP, w += $blocks * GROUP * LANES) {
                lanes_t filters[$blocks];
#pragma GCC unroll 16
                for (int32_t n = 0; n < $blocks; n++) {
                    filters[n] = lanes_weights(w + n * GROUP * LANES);
                }
#pragma GCC unroll 16
                for (int32_t m = 0; m < $rest; m++) {
                    const lanes_t four = lanes_spread(at + m * $step);
#pragma GCC unroll 16
                    for (int32_t n = 0; n < $blocks; n++) {
                        sums[m][n] = lanes_products(sums[m][n], filters[n], four);
                    }
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int32_t n = 0; n < $blocks; n++) {
        const int32_t from = first + n * LANES;
        if (from < s->filters) {
            const some_t some = lanes_some(s->filters - from);
#pragma GCC unroll 16
            for (int32_t m = 0; m < $rest; m++) {
                const lanes_t value = outputs_$halves(sums[m][n], &s->output, from);
                lanes_put(y + m * s->filters + from, lanes_held(value, least, most), some);
            }
        }
    }
}
