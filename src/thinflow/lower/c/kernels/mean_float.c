#include <math.h>

typedef struct {
    int32_t outer, count, inner;
    float factor; /* scale of the input over that of the output and the count */
    int32_t x_zero_point, y_zero_point, min, max;
} ${name}_t;

/* The mean over the middle of three dimensions, rounded once, halves to the even number. */
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
            int32_t value = (int32_t)nearbyintf((float)(sums[i] - s->count * s->x_zero_point) * s->factor) + s->y_zero_point;
            value = value < s->min ? s->min : value;
            *y++ = (${c_type})(value > s->max ? s->max : value);
        }
    }
}
