#include "scale_twice.c"

typedef struct {
    int32_t batches, inputs, filters, rank, memory;
    const int8_t *features;        /* [filters, inputs] */
    const int16_t *times;          /* [filters, memory] */
    const int32_t *feature_bias;   /* [filters], the zero point of the input in it */
    const int32_t *bias;           /* [filters / rank] */
    int32_t feature_multiplier, feature_shift, multiplier, shift, zero_point;
} ${name}_t;

/* Each filter keeps its last features in 16 bits, the newest behind the others, and weighs them by their age. kept [batches,
   filters, memory]. */
static void $name(const int8_t *x, int8_t *y, int16_t *kept, const ${name}_t *s)
{
    for (int32_t b = 0; b < s->batches; b++, x += s->inputs) {
        for (int32_t unit = 0; unit < s->filters / s->rank; unit++) {
            /* Unsigned: a sum that does not fit wraps, as LiteRT's does. */
            uint32_t total = (uint32_t)s->bias[unit];
            for (int32_t r = 0; r < s->rank; r++) {
                const int32_t filter = unit * s->rank + r;
                int16_t *last = kept + (b * s->filters + filter) * s->memory;
                int32_t newest = s->feature_bias[filter];
                for (int32_t i = 0; i < s->inputs; i++) {
                    newest += s->features[filter * s->inputs + i] * x[i];
                }
                newest = scale_twice(newest, s->feature_multiplier, s->feature_shift);
                memmove(last, last + 1, (size_t)(s->memory - 1) * sizeof *last);
                last[s->memory - 1] = (int16_t)(newest < -32768 ? -32768 : newest > 32767 ? 32767 : newest);
                for (int32_t i = 0; i < s->memory; i++) {
                    total += (uint32_t)(s->times[filter * s->memory + i] * last[i]);
                }
            }
            const int32_t value = scale_twice((int32_t)total, s->multiplier, s->shift) + s->zero_point;
            *y++ = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
        }
    }
}
