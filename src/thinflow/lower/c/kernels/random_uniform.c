#include "random_bits.c"
#include "random_real.c"

typedef struct {
    int32_t count;
    uint32_t seeds[4];
} ${name}_t;

/* Reals from 0 to below 1, all equally likely; the next run goes on with the next block of the stream. */
static void $name(float *y, int64_t *block, const ${name}_t *s)
{
    uint32_t bits[4];
    for (int32_t i = 0; i < s->count; i += 4) {
        random_bits(bits, s->seeds, (uint64_t)block[0]++);
        for (int32_t k = 0; k < 4 && i + k < s->count; k++) {
            y[i + k] = random_real(bits[k]);
        }
    }
}
