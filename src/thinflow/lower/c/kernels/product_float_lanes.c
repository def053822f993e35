#include "floats_put.c"

/* $rest rows times all filters: y [$rest, filters] of x [$rest, depth] and w [-1, depth, $blocks registers]. */
static void $name(const float *x, float *y, const float *w, const float *bias, int32_t depth, int32_t filters, float min,
                  float max)
{
    for (int32_t first = 0; first < filters; first += $blocks * LANES) {
        floats_t sums[$rest][$blocks];
#pragma GCC unroll 16
        for (int32_t m = 0; m < $rest; m++) {
#pragma GCC unroll 16
            for (int32_t n = 0; n < $blocks; n++) {
                sums[m][n] = floats_all(0.0f);
            }
        }
        for (int32_t k = 0; k < depth; k++, w += $blocks * LANES) {
            floats_t filter[$blocks];
#pragma GCC unroll 16
            for (int32_t n = 0; n < $blocks; n++) {
                filter[n] = floats_at(w, n * LANES);
            }
#pragma GCC unroll 16
            for (int32_t m = 0; m < $rest; m++) {
                const floats_t same = floats_all(x[m * depth + k]);
#pragma GCC unroll 16
                for (int32_t n = 0; n < $blocks; n++) {
                    sums[m][n] = lanes_line(same, filter[n], sums[m][n]);
                }
            }
        }
#pragma GCC unroll 16
        for (int32_t m = 0; m < $rest; m++) {
#pragma GCC unroll 16
            for (int32_t n = 0; n < $blocks; n++) {
                const int32_t at = first + n * LANES;
                floats_put(y + m * filters + at, sums[m][n], bias + at, filters - at, min, max);
            }
        }
    }
}
