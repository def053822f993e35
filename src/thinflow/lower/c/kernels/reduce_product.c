#include "scale_wide.c"

typedef struct {
    int32_t outer, count, inner;
    int32_t multiplier, shift; /* scale of the input over that root of the output's which so many need */
    int32_t x_zero_point, y_zero_point, min, max;
} ${name}_t;

/* The product over the middle of three dimensions, rounded after each factor. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t o = 0; o < s->outer; o++, x += s->count * s->inner) {
        for (int32_t i = 0; i < s->inner; i++) {
            int32_t total = x[i] - s->x_zero_point;
            for (int32_t k = 1; k < s->count; k++) {
                const int64_t next = (int64_t)total * (x[k * s->inner + i] - s->x_zero_point);
                total = scale_wide(next, s->multiplier, s->shift);
            }
            int32_t value = scale_wide(total, s->multiplier, s->shift) + s->y_zero_point;
            value = value < s->min ? s->min : value;
            *y++ = (${c_type})(value > s->max ? s->max : value);
        }
    }
}
