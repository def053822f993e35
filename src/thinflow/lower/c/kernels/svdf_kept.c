#include <math.h>

typedef struct {
    int32_t batches, inputs, filters, rank, memory;
    const float *times; /* [filters, memory] */
    const float *bias;  /* [filters / rank] */
} ${name}_t;

/* Each filter keeps its last features, the newest [batches, filters] behind the others, and weighs them by their age. kept
   [batches, filters, memory]. */
static void $name(const float *newest, float *y, float *kept, const ${name}_t *s)
{
    for (int32_t b = 0; b < s->batches; b++) {
        for (int32_t unit = 0; unit < s->filters / s->rank; unit++) {
            float total = s->bias[unit];
            for (int32_t filter = unit * s->rank; filter < (unit + 1) * s->rank; filter++) {
                float *last = kept + (b * s->filters + filter) * s->memory;
                float sum = 0;
                memmove(last, last + 1, (size_t)(s->memory - 1) * sizeof *last);
                last[s->memory - 1] = newest[b * s->filters + filter];
                for (int32_t i = 0; i < s->memory; i++) {
                    sum += s->times[filter * s->memory + i] * last[i];
                }
                total += sum;
            }
            *y++ = $expression;
        }
    }
}
