#include "requantize_high.c"
#include "high_$halves.c"

/* $rest rows times the filters, $blocks of them at a time, whose weights lie side by side. */
__attribute__((noinline)) static void $name(const int8_t *x, int8_t *y, const int8_t *w, int32_t depth, int32_t filters,
                                            const requantize_high_t *q)
{
    const int32_t *factor = q->factors;
    for (int32_t f = 0; f < filters; f += $blocks) {
        const int8_t *at[$rest];
        int32_t sums[$rest][$blocks];
#pragma GCC unroll 4
        for (int32_t m = 0; m < $rest; m++) {
            at[m] = x + m * depth;
#pragma GCC unroll 16
            for (int32_t n = 0; n < $blocks; n++) {
                sums[m][n] = q->bias[f + n];
            }
        }
        int32_t k = depth;
        for (; k >= $unrolled; k -= $unrolled, w += $unrolled * $blocks) {
#pragma GCC unroll 16
            for (int32_t i = 0; i < $unrolled; i++) {
                int32_t elements[$rest];
#pragma GCC unroll 4
                for (int32_t m = 0; m < $rest; m++) {
                    elements[m] = at[m][i];
                }
#pragma GCC unroll 16
                for (int32_t n = 0; n < $blocks; n++) {
                    const int32_t weight = w[i * $blocks + n];
#pragma GCC unroll 4
                    for (int32_t m = 0; m < $rest; m++) {
                        sums[m][n] += weight * elements[m];
                        /* Compilers would read all before they multiply, and run out of registers. */
                        __asm__ volatile("" : "+r"(sums[m][n]));
                    }
                }
            }
#pragma GCC unroll 4
            for (int32_t m = 0; m < $rest; m++) {
                at[m] += $unrolled;
            }
        }
        for (; k > 0; k--, w += $blocks) {
#pragma GCC unroll 4
            for (int32_t m = 0; m < $rest; m++) {
                const int32_t element = *at[m]++;
#pragma GCC unroll 16
                for (int32_t n = 0; n < $blocks; n++) {
                    sums[m][n] += w[n] * element;
                }
            }
        }
#pragma GCC unroll 16
        for (int32_t n = 0; n < $blocks; n++) {
            if (f + n < filters) {
#pragma GCC unroll 4
                for (int32_t m = 0; m < $rest; m++) {
                    y[m * filters + f + n] = (int8_t)high_$halves(sums[m][n], factor, q->min, q->max);
                }
                factor += q->step;
            }
        }
    }
}
