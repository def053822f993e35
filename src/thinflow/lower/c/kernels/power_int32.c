#include "broadcast.c"
#include <math.h>

/* Whole numbers to the power of others; one that is too large is the largest there is. */
static void $name(const int32_t *a, const int32_t *b, int32_t *y, const broadcast_t *t)
{
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const int32_t *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const int32_t *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const double power = pow(a_run[l * t->a_step[3]], b_run[l * t->b_step[3]]);
                    *y++ = power >= 2147483647.0 ? INT32_MAX : power <= -2147483648.0 ? INT32_MIN : (int32_t)power;
                }
            }
        }
    }
}
