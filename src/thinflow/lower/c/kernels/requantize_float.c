/* A sum at the scale of the output by a float factor, rounded once, halves to the even number. */
typedef struct {
    const int32_t *bias; /* [channels], with the zero point of the input in it */
    const float *scale;  /* [channels], or [1] */
    int32_t step;        /* from channel to channel: 1, or 0 if all have the same factor */
    int32_t zero_point, min, max;
} requantize_float_t;

static int32_t requantize_float(int32_t sum, const requantize_float_t *q, int32_t channel)
{
    float y = (float)sum * q->scale[channel * q->step];
    const float least = (float)(q->min - q->zero_point), most = (float)(q->max - q->zero_point);
    uint32_t bits;
    y = y < least ? least : y;
    y = y > most ? most : y;
    /* Next to 1.5 * 2^23 floats are whole numbers: the addition rounds, and the number is in the low bits. */
    y += 12582912.0f;
    memcpy(&bits, &y, sizeof bits);
    return (int32_t)bits - 0x4b400000 + q->zero_point;
}
