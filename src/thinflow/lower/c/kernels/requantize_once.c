/* A sum at the scale of the output, rounded once, halves upwards. */
typedef struct {
    const int32_t *bias;       /* [channels], with the zero point of the input in it */
    const int32_t *multiplier; /* [channels], or [1] */
    const int8_t *shift;       /* as many; to the left if positive */
    int32_t step;              /* from channel to channel: 1, or 0 if all have the same factor */
    int32_t zero_point, min, max;
} requantize_once_t;

static int32_t requantize_once(int32_t sum, const requantize_once_t *q, int32_t channel)
{
    const int32_t shift = 31 - q->shift[channel * q->step];
    const int64_t product = (int64_t)sum * q->multiplier[channel * q->step];
    int32_t y = (int32_t)((product + ((int64_t)1 << (shift - 1))) >> shift) + q->zero_point;
    y = y < q->min ? q->min : y;
    return y > q->max ? q->max : y;
}
