#include <math.h>
#include "quantize_rows.c"

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t first, y_first; /* where the first step is; the last of all if time runs backwards */
    int32_t inputs, units;
    bool symmetric; /* how inputs and states are rounded */
    const int8_t *weights, *recurrent;                  /* [units, inputs], [units, units] */
    const int32_t *weights_sums, *recurrent_sums;       /* of the weights of each unit */
    float weights_scale, recurrent_scale;
    const float *bias; /* [units] */
} ${name}_t;

static float ${name}_row(const int8_t *x, const int8_t *weights, int32_t depth, int32_t moved, float scale)
{
    int32_t sum = -moved;
    for (int32_t k = 0; k < depth; k++) {
        sum += x[k] * weights[k];
    }
    return (float)sum * scale;
}

/* A layer of simple cells over all steps; inputs and states are rounded to bytes in each. h [batches, units] stays from run to
   run. bytes: [inputs + units]. */
static void $name(const float *x, float *y, float *h, int8_t *bytes, const ${name}_t *s)
{
    int8_t *const kept = bytes + s->inputs;
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            float *state = h + b * s->units, *out = y + s->y_first + step * s->y_time_step + b * s->y_batch_step;
            float scale, kept_scale;
            int32_t zero, kept_zero;
            quantize_rows(x + s->first + step * s->time_step + b * s->batch_step, bytes, &scale, &zero, 1, s->inputs,
                          s->symmetric);
            quantize_rows(state, kept, &kept_scale, &kept_zero, 1, s->units, s->symmetric);
            scale *= s->weights_scale;
            kept_scale *= s->recurrent_scale;
            for (int32_t u = 0; u < s->units; u++) {
                float total = s->bias[u];
                total += ${name}_row(bytes, s->weights + u * s->inputs, s->inputs, zero * s->weights_sums[u], scale);
                total += ${name}_row(kept, s->recurrent + u * s->units, s->units, kept_zero * s->recurrent_sums[u], kept_scale);
                out[u] = $expression;
            }
            memcpy(state, out, (size_t)s->units * sizeof *state);
        }
    }
}
