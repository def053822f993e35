#include <math.h>

/* ${what} over one dimension of three. */
static void $name(const float *x, float *y, int32_t outer, int32_t count, int32_t inner)
{
    for (int32_t o = 0; o < outer; o++, x += count * inner) {
        for (int32_t i = 0; i < inner; i++) {
            float total = $first;
            for (int32_t k = 0; k < count; k++) {
                const float value = x[k * inner + i];
                total = $expression;
            }
            *y++ = $last;
        }
    }
}
