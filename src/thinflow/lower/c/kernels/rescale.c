#include "scale_twice.c"

typedef struct {
    int32_t count, x_zero_point, multiplier, shift, y_zero_point, min, max;
} ${name}_t;

/* Numbers at another scale. */
static void $name(const ${c_type} *x, ${y_type} *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count; i++) {
        const int32_t value = scale_twice(x[i] - s->x_zero_point, s->multiplier, s->shift) + s->y_zero_point;
        y[i] = (${y_type})(value < s->min ? s->min : value > s->max ? s->max : value);
    }
}
