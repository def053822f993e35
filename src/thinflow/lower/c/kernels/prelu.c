#include "broadcast.c"
#include "scale_twice.c"

typedef struct {
    broadcast_t shape;
    int32_t x_zero_point, slope_zero_point, y_zero_point;
    int32_t multiplier, shift, slope_multiplier, slope_shift; /* of what is positive, and of products with a slope */
} ${name}_t;

/* A slope for each channel where the input is negative. */
static void $name(const ${c_type} *x, const ${slope_type} *slopes, ${c_type} *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *x_run = x + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${slope_type} *slope_run = slopes + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t value = x_run[l * t->a_step[3]] - s->x_zero_point;
                    const int32_t slope = slope_run[l * t->b_step[3]] - s->slope_zero_point;
                    const int32_t found = value >= 0 ? scale_twice(value, s->multiplier, s->shift)
                                                     : scale_twice(value * slope, s->slope_multiplier, s->slope_shift);
                    const int32_t moved = found + s->y_zero_point;
                    *y++ = (${c_type})(moved < $least ? $least : moved > $most ? $most : moved);
                }
            }
        }
    }
}
