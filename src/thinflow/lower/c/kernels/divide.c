#include "broadcast.c"
#include "leading_zeros.c"
#include "reciprocal.c"

typedef struct {
    broadcast_t shape;
    int32_t a_zero_point, b_zero_point, y_zero_point, multiplier, shift, min, max;
} ${name}_t;

static int32_t ${name}_one(int32_t a, int32_t b, const ${name}_t *s)
{
    const int32_t sign = (a < 0) == (b < 0) ? 1 : -1;
    const uint32_t divisor = (uint32_t)(b < 0 ? -b : b);
    const int32_t leading = leading_zeros(divisor);
    const int32_t dividend = sign * (a < 0 ? -a : a);
    const int32_t room = leading_zeros((uint32_t)(dividend < 0 ? ~dividend : dividend)) - 1;
    const int32_t shift = 31 - leading + room - s->shift;
    int32_t quotient, mask;
    if (divisor == 0) {
        return s->y_zero_point;
    }
    quotient = doubled_high((int32_t)((uint32_t)dividend << room), reciprocal((int32_t)((divisor << leading) - (1u << 31))));
    quotient = doubled_high(quotient, s->multiplier);
    /* Quotients far below 1 would be shifted out; LiteRT's kernel shifts them by what processors make of that. */
    mask = shift < 0 || shift > 31 ? -1 : (int32_t)((1u << shift) - 1u);
    return (quotient >> (shift & 31)) + ((quotient & mask) > (mask >> 1) + (quotient < 0)) + s->y_zero_point;
}

/* Quotients of two inputs, at the scale of the output; what LiteRT refuses while it runs, a division by 0, is 0. */
static void $name(const ${c_type} *a, const ${c_type} *b, ${c_type} *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${c_type} *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t value =
                        ${name}_one(a_run[l * t->a_step[3]] - s->a_zero_point, b_run[l * t->b_step[3]] - s->b_zero_point, s);
                    *y++ = (${c_type})(value < s->min ? s->min : value > s->max ? s->max : value);
                }
            }
        }
    }
}
