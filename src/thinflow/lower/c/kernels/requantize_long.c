/* A sum of 64 bits at the scale of the output, by a multiplier of 31 bits, rounded once, halves upwards. */
typedef struct {
    const int64_t *bias;       /* [channels] */
    const int32_t *multiplier; /* [channels], or [1] */
    const int8_t *shift;       /* as many; to the left if positive */
    int32_t step;              /* from channel to channel: 1, or 0 if all have the same factor */
    int32_t zero_point, min, max;
} requantize_long_t;

static int32_t requantize_long(int64_t sum, const requantize_long_t *q, int32_t channel)
{
    const int32_t shift = 31 - q->shift[channel * q->step];
    const int64_t multiplier = q->multiplier[channel * q->step];
    /* In two parts: the product may need more than 64 bits. */
    const int64_t low = (sum & 0xffff) * multiplier + ((int64_t)1 << (shift - 1));
    const int64_t y = (((sum >> 16) * multiplier + (low >> 16)) >> (shift - 16)) + q->zero_point;
    return y < q->min ? q->min : y > q->max ? q->max : (int32_t)y;
}
