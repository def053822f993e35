#include "scale_twice.c"

/* A sum at the scale of the output, rounded twice. */
typedef struct {
    const int32_t *bias;       /* [channels], with the zero point of the input in it */
    const int32_t *multiplier; /* [channels], or [1] */
    const int8_t *shift;       /* as many; to the left if positive */
    int32_t step;              /* from channel to channel: 1, or 0 if all have the same factor */
    int32_t zero_point, min, max;
} requantize_twice_t;

static int32_t requantize_twice(int32_t sum, const requantize_twice_t *q, int32_t channel)
{
    int32_t y = scale_twice(sum, q->multiplier[channel * q->step], q->shift[channel * q->step]) + q->zero_point;
    y = y < q->min ? q->min : y;
    return y > q->max ? q->max : y;
}
