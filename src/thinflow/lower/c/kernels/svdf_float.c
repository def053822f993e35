#include <math.h>

typedef struct {
    int32_t batches, inputs, filters, rank, memory;
    const float *features; /* [filters, inputs] */
    const float *times;    /* [filters, memory] */
    const float *bias;     /* [filters / rank] */
} ${name}_t;

/* Each filter keeps its last features, the newest behind the others, and weighs them by their age. memory [batches, filters,
   memory]. */
static void $name(const float *x, float *y, float *kept, const ${name}_t *s)
{
    for (int32_t b = 0; b < s->batches; b++, x += s->inputs) {
        for (int32_t unit = 0; unit < s->filters / s->rank; unit++) {
            float total = s->bias[unit];
            for (int32_t r = 0; r < s->rank; r++) {
                const int32_t filter = unit * s->rank + r;
                float *last = kept + (b * s->filters + filter) * s->memory;
                float newest = 0, sum = 0;
                for (int32_t i = 0; i < s->inputs; i++) {
                    newest += s->features[filter * s->inputs + i] * x[i];
                }
                memmove(last, last + 1, (size_t)(s->memory - 1) * sizeof *last);
                last[s->memory - 1] = newest;
                for (int32_t i = 0; i < s->memory; i++) {
                    sum += s->times[filter * s->memory + i] * last[i];
                }
                total += sum;
            }
            *y++ = $expression;
        }
    }
}
