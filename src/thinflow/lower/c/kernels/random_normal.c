#include <math.h>
#include "random_bits.c"
#include "random_real.c"

typedef struct {
    int32_t count;
    uint32_t seeds[4];
} ${name}_t;

/* Reals around 0 with a deviation of 1, two of two even ones by Box and Muller; the next run goes on with the next block of the
   stream. */
static void $name(float *y, int64_t *block, const ${name}_t *s)
{
    uint32_t bits[4];
    for (int32_t i = 0; i < s->count; i += 4) {
        random_bits(bits, s->seeds, (uint64_t)block[0]++);
        for (int32_t k = 0; k < 4 && i + k < s->count; k += 2) {
            const float even = random_real(bits[k]), angle = (float)(2.0 * 3.14159265358979323846 * (double)random_real(bits[k + 1]));
            const float radius = sqrtf(-2.0f * logf(even < 1.0e-7f ? 1.0e-7f : even));
            y[i + k] = sinf(angle) * radius;
            if (i + k + 1 < s->count) {
                y[i + k + 1] = cosf(angle) * radius;
            }
        }
    }
}
