#include <math.h>

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t first, y_first; /* where the first step is; the last of all if time runs backwards */
    int32_t inputs, units;
    const float *weights, *recurrent, *bias; /* [units, inputs], [units, units], [units] */
} ${name}_t;

/* A layer of simple cells over all steps. h [batches, units] stays from run to run. */
static void $name(const float *x, float *y, float *h, const ${name}_t *s)
{
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const float *in = x + s->first + step * s->time_step + b * s->batch_step;
            float *state = h + b * s->units, *out = y + s->y_first + step * s->y_time_step + b * s->y_batch_step;
            for (int32_t u = 0; u < s->units; u++) {
                float total = s->bias[u];
                for (int32_t k = 0; k < s->inputs; k++) {
                    total += s->weights[u * s->inputs + k] * in[k];
                }
                for (int32_t k = 0; k < s->units; k++) {
                    total += s->recurrent[u * s->units + k] * state[k];
                }
                out[u] = $expression;
            }
            memcpy(state, out, (size_t)s->units * sizeof *state);
        }
    }
}
