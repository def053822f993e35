#include "scale_twice.c"

typedef struct {
    int32_t outer, count, inner;
    int32_t multiplier, shift; /* scale of the input over that of the output and the count */
    int32_t x_zero_point, y_zero_point, min, max;
} ${name}_t;

/* The mean over the middle of three dimensions, rounded twice. */
static void $name(const ${c_type} *x, ${c_type} *y, int32_t *sums, const ${name}_t *s)
{
    for (int32_t o = 0; o < s->outer; o++, x += s->count * s->inner) {
        memset(sums, 0, (size_t)s->inner * sizeof *sums);
        for (int32_t k = 0; k < s->count; k++) {
            for (int32_t i = 0; i < s->inner; i++) {
                sums[i] += x[k * s->inner + i];
            }
        }
        for (int32_t i = 0; i < s->inner; i++) {
            const int32_t sum = sums[i] - s->count * s->x_zero_point;
            int32_t value = scale_twice(sum, s->multiplier, s->shift) + s->y_zero_point;
            value = value < s->min ? s->min : value;
            *y++ = (${c_type})(value > s->max ? s->max : value);
        }
    }
}
