#include <math.h>
#include "random_bits.c"

typedef struct {
    int32_t batches, classes, samples;
    int64_t blocks; /* of the stream, that a run leaves behind */
    uint32_t seeds[4];
} ${name}_t;

/* Classes as likely as the exponentials of their x, a number of them for each row of x. below: [classes]. */
static void $name(const float *x, ${c_type} *y, double *below, int64_t *block, const ${name}_t *s)
{
    uint32_t bits[4];
    uint64_t next = (uint64_t)block[0];
    int32_t used = 4;
    block[0] += s->blocks;
    for (int32_t b = 0; b < s->batches; b++, x += s->classes) {
        float most = -3.40282347e38f;
        for (int32_t c = 0; c < s->classes; c++) {
            most = isfinite(x[c]) && x[c] > most ? x[c] : most;
        }
        double total = 0;
        for (int32_t c = 0; c < s->classes; c++) {
            total += isfinite(x[c]) ? exp((double)x[c] - (double)most) : 0.0;
            below[c] = total;
        }
        for (int32_t i = 0; i < s->samples; i++, used += 2) {
            if (used == 4) {
                random_bits(bits, s->seeds, next++);
                used = 0;
            }
            /* A real of 52 bits, from 0 to below 1. */
            const uint64_t whole = (uint64_t)(bits[used] & 0xfffffu) << 32 | bits[used + 1];
            const double wanted = (double)whole * (1.0 / 4503599627370496.0) * total;
            int32_t found = 0;
            while (found < s->classes && below[found] <= wanted) {
                found++;
            }
            *y++ = found;
        }
    }
}
